"""A fit that is killed at any moment goes on where it was, and ends with the same bits."""

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
from kpca_stream.telemetry import silent
from tests.disturb import Left, folded, killed, started, wait_until, write_yaml
from tests.jobs import command

pytestmark = pytest.mark.slow

N_ROWS, N_COLUMNS, TILE_ROWS = 3000, 130, 128
N_KILLS, WINDOW = 5, 4
SEED = 20260
ATTEMPTS = 3


def write_job(folder: Path, storage: str, kind: str) -> None:
    """A fit of some dozen tasks a pass, in windows of four, each of which is checkpointed."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, N_COLUMNS))
    X = centres[rng.integers(0, 12, N_ROWS)] + 0.7 * rng.standard_normal((N_ROWS, N_COLUMNS))
    np.save(folder / "x.npy", X)
    sections = {
        "name": "killed",
        "data": {"train": {"path": str(folder / "x.npy")}},
        "kernel": {"name": "laplacian", "gamma": 0.002},
        "solver": {"method": "lanczos", "n_components": 5, "precision": "float64"},
        "gram": {
            "storage": storage,
            "path": "gram.zarr",
            "tile_rows": TILE_ROWS,
            "checkpoint_seconds": 0.001,
        },
        "cluster": {"kind": kind, "n_workers": 2, "threads_per_worker": 1},
        "models": {"path": "models"},
    }
    write_yaml(folder / "c.yaml", sections)


def finished(folder: Path, store: Path, models: str) -> FitSummary:
    """The rest of a fit, in this process and on threads."""
    settings = [f"gram.path={store}", f"models.path={folder / models}", "cluster.kind=threads"]
    return fit_config(load_config(folder / "c.yaml", settings), silent())


class Chain:
    """One fit, killed again and again."""

    def __init__(self, folder: Path, storage: str) -> None:
        self.folder, self.store, self.storage = folder, folder / "gram.zarr", storage
        self.expected = finished(folder, folder / "undisturbed.zarr", "undisturbed")
        settings = settings_of(load_config(folder / "c.yaml"))
        plan = make_plan(settings, N_ROWS, N_COLUMNS, np.dtype(float), with_store=True)
        self.grid, self.n_tasks = plan.grid, plan.grid.n_tasks
        assert self.n_tasks > N_KILLS * WINDOW

    def kill(self, target: int, delay: float) -> Left:
        """Start the fit, and kill it once its passes have folded `target` tasks in all, and `delay` later."""
        backup = self.folder / "before"
        for attempt in range(ATTEMPTS):
            shutil.rmtree(backup, ignore_errors=True)
            if self.store.exists():
                shutil.copytree(self.store, backup)
            with started(self.folder, "fit", "c.yaml") as process:
                reached = wait_until(lambda: sum(folded(self.store)) >= target, process)
                if reached and attempt == 0:
                    wait_until(lambda: False, process, delay)
                assert process.poll() is not None or killed(process) == []
            left = Left.of(self.store)
            is_build = target < self.n_tasks
            if (
                reached
                and (sum(left.folded) < self.n_tasks) == is_build
                and not (self.folder / "models").exists()
            ):
                return left
            shutil.rmtree(self.store)
            shutil.copytree(backup, self.store)
        raise AssertionError(f"no kill hit its phase: {left}, {process.returncode}")

    def check(self, left: Left, found: FitSummary) -> None:
        """The same bits, and nothing made that was there."""
        assert found.eigenvalues == self.expected.eigenvalues
        assert found.residual_norms == self.expected.residual_norms
        assert found.n_passes == self.expected.n_passes
        assert found.passes_resumed == len(left.folded)
        to_do = left.to_do(self.grid, found.n_passes)
        if self.storage == "zarr":
            assert found.tiles_found == left.n_tiles
            assert found.tiles_made == self.grid.n_tiles - left.n_tiles
            assert found.tiles_made + found.tiles_read == to_do
        else:
            assert (found.tiles_found, found.tiles_made, found.tiles_read) == (0, to_do, 0)

    def check_rest(self, left: Left, name: str) -> None:
        """A copy of what was left, brought to its end."""
        copy = self.folder / f"{name}.zarr"
        shutil.copytree(self.store, copy)
        self.check(left, finished(self.folder, copy, name))
        shutil.rmtree(copy)

    def finish(self) -> dict[str, Any]:
        """The command itself, undisturbed at last."""
        done = command(self.folder, "fit", "c.yaml", "--json", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return result


@pytest.mark.parametrize("storage", ["zarr", "recompute"])
@pytest.mark.parametrize("kind", ["threads", pytest.param("local", marks=pytest.mark.cluster)])
def test_killed_in_every_phase(storage: str, kind: str, tmp_path: Path) -> None:
    """Five kills in the build and five in the solve leave no process, lose no tile, and change no bit."""
    write_job(tmp_path, storage, kind)
    chain = Chain(tmp_path, storage)
    rng = np.random.default_rng([SEED, len(storage), len(kind)])
    # The last tasks are under way together: a kill that waits for them comes too late.
    build = rng.choice(np.arange(2, chain.n_tasks - WINDOW, 2), N_KILLS, replace=False)
    whole = chain.n_tasks * (chain.expected.n_passes - 1)
    solve = rng.choice(np.arange(chain.n_tasks + WINDOW, whole, WINDOW), N_KILLS, replace=False)
    for number, target in enumerate([*sorted(build), *sorted(solve)]):
        left = chain.kill(int(target), rng.uniform(0, 0.03))
        chain.check_rest(left, f"rest-{number}")
    found = chain.finish()
    assert found["eigenvalues"] == list(chain.expected.eigenvalues)
    assert found["passes_resumed"] == len(left.folded)
    tiles = ("tiles_found", "tiles_made") if storage == "zarr" else ("tiles_found", "tiles_read")
    assert [found[key] for key in tiles] == [chain.grid.n_tiles if storage == "zarr" else 0, 0]
    assert chain.store.exists()
    assert not list(chain.store.rglob("*.partial"))
