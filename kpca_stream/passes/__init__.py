"""A pass is a sequence of small graphs whose results are folded in index order.

Serves every stage: building and multiplying tiles, sweeping rows, scoring. Two graphs, on a cluster four,
are under way at a time, so that workers have tasks while the last one of a graph ends and its results are
folded. No more than twice the number of workers partial results are alive, a few times more while tasks are
short and results small; any Dask scheduler will do, and since results are folded in index order the sums are
the same to the bit on every scheduler and after every restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kpca_stream.passes.calls import Call, Lazy, as_delayed, name_of_task
from kpca_stream.passes.commit import COMMIT_SECONDS, Commit
from kpca_stream.passes.computing import compute, shared
from kpca_stream.passes.lanes import Lanes
from kpca_stream.passes.schedulers import n_processes, n_workers
from kpca_stream.passes.waiting import ANYTHING, FORSAKE_SECONDS, forsake
from kpca_stream.passes.windows import Windows

__all__ = [
    "ANYTHING",
    "COMMIT_SECONDS",
    "FORSAKE_SECONDS",
    "Call",
    "Commit",
    "Lazy",
    "as_delayed",
    "compute",
    "forsake",
    "n_processes",
    "n_workers",
    "name_of_task",
    "run",
    "shared",
]


def run(
    calls: Sequence[Call],
    fold: Callable[[int, Any], None],
    *,
    commit: Commit | None = None,
    progress: Callable[[int, int], None] | None = None,
    at_once: int | None = None,
) -> None:
    """Run `calls` window by window and fold their results in index order.

    Parameters
    ----------
    calls : sequence of Call
        May be lazy: an item is asked for once, when its window is due.
    fold : callable
        ``fold(index, result)``, called in the caller, in index order.
    commit : Commit, optional
        Where to start and how to persist the accumulator.
    progress : callable, optional
        ``progress(done, total)`` after every window.
    at_once : int, optional
        Upper limit of tasks alive at once, where memory allows no more.
    """
    windows = Windows(commit, len(calls), at_once)
    with Lanes(windows.n_lanes) as lanes:
        while windows.remain or lanes.busy:
            while windows.remain and lanes.free:
                window = windows.take()
                lanes.begin(window, [calls[i] for i in window])
            window, results, seconds = lanes.end()
            windows.widen(seconds, results)
            for index, result in zip(window, results, strict=True):
                fold(index, result)
            if commit:
                commit.after(window.stop)
            if progress:
                progress(window.stop, len(calls))
