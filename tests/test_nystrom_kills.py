"""A Nyström pass that is killed at any moment goes on where it was, and ends with the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kpca_stream.config import load_config
from kpca_stream.pipeline import fit_config
from kpca_stream.results import FitSummary
from kpca_stream.storage.basis import open_basis
from kpca_stream.telemetry import silent
from tests.disturb import killed, started, wait_until, write_yaml
from tests.jobs import command

pytestmark = pytest.mark.slow

N_ROWS, N_TASKS, N_KILLS = 170_000, 21, 5
SEED = 20261
FUNCTION = """
import time

import numpy as np


def slow_rbf(X, Y):
    time.sleep(0.002)
    return np.exp(-0.2 * ((X[:, None] - Y[None]) ** 2).sum(axis=-1))
"""


def write_job(folder: Path, kind: str) -> None:
    """Some twenty tasks that take their time, in windows of four, each of which is checkpointed."""
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((N_ROWS, 2)))
    (folder / "slow_kernel.py").write_text(FUNCTION)
    sections = {
        "name": "killed",
        "data": {"train": {"path": str(folder / "x.npy")}, "merge_duplicates": False},
        "kernel": {"name": "slow_kernel:slow_rbf"},
        "solver": {"method": "nystrom", "n_components": 4, "precision": "float64"},
        "nystrom": {"landmarks": 200, "method": "uniform"},
        "gram": {"path": "gram.zarr", "checkpoint_seconds": 0.001},
        "cluster": {"kind": kind, "n_workers": 2, "threads_per_worker": 1},
        "models": {"path": "models"},
    }
    write_yaml(folder / "c.yaml", sections)


def finished(folder: Path, store: Path, models: str) -> FitSummary:
    """The rest of a fit, in this process and on threads."""
    settings = [f"gram.path={store}", f"models.path={folder / models}", "cluster.kind=threads"]
    return fit_config(load_config(folder / "c.yaml", settings), silent())


def n_folded(store: Path) -> int:
    """Tasks that the checkpoint of the sums holds."""
    for path in (store / "checkpoints").glob("statistics-*.npz"):
        with np.load(path, allow_pickle=False) as file:
            return int(json.loads(str(file["contents"]))["facts"]["n_folded"])
    return 0


@pytest.mark.filterwarnings("ignore:residual trace:kpca_stream.errors.KpcaStreamWarning")
@pytest.mark.parametrize("kind", ["threads", pytest.param("local", marks=pytest.mark.cluster)])
def test_killed_at_five_moments_of_the_pass(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kill costs what came after the last checkpoint, and no row is counted twice."""
    write_job(tmp_path, kind)
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "gram.zarr"
    expected = finished(tmp_path, tmp_path / "undisturbed.zarr", "undisturbed")
    rng = np.random.default_rng([SEED, len(kind)])
    for number, target in enumerate(sorted(rng.choice(np.arange(1, N_TASKS - 4), N_KILLS, replace=False))):
        with started(tmp_path, "fit", "c.yaml", "--quiet") as process:
            assert wait_until(lambda target=target: n_folded(store) >= target, process)
            wait_until(lambda: False, process, rng.uniform(0, 0.05))
            assert killed(process) == []
        assert target <= n_folded(store) < N_TASKS
        copy = tmp_path / f"rest-{number}.zarr"
        shutil.copytree(store, copy)
        found = finished(tmp_path, copy, f"rest-{number}")
        assert found.passes_resumed == 1
        assert found.eigenvalues == expected.eigenvalues
        assert found.landmarks == expected.landmarks
        accumulated = open_basis(Path(found.basis)).accumulated
        assert accumulated is not None
        assert accumulated.total == N_ROWS
    done = command(tmp_path, "fit", "c.yaml", "--json", "--quiet")
    assert done.returncode == 0
    result = json.loads(done.stdout)["result"]
    assert result["eigenvalues"] == list(expected.eigenvalues)
    assert result["passes_resumed"] == 1
    assert not list((store / "checkpoints").glob("*"))
