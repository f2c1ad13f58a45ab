"""A killed fit by landmarks goes on from its sums, or from its choice, and ends with the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.asked import settings_of
from kpca_stream.config import load_config
from kpca_stream.pipeline import fit_config
from kpca_stream.planning import make_plan
from kpca_stream.results import FitSummary
from kpca_stream.storage.basis import open_basis
from kpca_stream.telemetry import silent
from tests.disturb import killed, started, wait_until, write_yaml
from tests.jobs import contents

pytestmark = pytest.mark.slow

N_ROWS, N_COLUMNS, M = 250_000, 20, 100
N_KILLS, ATTEMPTS = 5, 3
SEED = 505
LAPLACIAN = {"name": "laplacian", "gamma": 0.05}


def write_job(folder: Path, kind: str, kernel: dict[str, Any] = LAPLACIAN, **nystrom: Any) -> None:
    """A pass of some sixteen tasks, with a checkpoint after every window of four."""
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((N_ROWS, N_COLUMNS)))
    sections = {
        "name": "killed",
        "data": {"train": {"path": str(folder / "x.npy")}, "merge_duplicates": False},
        "kernel": kernel,
        "solver": {"method": "nystrom", "n_components": 5, "precision": "float64"},
        "nystrom": {"landmarks": M, "method": "uniform", **nystrom},
        "gram": {"path": "gram.zarr", "checkpoint_seconds": 0.001},
        "cluster": {"kind": kind, "n_workers": 2, "threads_per_worker": 1},
        "models": {"path": "models"},
    }
    write_yaml(folder / "c.yaml", sections)


def n_folded(store: Path, name: str = "statistics-float64") -> int:
    """Tasks that a checkpoint holds, such as that of the sums."""
    path = store / "checkpoints" / f"{name}.npz"
    if not path.exists():
        return 0
    with np.load(path, allow_pickle=False) as file:
        return int(json.loads(str(file["contents"]))["facts"]["n_folded"])


def in_round(store: Path, n_rounds: int) -> bool:
    """Whether so many rounds of choosing landmarks are over, and the pass of the next one has begun."""
    names = ("landmarks-residuals", "landmarks-pivots")[: 1 + (n_rounds > 0)]
    paths = [store / "checkpoints" / f"{name}.npz" for name in names]
    if not all(path.exists() for path in paths):
        return False
    written = [path.stat().st_mtime_ns for path in paths]
    return written[0] == max(written) and n_folded(store, names[-1]) >= n_rounds


def has_landmarks(store: Path) -> bool:
    return (store / "landmarks.npy").exists()


def finished(folder: Path, store: Path, models: str) -> FitSummary:
    """The rest of a fit, in this process and on threads."""
    settings = [f"gram.path={store}", f"models.path={folder / models}", "cluster.kind=threads"]
    return fit_config(load_config(folder / "c.yaml", settings), silent())


def kill(folder: Path, target: int, delay: float) -> int:
    """Kill a fresh fit once its pass has folded `target` tasks and `delay` later; what it had folded."""
    store = folder / "gram.zarr"
    for attempt in range(ATTEMPTS):
        shutil.rmtree(store, ignore_errors=True)
        with started(folder, "fit", "c.yaml") as process:
            reached = wait_until(lambda: has_landmarks(store) and n_folded(store) >= target, process)
            if attempt == 0:
                wait_until(lambda: False, process, delay)
            assert process.poll() is not None or killed(process) == []
        if reached and not (folder / "models").exists():
            return n_folded(store)
        shutil.rmtree(folder / "models", ignore_errors=True)
    raise AssertionError(f"no kill hit the pass: {process.returncode}")


@pytest.mark.filterwarnings("ignore:residual trace is:kpca_stream.errors.KpcaStreamWarning")
@pytest.mark.parametrize("kind", ["threads", pytest.param("local", marks=pytest.mark.cluster)])
def test_killed_while_sums_grow(kind: str, tmp_path: Path) -> None:
    """After each of five kills the rest gives the same basis, bit for bit, and counts every row once."""
    write_job(tmp_path, kind)
    expected = finished(tmp_path, tmp_path / "undisturbed.zarr", "undisturbed")
    settings = settings_of(load_config(tmp_path / "c.yaml"))
    n_tasks = make_plan(settings, N_ROWS, N_COLUMNS, np.dtype(float), with_store=True).n_tasks
    bits = contents(Path(expected.basis))
    assert expected.passes_resumed == 0
    rng = np.random.default_rng([SEED, len(kind)])
    left = []
    for target in (0, *np.sort(rng.choice(np.arange(1, n_tasks - 4), N_KILLS - 1, replace=False))):
        left.append(kill(tmp_path, int(target), rng.uniform(0, 0.05)))
        found = finished(tmp_path, tmp_path / "gram.zarr", f"models-{len(left)}")
        assert (found.passes_resumed, found.n_passes) == (int(left[-1] > 0), 1)
        assert found.eigenvalues == expected.eigenvalues
        assert open_basis(Path(found.basis)).total_weight == N_ROWS
        assert contents(Path(found.basis)) == bits
    assert sum(0 < n < n_tasks for n in left) >= N_KILLS - 2


def test_killed_while_landmarks_are_chosen(tmp_path: Path) -> None:
    """Killed while it chooses among all rows, in any round, a fit goes on and ends with the same bits."""
    kernel = {"name": "rbf", "gamma": 0.0005}  # takes four rounds
    write_job(tmp_path, "threads", kernel, method="rpcholesky", pool="all")
    expected = finished(tmp_path, tmp_path / "undisturbed.zarr", "undisturbed")
    bits, store = contents(Path(expected.basis)), tmp_path / "gram.zarr"
    rng = np.random.default_rng(SEED)
    left = []
    for n_rounds in (0, 0, 1, 2, 3):
        shutil.rmtree(store, ignore_errors=True)
        with started(tmp_path, "fit", "c.yaml") as process:
            assert wait_until(lambda n=n_rounds: in_round(store, n), process)
            wait_until(lambda: False, process, rng.uniform(0, 0.1))
            assert killed(process) == []
        left.append(n_folded(store, "landmarks-pivots"))
        found = finished(tmp_path, store, f"models-{len(left)}")
        assert found.eigenvalues == expected.eigenvalues
        assert contents(Path(found.basis)) == bits
    assert sum(n > 0 for n in left) >= 2
