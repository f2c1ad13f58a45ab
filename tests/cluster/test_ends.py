"""Passes that end before they are done: quickly, and with nobody left who waits."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from kpca_stream import passes
from kpca_stream.cluster import connect_as, losses
from kpca_stream.config import Cluster
from kpca_stream.errors import BusyError
from kpca_stream.passes import lanes
from tests.disturb import wait_until
from tests.schedulers import Processes, processes, threads

pytestmark = pytest.mark.cluster

SECONDS = 20


GO: dict[str, threading.Event] = {}


def stalled_task(name: str, index: int) -> int:
    assert index == 0 or GO[name].wait(SECONDS)
    return index


class Stalled:
    """Tasks in threads of this process that end when they are told to, and the lanes that wait for them."""

    def __init__(self, name: str) -> None:
        self.name, self.waiting = name, 0
        self.go = GO[name] = threading.Event()

    def compute(self, calls: Sequence[passes.Call], **how: Any) -> Sequence[Any]:
        is_own = calls[0].arguments[0] == self.name
        self.waiting += is_own
        try:
            return passes.compute(calls, **how)
        finally:
            self.waiting -= is_own

    def calls(self, count: int = 12) -> list[passes.Call]:
        return [passes.Call(stalled_task, (self.name, index)) for index in range(count)]


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stalled]:
    found = Stalled("these")
    monkeypatch.setattr(lanes, "compute", found.compute)
    yield found
    found.go.set()


@pytest.fixture(scope="module")
def two_threads() -> Iterator[LocalCluster]:
    with threads(2, 4) as cluster:
        yield cluster


def interrupt(_: int, __: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["fold", "end"])
def test_nobody_waits_after_an_interrupt(at: str, stalled: Stalled, two_threads: LocalCluster) -> None:
    """Ctrl-C ends a pass at once, and no thread waits for results of a client that is about to be closed."""
    with Client(two_threads.scheduler_address):
        ctrl_c = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        began = time.monotonic()
        try:
            if at == "end":
                ctrl_c.start()
            with pytest.raises(KeyboardInterrupt):
                passes.run(stalled.calls(), interrupt if at == "fold" else lambda *_: None, at_once=4)
        finally:
            ctrl_c.cancel()
            signal.signal(signal.SIGINT, before)
        assert stalled.waiting == 0
        assert time.monotonic() - began < SECONDS / 2


def fails(index: int, _: Any) -> None:
    raise ZeroDivisionError(index)


def test_tasks_of_a_pass_that_fails_are_given_up(stalled: Stalled, two_threads: LocalCluster) -> None:
    """An error in the caller does not wait for windows under way, and leaves other passes' alone."""
    others = Stalled("others")
    folded: list[int] = []
    with Client(two_threads.scheduler_address), ThreadPoolExecutor(1) as pool:
        other = pool.submit(passes.run, others.calls(3), lambda _, result: folded.append(result))
        with pytest.raises(ZeroDivisionError):
            passes.run(stalled.calls(), fails, at_once=4)
        assert stalled.waiting == 0
        others.go.set()
        other.result(SECONDS)
    assert folded == [0, 1, 2]


def test_the_watch_ends_waiting_without_closing(stalled: Stalled) -> None:
    """Without workers nobody waits any more, in a pass or for what all shall share; the client is open."""
    with threads(0, 4) as cluster, Client(cluster.scheduler_address) as client:
        watch = losses.Watch(client, 0.4, lambda: None)
        for work in (
            lambda: passes.run(stalled.calls(), interrupt, at_once=4),
            lambda: passes.shared({"all": 1}),
        ):
            with pytest.raises(BusyError, match="no worker is left"), losses.told(watch), watch.over():
                work()
            assert stalled.waiting == 0
            assert client.status == "running"
            watch = losses.Watch(client, 0.4, lambda: None)


class Away:
    """A client that loses its scheduler, and may find it again."""

    status = "connecting"

    def nthreads(self) -> dict[str, int]:
        if self.status == "running":
            return {}
        raise OSError("nobody is there")


@pytest.mark.parametrize("later", ["running", "connecting", "broken"])
def test_the_watch_goes_on_while_the_scheduler_is_away(later: str) -> None:
    """Time without a scheduler, or without an answer of it, is time without workers."""
    away: Any = Away()
    watch = losses.Watch(away, 0.4, lambda: None)
    with watch.over():
        time.sleep(0.25)  # looked at, and not there
        away.status = later
        assert wait_until(lambda: watch.lost is not None, seconds=5)


def one_graph(cluster: Processes, began: list[float]) -> None:
    """The scheduler goes while no task has ended."""
    threading.Timer(0.3, cluster.kill, ["scheduler"]).start()
    began.append(time.monotonic())
    passes.compute([passes.Call(time.sleep, (30,))] * 2)


def many_windows(cluster: Processes, began: list[float]) -> None:
    """The scheduler goes as the next window is about to begin."""

    def fold(index: int, _: None) -> None:
        if index == 9:
            cluster.kill("scheduler")
            began.append(time.monotonic())

    passes.run([passes.Call(time.sleep, (0.02,))] * 400, fold)


@pytest.mark.slow
@pytest.mark.parametrize("work", [one_graph, many_windows])
def test_a_lost_scheduler_is_told_at_once(
    work: Callable[[Processes, list[float]], None], tmp_path: Path
) -> None:
    """The loss of the scheduler is told as it happens, not after the time in which it might come back."""
    began: list[float] = []
    with processes(tmp_path) as cluster:
        section = Cluster(kind="address", address=cluster.address, min_workers=2, wait_seconds=20)
        with pytest.raises(BusyError, match="lost the cluster"), connect_as(section, memory=0):
            work(cluster, began)
        assert time.monotonic() - began[0] < 10
