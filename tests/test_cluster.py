"""Schedulers that live as long as a fit, and BLAS held to one thread."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dask
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kpca_stream import passes
from kpca_stream.cluster import allocation, connect, hold_blas, single_threaded_blas
from kpca_stream.cluster.losses import closed_after, turned_away
from kpca_stream.config import Cluster, Slurm
from kpca_stream.errors import BusyError, ConfigError, DataError, KpcaStreamError, KpcaStreamWarning

if TYPE_CHECKING:
    from distributed import Client


def blas_threads(_: object = None) -> list[int]:
    return sorted(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _two_threads() -> Any:
    with threadpool_limits(2, user_api="blas"):
        yield


def test_threads_are_the_active_scheduler_inside_only() -> None:
    """The threaded scheduler has the asked number of workers until the context ends."""
    before = dask.config.get("num_workers", None)
    with connect("threads", n_workers=3):
        assert dask.config.get("scheduler") == "threads"
        assert passes.n_workers() == 3
    assert dask.config.get("num_workers", None) == before


def test_an_unknown_kind_is_refused() -> None:
    """A kind that does not exist is an error of the configuration."""
    with pytest.raises(ConfigError, match="got 'slrum', expected 'threads' or 'local'"):
        connect("slrum")  # type: ignore[arg-type]


def test_blas_is_held_and_restored() -> None:
    """Inside every library has one thread, afterwards what the caller had set."""
    before = blas_threads()
    assert max(before) > 1
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
        with single_threaded_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_blas_is_restored_after_an_error() -> None:
    """An error inside does not leave BLAS on one thread."""
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), single_threaded_blas():
        _ = 1 / 0
    assert blas_threads() == before


def test_overlapping_holds_restore_once() -> None:
    """Where two threads hold BLAS, the one that ends last restores the setting of before."""
    before = blas_threads()
    inside, go = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            inside.set()
            go.wait(10)

    thread = threading.Thread(target=hold)
    with single_threaded_blas():
        thread.start()
        assert inside.wait(10)
    assert set(blas_threads()) == {1}
    go.set()
    thread.join(10)
    assert blas_threads() == before


def test_blas_is_held_though_another_thread_has_set_it() -> None:
    """A limit set by a thread that lives on does not keep this one from holding BLAS."""
    set_it, go = threading.Event(), threading.Event()

    def limit() -> None:
        threadpool_limits(2, user_api="blas")
        set_it.set()
        go.wait(10)

    thread = threading.Thread(target=limit)
    thread.start()
    assert set_it.wait(10)
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
    go.set()
    thread.join(10)
    assert set(blas_threads()) == {2}


@pytest.mark.cluster
def test_every_worker_has_one_blas_thread(two_processes: Client) -> None:
    """The plugin holds BLAS on all workers, registered once or twice."""
    hold_blas(two_processes)
    found = two_processes.run(blas_threads)
    assert len(found) == 2
    assert all(set(threads) == {1} for threads in found.values())


@pytest.mark.cluster
@pytest.mark.slow
def test_a_task_that_kills_its_process_is_no_endless_story() -> None:
    """A task that ends every process it runs in is a failure, which names the task."""
    with (
        pytest.raises(
            KpcaStreamError, match=r"task _exit K\[0:5\] ended every worker .* got 4 lost"
        ) as caught,
        connect("local", n_workers=2),
    ):
        passes.run([passes.Call(os._exit, (1,), label="K[0:5]")] * 2, lambda index, result: None)
    assert caught.value.exit_code == 1


@pytest.mark.cluster
@contextmanager
def stuck() -> Iterator[str]:
    """As Dask's client that closes while its connection runs out of time."""
    yield "open"
    raise RuntimeError("Cannot change state of expiring Timeout")


def test_an_error_of_the_work_outlives_one_of_closing() -> None:
    """What went wrong inside is raised, whatever closing says after it."""
    with pytest.raises(BusyError, match="lost the cluster"), closed_after(stuck()):
        raise BusyError("lost the cluster")


def test_closing_that_fails_is_no_failure_of_the_work() -> None:
    """Where the work is done, a cluster that cannot be closed is a warning."""
    told = pytest.warns(KpcaStreamWarning, match="could not be closed, got: Cannot change")
    with told, closed_after(stuck()) as what:
        assert what == "open"


def test_what_does_not_open_is_told() -> None:
    """An error of opening is raised as it is."""
    with pytest.raises(BusyError, match="no scheduler"), closed_after(turned_down()):
        pytest.fail("it was never open")


@contextmanager
def turned_down() -> Iterator[str]:
    raise BusyError("no scheduler")
    yield "never"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ZeroDivisionError("of a library"), BusyError),
        (asyncio.CancelledError(), BusyError),
        (ImportError("versions differ"), ConfigError),
        (DataError("as it is"), DataError),
    ],
)
def test_what_turns_a_command_away_is_told(raised: BaseException, expected: type[KpcaStreamError]) -> None:
    """Whatever a library raises as a cluster starts says to try later; what is not installed is a mistake."""
    with pytest.raises(expected, match=r"as it is|it did not start, got: "), turned_away("it did not start"):
        raise raised


@dataclass
class Unending:
    """A scheduler in this process that fails to close."""

    scheduler_address: str = "tcp://127.0.0.1:9"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        raise RuntimeError("Cannot change state of expiring Timeout")


def test_a_loss_within_a_job_outlives_an_error_of_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an allocation of Slurm's too, what went wrong inside is raised, whatever closing says after it."""
    (tmp_path / "srun").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setattr(allocation, "_scheduler", lambda *_: Unending())
    slurm = Slurm(interface="lo", form="allocation", log_directory=str(tmp_path))
    section = Cluster(kind="slurm", slurm=slurm)
    with (
        pytest.raises(BusyError, match="lost the cluster"),
        allocation.allocated(section, slurm, None, memory=2**20),
    ):
        raise BusyError("lost the cluster")


def test_processes_that_do_not_start_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processes end as they start, the error says to try again."""
    resource_tracker.ensure_running()  # which is a process of Python too, and lives on
    monkeypatch.setenv("PYTHONHOME", os.devnull)  # no interpreter finds its modules
    with pytest.raises(BusyError, match="processes did not start"), connect("local", n_workers=1):
        pytest.fail("started without an interpreter")


SCRIPT = """
import json
import dask
import psutil
from threadpoolctl import threadpool_info
from kpca_stream import passes
from kpca_stream.cluster import connect

def threads(index):
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

def open_addresses():
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sorted({c.laddr.ip for p in family for c in p.net_connections() if c.status == "LISTEN"})

if __name__ == "__main__":
    found = []
    with connect("local", n_workers=2, threads_per_worker=2, memory_limit=2**30):
        calls = [passes.Call(threads, (i,)) for i in range(8)]
        passes.run(calls, lambda index, result: found.append(result))
        addresses, workers = open_addresses(), passes.n_workers()
    left = psutil.Process().children(recursive=True)
    left = [p for p in left if "resource_tracker" not in " ".join(p.cmdline())]
    print(json.dumps({"found": found, "addresses": addresses, "workers": workers, "left": len(left)}))
"""


@pytest.mark.cluster
def test_local_processes_work_from_a_script(tmp_path: Path) -> None:
    """A script's processes compute its own functions on one BLAS thread, listen on loopback only, and end."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert [set(threads) for threads in seen["found"]] == [{1}] * 8
    assert seen["workers"] == 4
    assert set(seen["addresses"]) <= {"127.0.0.1"}
    assert seen["left"] == 0
