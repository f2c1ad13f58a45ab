"""A re-fit that is killed at any moment leaves one whole champion, and the next call ends its work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kpca_stream.config import load_config
from kpca_stream.errors import BusyError
from kpca_stream.refit_results import RefitResult
from kpca_stream.refitting import refit_config
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import silent
from tests.disturb import folded, killed, started, wait_until, write_yaml
from tests.jobs import contents

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:residual trace is:kpca_stream.errors.KpcaStreamWarning"),
]

SEED = 77
LARGEST_DELAY = 0.15

SIZES = {"nystrom": (20_000, 150_000, 20), "lanczos": (2_000, 400, 130)}
"""Rows of before, new rows, columns: some seconds of work, in many tasks."""


def write_job(folder: Path, method: str) -> None:
    """A model of one file, and a second file that has landed since."""
    n_before, n_new, d = SIZES[method]
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, d))
    (folder / "days").mkdir()
    for number, n_rows in enumerate((n_before, n_new)):
        X = centres[rng.integers(0, 12, n_rows)] + 0.7 * rng.standard_normal((n_rows, d))
        np.save(folder / f"day-{number}.npy", X)
    shutil.move(folder / "day-0.npy", folder / "days" / "day-0.npy")
    sections = {
        "name": "rows",
        "data": {"train": {"path": "days"}, "merge_duplicates": False},
        "kernel": {"name": "laplacian", "gamma": 0.05 if method == "nystrom" else 0.002},
        "solver": {"method": method, "n_components": 4, "precision": "float64"},
        "nystrom": {"landmarks": 100, "method": "uniform"},
        "gram": {"path": "gram.zarr", "storage": "zarr", "tile_rows": 128, "checkpoint_seconds": 0.001},
        "cluster": {"kind": "threads", "n_workers": 2},
        "models": {"path": "models"},
        "refit": {"when": {"residual_ratio": None}, "gate": {"max_column_ratio": None}},
    }
    write_yaml(folder / "c.yaml", sections)


def refitted(folder: Path) -> RefitResult:
    """The command's work in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return refit_config(load_config("c.yaml"), silent())


def registry(folder: Path) -> Registry:
    return Registry.of(folder / "models", "rows")


def begun(folder: Path) -> bool:
    path = folder / "models" / "rows" / "refit.lock"
    return path.exists() and path.stat().st_size > 0


def stored(folder: Path) -> bool:
    return any(folder.glob("gram.zarr.rows.refit/*/*.zarr/zarr.json"))


def under_way(folder: Path) -> bool:
    return any(sum(folded(store)) > 4 for store in folder.glob("gram.zarr.rows.refit/*/*.zarr"))


def publishing(folder: Path) -> bool:
    return published(folder) or any((folder / "models" / "rows" / "versions").glob(".*.partial"))


def published(folder: Path) -> bool:
    return (folder / "models" / "rows" / "versions" / "2").exists()


MOMENTS: list[Callable[[Path], bool]] = [begun, stored, under_way, publishing, published]


@pytest.mark.parametrize("method", ["nystrom", "lanczos"])
def test_killed_at_ten_moments(method: str, tmp_path: Path) -> None:
    """At each of ten moments one whole version is champion; the next call ends with the same bits."""
    template = tmp_path / "template"
    template.mkdir()
    write_job(template, method)
    assert refitted(template).champion == 1
    shutil.move(template / "day-1.npy", template / "days" / "day-1.npy")
    undisturbed = copied(template, tmp_path / "undisturbed")
    expected = refitted(undisturbed)
    assert expected.fitted is not None
    assert expected.fitted.kind == ("added" if method == "nystrom" else "continued")
    bits = contents(registry(undisturbed).basis_path(2))
    rng, ends = np.random.default_rng([SEED, len(method)]), []
    for moment in MOMENTS:
        for delay in (0.0, rng.uniform(0, LARGEST_DELAY)):
            folder = copied(template, tmp_path / f"killed-{len(ends)}")
            kill(folder, moment, delay)
            left = registry(folder).opened()
            left.basis.in_memory()
            assert left.version in (1, 2)
            assert set(registry(folder).versions()) <= {1, 2}
            ends.append((left.version, published(folder), stored(folder)))
            found = refitted(folder)
            assert found.action == ("promoted" if left.version == 1 else "none")
            assert found.champion == registry(folder).resolve() == 2
            assert contents(registry(folder).basis_path(2)) == bits
            assert not list(folder.glob("gram.zarr.rows.refit"))
            shutil.rmtree(folder)
    assert (1, False, True) in ends
    assert len(set(ends)) >= 2, ends


def test_second_refit_is_told_who_is_at_work(tmp_path: Path) -> None:
    """While one is under way another is refused with its process named; once that is killed, it may."""
    write_job(tmp_path, "lanczos")
    with started(tmp_path, "refit", "c.yaml") as process:
        assert wait_until(lambda: begun(tmp_path), process)
        with pytest.raises(BusyError, match=f'"process": {process.pid}'):
            refitted(tmp_path)
        assert killed(process) == []
    assert refitted(tmp_path).champion == 1


def kill(folder: Path, moment: Callable[[Path], bool], delay: float) -> None:
    """Start the command, and kill it at a moment and some time after it."""
    with started(folder, "refit", "c.yaml") as process:
        assert wait_until(lambda: moment(folder), process) or process.returncode == 0
        wait_until(lambda: False, process, delay)
        assert process.poll() is not None or killed(process) == []


def copied(template: Path, folder: Path) -> Path:
    """With the stamps of all files, so that nothing has changed since the first fit."""
    shutil.copytree(template, folder)
    return folder
