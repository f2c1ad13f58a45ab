"""What a cluster loses, and what the command does about it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from kpca_stream import passes
from kpca_stream.config import load_config
from kpca_stream.pipeline import fit_config
from kpca_stream.results import FitSummary
from kpca_stream.telemetry import silent
from tests.disturb import started, wait_until, write_yaml
from tests.jobs import command
from tests.schedulers import Processes, processes

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEED = 20261130
N_ROWS, TILE_ROWS, N_WORKERS = 1200, 64, 2
N_RUNS = 20
FIT = ("fit", "c.yaml")

KERNEL = """
import os, time, zlib

def slow(X, Y):
    # Tells what it computes before it does, so that what is lost is counted too.
    told = os.environ.get("KERNEL_LOG", os.path.join(os.path.dirname(__file__), "computed"))
    line = f"{zlib.crc32(X.tobytes())} {zlib.crc32(Y.tobytes())} {len(X)} {len(Y)}\\n"
    with open(told, "a") as file:
        file.write(line)
    time.sleep(0.004)
    return X @ Y.T

def deadly(X, Y):
    marked = (abs(X - MARK).min() < 1e-12) != (abs(Y - MARK).min() < 1e-12)
    if marked and len(X) <= 64:
        os._exit(1)
    return X @ Y.T

MARK = 17.25
"""


@dataclass
class Job:
    """A fit whose kernel writes down every tile that it computes."""

    folder: Path
    kernel: str = "slow"

    def write(self, cluster: dict[str, Any], **solver: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "kernel_of_tests.py").write_text(KERNEL)
        X = np.random.default_rng(3).standard_normal((N_ROWS, 6))
        if self.kernel == "deadly":
            X[700, 2] = 17.25
        np.save(self.folder / "x.npy", X)
        sections = {
            "name": "lossy",
            "data": {"train": {"path": "x.npy"}},
            "kernel": {"name": f"kernel_of_tests:{self.kernel}", "on_indefinite": "warn"},
            "solver": {"method": "lanczos", "n_components": 3, "precision": "float64", **solver},
            "gram": {
                "storage": "zarr",
                "path": "g.zarr",
                "tile_rows": TILE_ROWS,
                "checkpoint_seconds": 0.001,
            },
            "cluster": cluster,
            "limits": {"memory": "512MiB"},
            "models": {"path": "models"},
        }
        write_yaml(self.folder / "c.yaml", sections)

    def computed(self) -> Counter[str]:
        """How often each tile was begun; small blocks, which other questions ask for, are left out."""
        log = self.folder / "computed"
        lines = log.read_text().splitlines() if log.exists() else []
        sizes = (str(TILE_ROWS), str(N_ROWS % TILE_ROWS))
        return Counter(line for line in lines if line.split()[2] in sizes and line.split()[3] in sizes)

    def tiles(self) -> int:
        return sum(1 for path in (self.folder / "g.zarr" / "tiles" / "c").glob("*/*") if path.suffix == "")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[FitSummary, int]:
    """The result, and the number of its tiles."""
    job = Job(tmp_path_factory.mktemp("undisturbed"))
    job.write({"kind": "threads", "n_workers": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(job.folder)
        patch.syspath_prepend(str(job.folder))
        config = load_config("c.yaml")
        found = fit_config(config, silent())
    assert max(job.computed().values()) == 1
    return found, found.n_tiles


def result_of(folder: Path) -> dict[str, Any]:
    import json

    done = command(folder, *FIT, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)["result"]
    return found


def kill_worker(cluster: Processes, rng: np.random.Generator) -> None:
    number = int(rng.integers(N_WORKERS))
    cluster.kill(f"worker-{number}")
    cluster.start_worker(number)


def kill_scheduler(cluster: Processes, rng: np.random.Generator) -> None:  # noqa: ARG001  all are called alike
    cluster.kill("scheduler")


VICTIMS: dict[str, Callable[[Processes, np.random.Generator], None] | None] = {
    "worker": kill_worker,
    "scheduler": kill_scheduler,
    "client": None,
}


def disturb(
    job: Job, cluster: Processes, victim: str, at: int, delay: float, rng: np.random.Generator
) -> tuple[int, str]:
    """Kill once `at` tiles are there, and `delay` later; the exit code of the command and what it said."""
    with started(job.folder, *FIT) as process:
        wait_until(lambda: job.tiles() >= at, process)
        wait_until(lambda: False, process, delay)
        kill = VICTIMS[victim]
        if kill is None:
            process.kill()
        else:
            kill(cluster, rng)
        _, errors = process.communicate(timeout=120)
        return process.returncode, errors


EXPECTED = {"worker": {0}, "scheduler": {75, 0}, "client": {-9, 0}}


@pytest.mark.parametrize("number", range(N_RUNS))
def test_whatever_is_lost_the_result_is_the_same(
    number: int, undisturbed: tuple[FitSummary, int], tmp_path: Path
) -> None:
    """A killed worker, scheduler or client costs the tasks in flight, and no bit of the result."""
    expected, n_tiles = undisturbed
    rng = np.random.default_rng([SEED, number])
    victim = list(VICTIMS)[number % 3]
    job = Job(tmp_path / "job")
    with processes(tmp_path / "cluster", N_WORKERS) as cluster:
        job.write({"kind": "address", "scheduler_file": str(cluster.scheduler_file), "wait_seconds": 30})
        at, delay = int(rng.integers(1, n_tiles)), rng.uniform(0, 0.02)
        code, errors = disturb(job, cluster, victim, at, delay, rng)
        assert code in EXPECTED[victim], (victim, code, errors)
        cluster.start()
        found = result_of(job.folder)
    assert found["eigenvalues"] == list(expected.eigenvalues)
    assert found["residual_norms"] == list(expected.residual_norms)
    again = [tile for tile, times in job.computed().items() if times > 1]
    assert len(job.computed()) == n_tiles
    assert len(again) <= 2 * N_WORKERS, (victim, at, len(again))


def test_a_tile_that_ends_every_worker_is_named(tmp_path: Path) -> None:
    """After as many workers as are allowed the command fails with exit 1, and says which rows did it."""
    job = Job(tmp_path, "deadly")
    job.write({"kind": "local", "n_workers": 2}, tol=1e-6)
    done = command(tmp_path, *FIT, "--quiet")
    assert done.returncode == 1, done.stderr
    assert "ended every worker" in done.stderr
    assert "error: task multiply_block K[" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_without_workers_is_given_up(undisturbed: tuple[FitSummary, int], tmp_path: Path) -> None:
    """Where the last worker goes and none comes for wait_seconds, exit 75; the next start goes on."""
    job = Job(tmp_path / "job")
    with processes(tmp_path / "cluster", 2) as cluster:
        job.write({"kind": "address", "address": cluster.address, "wait_seconds": 2})
        with started(job.folder, *FIT) as process:
            assert wait_until(lambda: job.tiles() >= 20, process)
            for number in range(2):
                cluster.kill(f"worker-{number}")
            began = time.monotonic()
            assert process.wait(60) == 75
            assert time.monotonic() - began < 30
        left = job.tiles()
        cluster.start()
        found = result_of(job.folder)
    assert found["tiles_found"] >= left - 1
    assert found["eigenvalues"] == list(undisturbed[0].eigenvalues)


def test_a_local_process_that_is_killed_is_replaced(
    undisturbed: tuple[FitSummary, int], tmp_path: Path
) -> None:
    """On processes of this machine a killed one comes back, and the command ends as if nothing had been."""
    job = Job(tmp_path)
    job.write({"kind": "local", "n_workers": 2})
    with started(tmp_path, *FIT) as process:
        assert wait_until(lambda: job.tiles() >= 10, process)
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [one for one in family if "spawn_main" in " ".join(one.cmdline())]
        workers[0].kill()
        assert process.wait(120) == 0
    assert result_of(tmp_path)["eigenvalues"] == list(undisturbed[0].eigenvalues)


def test_tasks_are_named_by_their_call() -> None:
    """A key of Dask's is told as the function and the label of its call."""
    call = passes.Call(np.sum, (), label="K[0:5, 5:9]")
    assert passes.name_of_task(passes.as_delayed(call).key) == "task sum K[0:5, 5:9]"
    assert passes.name_of_task(passes.as_delayed(passes.Call(np.sum, ())).key) == "task sum"
