"""Sequences of small graphs, folded in order."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream import passes

if TYPE_CHECKING:
    from distributed import Client


def late(index: int) -> int:
    time.sleep(0.01 * (index % 2 == 0))  # even ones finish after their neighbours
    return index


def place(_: int) -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def failing(index: int) -> int:
    if index == 5:
        raise ZeroDivisionError("five")
    return index


def process_of(_: Any = None) -> int:
    return os.getpid()


def ones(index: int) -> Any:
    return os.getpid(), np.full(1000, index)


def where_both(made: tuple[int, Any]) -> tuple[int, int, int]:
    return made[0], os.getpid(), int(made[1].sum())


def calls(count: int, function: Any = late) -> list[passes.Call]:
    return [passes.Call(function, (index,)) for index in range(count)]


class Lazy(Sequence[passes.Call]):
    """Calls that note when they were asked for."""

    def __init__(self, count: int, events: list[Any]) -> None:
        self.length, self.events = count, events

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        self.events.append(("asked", index))
        return passes.Call(late, (index,))


@pytest.fixture(autouse=True)
def _two_threads() -> Any:
    with dask.config.set(num_workers=2):
        yield


@pytest.mark.parametrize("at_once", [None, 1, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 11])
def test_results_are_folded_in_index_order(count: int, at_once: int | None) -> None:
    """Whoever finishes first, results arrive in the order of their indices, each once."""
    folded: list[tuple[int, int]] = []
    passes.run(calls(count), lambda index, result: folded.append((index, result)), at_once=at_once)
    assert folded == [(index, index) for index in range(count)]


def test_folding_happens_in_the_caller() -> None:
    """The accumulator is touched by the calling thread only."""
    seen = set()
    passes.run(calls(6), lambda *_: seen.add(threading.get_ident()))
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize(
    ("at_once", "widths"),
    [(None, [4, 6]), (3, [3, 3, 3, 1]), (1, [1] * 10), (0, [1] * 10), (5, [4, 5, 1]), (50, [4, 6])],
)
def test_no_more_than_a_window_is_alive(at_once: int | None, widths: list[int]) -> None:
    """Calls are made a window at a time, after the window before was folded; short ones grow to the limit."""
    events: list[Any] = []
    passes.run(
        Lazy(10, events),
        lambda index, _: events.append(("folded", index)),
        at_once=at_once,
        prepare=lambda window: events.append(("prepared", window)),
        progress=lambda done, total: events.append(("done", done, total)),
    )
    expected: list[Any] = []
    ends = list(itertools.accumulate(widths))
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        window = range(start, end)
        expected += [("prepared", window), *(("asked", i) for i in window), *(("folded", i) for i in window)]
        expected.append(("done", window.stop, 10))
    assert events == expected


def slow(index: int) -> int:
    """A task that takes a while."""
    time.sleep(0.05)
    return index


def large(_: int) -> tuple[NDArray[Any], ...]:
    """A task whose result is not small."""
    return (np.zeros(2**18),)


@pytest.mark.parametrize("task", [slow, large])
def test_windows_of_long_tasks_or_large_results_stay(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the workers and no more are alive where tasks take their time, or results their memory."""
    monkeypatch.setattr(passes, "WINDOW_SECONDS", 0.05 if task is slow else 60.0)
    monkeypatch.setattr(passes, "WINDOW_BYTES", 2**24)
    seen: list[int] = []
    passes.run(
        [passes.Call(task, (index,)) for index in range(12)],
        lambda *_: None,
        prepare=lambda window: seen.append(len(window)),
    )
    assert seen == [4, 4, 4]


def test_commit_is_after_folding_and_before_progress() -> None:
    """What is saved holds every task that it counts; a progress callback that raises loses nothing."""
    folded: list[int] = []
    saved: list[tuple[int, list[int]]] = []
    passes.run(
        calls(7),
        lambda index, _: folded.append(index),
        commit=passes.Commit(lambda done: saved.append((done, folded.copy())), seconds=0.0),
        progress=lambda done, _: folded.append(-done),
        at_once=3,
    )
    assert [done for done, _ in saved] == [3, 6, 7]
    for done, held in saved:
        assert [index for index in held if index >= 0] == list(range(done))
        assert -done not in held


def test_commit_waits_for_its_time() -> None:
    """Within the time between two commits nothing is saved."""
    saved: list[int] = []
    passes.run(calls(7), lambda *_: None, commit=passes.Commit(saved.append), at_once=2)
    assert saved == []


def test_first_tasks_are_skipped() -> None:
    """A restored accumulator already holds the first tasks; they are neither asked for nor folded."""
    events: list[Any] = []
    passes.run(Lazy(6, events), lambda *_: None, commit=passes.Commit(lambda _: None, first=4))
    assert events == [("asked", 4), ("asked", 5)]
    passes.run(Lazy(6, events), lambda *_: None, commit=passes.Commit(lambda _: None, first=6))
    assert len(events) == 2


def test_single_call_runs_in_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call makes no graph and runs in the calling thread; several run elsewhere."""
    here = (os.getpid(), threading.get_ident())
    assert passes.compute(calls(1, place)) == [here]
    assert passes.persist(calls(1, place)) == [here]
    assert all(seen != here for seen in passes.compute(calls(2, place)))
    monkeypatch.setattr(passes, "as_delayed", None)
    assert passes.compute(calls(1)) == [0]


def test_single_call_of_a_kept_result_is_computed() -> None:
    """One call whose argument is a kept result gets its value, not its handle."""
    kept = passes.persist(calls(2, ones))
    (found,) = passes.compute([passes.Call(where_both, (kept[1],))])
    assert found == (os.getpid(), os.getpid(), 1000)


def test_kept_results_are_arguments() -> None:
    """What was kept serves any number of later calls, and is made once."""
    made = []

    def make(index: int) -> Any:
        made.append(index)
        return ones(index)

    kept = passes.persist([passes.Call(make, (index,)) for index in range(3)])
    for _ in range(2):
        found = passes.compute([passes.Call(where_both, (result,)) for result in kept])
        assert [total for *_, total in found] == [0, 1000, 2000]
    assert sorted(made) == [0, 1, 2]


def test_error_of_a_task_reaches_the_caller() -> None:
    """A task's exception is raised as it is; what was folded before stays folded."""
    folded: list[int] = []
    with pytest.raises(ZeroDivisionError, match="five"):
        passes.run(calls(9, failing), lambda index, _: folded.append(index), at_once=2)
    assert folded == [0, 1, 2, 3]


def test_number_of_threads_is_the_configured_one() -> None:
    """Without a client the workers are the threads that Dask is told to use."""
    assert passes.n_workers() == 2
    with dask.config.set(num_workers=5):
        assert passes.n_workers() == 5


def test_lists_and_objects_arrive_as_they_are() -> None:
    """Arguments are neither searched nor rebuilt."""
    array = np.arange(3)
    found = passes.compute([passes.Call(lambda a, b: (a[0] is array, b), ([array], {"k": 1}))] * 2)
    assert list(found) == [(True, {"k": 1})] * 2


@pytest.mark.cluster
def test_processes_fold_in_order_and_keep_results(two_processes: Client) -> None:
    """On two processes: order as ever, both work, even a single call; a kept result is used where it is."""
    assert passes.n_workers() == 2
    folded: list[int] = []
    passes.run(calls(9, late), lambda index, result: folded.append(result))
    assert folded == list(range(9))
    workers = set(two_processes.run(process_of).values())
    assert set(passes.compute(calls(1, process_of))) <= workers
    kept = passes.persist(calls(4, ones))
    found = passes.compute([passes.Call(where_both, (result,)) for result in kept])
    assert [(made, total) for made, _, total in found] == [
        (made, 1000 * i) for i, (made, *_) in enumerate(found)
    ]
    assert {made for made, *_ in found} <= workers
    assert os.getpid() not in workers
