"""Calls that flow through a client: folded in order, few ahead, and the first that fails is told."""

from __future__ import annotations

import time

import pytest
from distributed import Client

from kpca_stream import passes
from kpca_stream.errors import DataError

pytestmark = pytest.mark.cluster


def late(index: int) -> int:
    """Earlier calls end later."""
    time.sleep(0.02 * (7 - index % 8))
    return index


def fails(index: int) -> int:
    if index in {3, 5}:
        time.sleep(0.3 if index == 3 else 0)
        raise DataError(f"row {index}")
    return index


def test_results_are_folded_in_order(two_processes: Client) -> None:
    """Whatever ends first, results are folded in index order, and committed up to the last one."""
    assert len(two_processes.nthreads()) == 2
    folded: list[int] = []
    saved: list[int] = []
    told: list[int] = []
    calls = [passes.Call(late, (i,)) for i in range(30)]
    passes.run(
        calls,
        lambda index, result: folded.append(result if index == result else -1),
        commit=passes.Commit(saved.append, first=4, seconds=0),
        progress=lambda done, total: told.append(done),
    )
    assert folded == list(range(4, 30))
    assert saved == told == sorted(set(saved))
    assert saved[-1] == 30


def test_no_more_are_under_way_than_allowed(two_processes: Client) -> None:
    """Calls are asked for when they are due: never more than `at_once` ahead of what was folded."""
    assert two_processes.status == "running"
    asked: list[int] = []
    ahead: list[int] = []

    def make(index: int) -> passes.Call:
        asked.append(index)
        return passes.Call(late, (index,))

    passes.run(passes.Lazy(20, make), lambda index, _: ahead.append(len(asked) - index), at_once=3)
    assert asked == list(range(20))
    assert max(ahead) <= 3


def test_the_first_failure_is_told(two_processes: Client) -> None:
    """Of several calls that fail the error of the first is raised, though another came earlier."""
    assert two_processes.status == "running"
    folded: list[int] = []
    with pytest.raises(DataError, match="row 3"):
        passes.run([passes.Call(fails, (i,)) for i in range(9)], lambda index, _: folded.append(index))
    assert folded == list(range(len(folded)))
    assert len(folded) <= 3
