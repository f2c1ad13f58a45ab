"""Sequences of small graphs, folded in order."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.passes import computing, windows

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


def thread_name(_: int) -> str:
    return threading.current_thread().name


def process_of(_: Any = None) -> int:
    return os.getpid()


def ones(index: int) -> Any:
    return os.getpid(), np.full(1000, index)


def kept_ones(index: int) -> Any:
    return ones(index), index


def where_both(made: tuple[int, Any]) -> tuple[int, int, int]:
    return made[0], os.getpid(), int(made[1].sum())


def calls(count: int, function: Any = late) -> list[passes.Call]:
    return [passes.Call(function, (index,)) for index in range(count)]


class Lazy(Sequence[passes.Call]):
    """Calls that note when they were asked for."""

    def __init__(self, count: int, events: list[Any], function: Any = late) -> None:
        self.length, self.events, self.function = count, events, function

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        self.events.append(("asked", index))
        return passes.Call(self.function, (index,))


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


def alive(events: list[Any]) -> list[int]:
    """How many calls had been asked for and not yet folded, after each event."""
    return list(itertools.accumulate({"asked": 1, "folded": -1}.get(event[0], 0) for event in events))


@pytest.mark.parametrize(("at_once", "most"), [(None, 32), (3, 3), (1, 1), (0, 1), (5, 5), (50, 32)])
def test_no_more_than_the_limit_are_alive(at_once: int | None, most: int) -> None:
    """Calls are made as others are folded: never more than the limit, to which short ones grow."""
    events: list[Any] = []
    passes.run(
        Lazy(100, events),
        lambda index, _: events.append(("folded", index)),
        at_once=at_once,
        progress=lambda done, total: events.append(("done", done, total)),
    )
    assert [e[1] for e in events if e[0] == "asked"] == list(range(100))
    assert [e[1] for e in events if e[0] == "folded"] == list(range(100))
    assert [e for e in events if e[0] == "done"][-1] == ("done", 100, 100)
    assert most // 2 < max(alive(events)) <= most


def test_the_next_calls_are_under_way_while_results_are_folded() -> None:
    """The first window is folded once the second was begun, and the third is begun once it is folded."""
    events: list[Any] = []
    passes.run(Lazy(6, events), lambda index, _: events.append(("folded", index)), at_once=4)
    begun = [("asked", index) for index in range(4)]
    assert events[:8] == [*begun, ("folded", 0), ("folded", 1), ("asked", 4), ("asked", 5)]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_other_schedulers_take_one_window_at_a_time(scheduler: str) -> None:
    """Whatever scheduler Dask is told to use computes the calls, and the order is the same."""
    folded: list[int] = []
    with dask.config.set(scheduler=scheduler):
        passes.run(calls(9), lambda index, result: folded.append(result))
    assert folded == list(range(9))


def test_a_pool_of_the_users_own_is_used() -> None:
    """Tasks run in the threads of the pool that Dask was given."""
    with ThreadPoolExecutor(2, thread_name_prefix="own") as pool, dask.config.set(pool=pool):
        names: set[str] = set()
        passes.run(calls(9, thread_name), lambda _, name: names.add(name.split("_")[0]))
    assert names == {"own"}


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
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 0.05 if task is slow else 60.0)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 2**24)
    events: list[Any] = []
    passes.run(
        Lazy(12, events, task),
        lambda index, _: events.append(("folded", index)),
    )
    assert max(alive(events)) == 4


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
    assert [done for done, _ in saved] == list(range(1, 8))
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
    assert all(seen != here for seen in passes.compute(calls(2, place)))
    monkeypatch.setattr(computing, "as_delayed", None)
    assert passes.compute(calls(1)) == [0]


def keeping(count: int, make: Any = None) -> list[passes.Call]:
    return [passes.Call(make or kept_ones, (index,), keeps=True) for index in range(count)]


def test_single_call_of_a_kept_result_is_computed() -> None:
    """One call whose argument is a kept result gets its value, not its handle."""
    (_, second) = passes.compute(keeping(2))
    (found,) = passes.compute([passes.Call(where_both, (second[0],))])
    assert found == (os.getpid(), os.getpid(), 1000)


@pytest.mark.parametrize("count", [1, 3])
def test_kept_results_are_arguments(count: int) -> None:
    """What was kept serves any number of later calls, and is made once; what goes with it is a result."""
    made = []

    def make(index: int) -> Any:
        made.append(index)
        return kept_ones(index)

    pairs = passes.compute([*keeping(count, make), *calls(2)])
    assert list(pairs[count:]) == [0, 1]
    assert [number for _, number in pairs[:count]] == list(range(count))
    for _ in range(2):
        found = passes.compute([passes.Call(where_both, (kept,)) for kept, _ in pairs[:count]])
        assert [total for *_, total in found] == [1000 * index for index in range(count)]
    assert sorted(made) == list(range(count))


def test_error_of_a_task_reaches_the_caller() -> None:
    """A task's exception is raised as it is; what was folded before stays folded."""
    folded: list[int] = []
    with pytest.raises(ZeroDivisionError, match="five"):
        passes.run(calls(9, failing), lambda index, _: folded.append(index), at_once=2)
    assert folded == [0, 1, 2, 3, 4]


def nested(count: int) -> list[int]:
    folded: list[int] = []
    passes.run(calls(count), lambda _, result: folded.append(result))
    return folded


def test_a_task_may_run_a_pass_of_its_own() -> None:
    """Tasks in all threads that wait for passes of their own get their results."""
    found: list[list[int]] = []
    passes.run([passes.Call(nested, (3,))] * 6, lambda _, result: found.append(result))
    assert found == [[0, 1, 2]] * 6


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
    kept = passes.compute(keeping(4))
    found = passes.compute([passes.Call(where_both, (result,)) for result, _ in kept])
    assert [(made, total) for made, _, total in found] == [
        (made, 1000 * i) for i, (made, *_) in enumerate(found)
    ]
    assert {made for made, *_ in found} <= workers
    assert os.getpid() not in workers


def threads_of_a_pass() -> set[str]:
    """The threads in which tasks of a pass run."""
    names: set[str] = set()
    passes.run(calls(9, thread_name), lambda _, name: names.add(name), at_once=4)
    return names


@pytest.mark.cluster
def test_a_scheduler_beside_a_client_counts(two_processes: Client) -> None:
    """Where Dask is told to use another scheduler than the client's, its tasks and numbers count."""
    for own in (None, "distributed", two_processes):
        with dask.config.set(scheduler=own):
            assert passes.n_processes() == len(two_processes.nthreads())
            assert passes.compute(calls(1, process_of)) != [os.getpid()]
    with dask.config.set(scheduler="sync", num_workers=3):
        assert (passes.n_workers(), passes.n_processes()) == (3, 0)
        assert threads_of_a_pass() == {threading.current_thread().name}
        assert passes.compute(calls(1, place)) == [(os.getpid(), threading.get_ident())]
    with (
        ThreadPoolExecutor(2, thread_name_prefix="own") as pool,
        dask.config.set(scheduler="threads", num_workers=3, pool=pool),
    ):
        assert (passes.n_workers(), passes.n_processes()) == (3, 0)
        assert {name.split("_")[0] for name in threads_of_a_pass()} == {"own"}
