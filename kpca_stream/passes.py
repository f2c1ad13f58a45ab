"""A pass is a sequence of small graphs whose results are folded in index order.

Serves every stage: building and multiplying tiles, sweeping rows, scoring. No more than twice the
number of workers partial results are alive, a few times more while tasks are short and results small; any
Dask scheduler will do, and since results are folded in index order the sums are the same to the bit on every
scheduler and after every restart.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, NamedTuple

import dask
from dask.delayed import delayed
from dask.system import CPU_COUNT

COMMIT_SECONDS = 60.0
WINDOW_SECONDS = 0.5
"""Shorter windows are widened: every one ends with workers that wait for each other."""
WINDOW_BYTES = 32 * 2**20
SCHEDULERS_OF_CLIENTS = (None, "dask.distributed")
WIDEST_WINDOW = 32
"""Tasks, unless twice the workers are more: graphs stay small."""


class Call(NamedTuple):
    """One task: a module-level function and its arguments, all of which serialize.

    `label` names it among its like, where one that fails must be found.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    label: str = ""


@dataclass(frozen=True)
class Lazy(Sequence[Call]):
    """Calls that are made when their window is due.

    Parameters
    ----------
    n_calls : int
    make : callable
        The call of an index.
    """

    n_calls: int
    make: Callable[[int], Call]

    def __len__(self) -> int:
        """How many there are."""
        return self.n_calls

    def __getitem__(self, index: Any) -> Any:
        """Make one."""
        return self.make(range(self.n_calls)[index])


@dataclass
class Commit:
    """Remembers how far a pass got.

    Parameters
    ----------
    save : callable
        Called with the number of tasks folded so far; must persist the accumulator with it.
    first : int
        Number of tasks that a restored accumulator already holds.
    seconds : float
        Least time between two calls of `save`.
    """

    save: Callable[[int], None]
    first: int = 0
    seconds: float = COMMIT_SECONDS
    _last: float = field(default_factory=time.monotonic, repr=False)

    def after(self, n_folded: int) -> None:
        """Save if the last time is long enough ago."""
        if time.monotonic() - self._last >= self.seconds:
            self.save(n_folded)
            self._last = time.monotonic()


def n_workers() -> int:
    """Tasks that run at once: threads of the active Dask client, else of the threaded scheduler.

    Of a client those that its cluster may come to have, where that is known.
    """
    client = _active_client()
    if client is not None:
        present = sum(int(n) for n in client.nthreads().values())
        return max(1, present, int(dask.config.get("kpca_stream.workers", 0)))
    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def n_processes() -> int:
    """Worker processes of the active Dask client; 0 where tasks are threads of this process."""
    client = _active_client()
    if client is None:
        return 0
    return max(1, len(client.nthreads()), int(dask.config.get("kpca_stream.processes", 0)))


def _active_client() -> Any:
    # Without the import there cannot be a client, and importing costs more than a small fit.
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def run(
    calls: Sequence[Call],
    fold: Callable[[int, Any], None],
    *,
    commit: Commit | None = None,
    progress: Callable[[int, int], None] | None = None,
    at_once: int | None = None,
    prepare: Callable[[range], None] | None = None,
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
    prepare : callable, optional
        Called with the indices of a window before its calls are asked for.
    """
    windows = _Windows(commit, len(calls), at_once)
    for window in windows:
        if prepare:
            prepare(window)
        began = time.monotonic()
        results = compute([calls[i] for i in window])
        windows.widen(time.monotonic() - began, results)
        for index, result in zip(window, results, strict=True):
            fold(index, result)
        if commit:
            commit.after(window.stop)
        if progress:
            progress(window.stop, len(calls))


def compute(calls: Sequence[Call]) -> Sequence[Any]:
    """Results of `calls`; a single one runs in the caller, without a graph."""
    if _is_trivial(calls):
        return [calls[0].function(*calls[0].arguments)]
    tasks = [as_delayed(call) for call in calls]
    client = _active_client()
    if client is not None and dask.config.get("scheduler", None) in SCHEDULERS_OF_CLIENTS:
        return _brought_home(client, tasks)
    return tuple(dask.compute(*tasks))  # type: ignore[attr-defined,no-untyped-call]


def _brought_home(client: Any, tasks: list[Any]) -> Sequence[Any]:
    """Results as they come: one that is here is not lost with the worker that made it."""
    from distributed import as_completed

    futures = client.compute(tasks)
    keys, results = [future.key for future in futures], {}
    for future, result in as_completed(futures, with_results=True, raise_errors=False):
        if future.status != "finished":
            return tuple(client.gather(futures))  # raises what went wrong
        results[future.key] = result
        future.release()
    return tuple(results[key] for key in keys)


def persist(calls: Sequence[Call]) -> Sequence[Any]:
    """Results of `calls`, kept where they were made; as arguments of other calls they do not move."""
    if _is_trivial(calls):
        return compute(calls)
    return tuple(dask.persist(*[as_delayed(call) for call in calls]))  # type: ignore[attr-defined,no-untyped-call]


def as_delayed(call: Call) -> Any:
    """The Dask form of a call; only arguments that are Dask's own are looked into for graphs."""
    plain = tuple(itertools.takewhile(lambda argument: not _is_lazy(argument), call.arguments))
    function = functools.partial(call.function, *plain)
    key = "-".join(filter(None, (call.function.__name__, call.label, uuid.uuid4().hex)))
    return delayed(function, pure=False, traverse=False)(*call.arguments[len(plain) :], dask_key_name=key)


def name_of_task(key: Any) -> str:
    """What a key of Dask's is called in messages: the call's function and its label."""
    function, _, rest = str(key).partition("-")
    return f"task {function} {rest.rpartition('-')[0]}".rstrip()


def _is_lazy(argument: Any) -> bool:
    return bool(dask.is_dask_collection(argument))  # type: ignore[attr-defined]


def _is_trivial(calls: Sequence[Call]) -> bool:
    return len(calls) == 1 and not any(map(_is_lazy, calls[0].arguments)) and _active_client() is None


class _Windows:
    """The ranges of calls that run together: two a worker, more as long as they are short and small.

    None is widened beyond the time after which it shall be committed.
    """

    def __init__(self, commit: Commit | None, n_calls: int, at_once: int | None) -> None:
        self.next, self.n_calls = commit.first if commit else 0, n_calls
        self.seconds = min(WINDOW_SECONDS, commit.seconds) if commit else WINDOW_SECONDS
        self.width = 2 * n_workers()
        self.widest = max(WIDEST_WINDOW, self.width)
        if at_once is not None:
            self.width, self.widest = (max(1, min(width, at_once)) for width in (self.width, self.widest))

    def __iter__(self) -> Iterator[range]:
        while self.next < self.n_calls:
            window = range(self.next, min(self.next + self.width, self.n_calls))
            self.next = window.stop
            yield window

    def widen(self, seconds: float, results: Sequence[Any]) -> None:
        """Take the next window wider, if the last one was short and twice its results are small."""
        if seconds < self.seconds and self.width < self.widest and 2 * _size(results) < WINDOW_BYTES:
            self.width = min(2 * self.width, self.widest)


def _size(value: Any) -> int:
    """Bytes of the arrays in results, as deep as tuples, lists and plain objects go."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    inner = value if isinstance(value, tuple | list) else vars(value).values() if is_dataclass(value) else ()
    return sum(map(_size, inner))
