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
    """Run `calls` window by window, through a client without waiting between them, and fold in index order.

    Parameters
    ----------
    calls : sequence of Call
        May be lazy: an item is asked for once, when its window is due.
    fold : callable
        ``fold(index, result)``, called in the caller, in index order.
    commit : Commit, optional
        Where to start and how to persist the accumulator.
    progress : callable, optional
        ``progress(done, total)`` after every window, through a client after every fold.
    at_once : int, optional
        Upper limit of tasks alive at once, where memory allows no more.
    prepare : callable, optional
        Called with the indices of a window before its calls are asked for.
    """
    windows = _Windows(commit, len(calls), at_once)
    client = _scheduling_client()
    if client is not None:
        flow = _Flow(client, calls, windows, prepare)
        for folded, result in flow:
            fold(folded, result)
            if commit:
                commit.after(folded + 1)
            if progress:
                progress(folded + 1, len(calls))
        return
    for window in windows:
        if prepare:
            prepare(window)
        began = time.monotonic()
        results = compute([calls[i] for i in window])
        windows.widen(time.monotonic() - began, _size(results))
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
    return tuple(dask.compute(*tasks))  # type: ignore[attr-defined,no-untyped-call]


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


def _scheduling_client() -> Any:
    """The active client, unless another scheduler was chosen over it."""
    chosen = dask.config.get("scheduler", None)
    return _active_client() if chosen in SCHEDULERS_OF_CLIENTS else None


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

    def widen(self, seconds: float, n_bytes: int) -> None:
        """Take the next window wider, if the last one was short and twice its results are small."""
        if seconds < self.seconds and self.width < self.widest and 2 * n_bytes < WINDOW_BYTES:
            self.width = min(2 * self.width, self.widest)


class _Flow:
    """Results of calls at a client, in index order; as many calls are under way as a window is wide.

    No worker waits for the others at the end of a window. Results come home one by one, so that one that is
    here is not lost with the worker that made it; those whose turn is yet to come wait here.
    """

    def __init__(
        self,
        client: Any,
        calls: Sequence[Call],
        windows: _Windows,
        prepare: Callable[[range], None] | None,
    ) -> None:
        from distributed import as_completed

        self.client, self.calls, self.windows, self.prepare = client, calls, windows, prepare
        self.arriving = as_completed(with_results=True, raise_errors=False)
        self.index: dict[Any, int] = {}
        self.futures: dict[int, Any] = {}
        self.results: dict[int, Any] = {}
        self.submitted = windows.next

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        began, n_bytes = time.monotonic(), 0
        first = self.submitted
        for turn in range(first, len(self.calls)):
            self._submit(turn)
            result = self._result(turn)
            n_bytes += _size(result)
            yield turn, result
            if (turn + 1 - first) % self.windows.width == 0:
                now = time.monotonic()
                self.windows.widen(now - began, n_bytes)
                began, n_bytes, first = now, 0, turn + 1

    def _submit(self, turn: int) -> None:
        """Submit so many that a window of calls is under way, not one by one where windows are wide."""
        width, total = self.windows.width, len(self.calls)
        ahead = self.submitted - turn
        if self.submitted == total or (ahead and width - ahead < max(1, width // 4)):
            return
        new = range(self.submitted, min(turn + width, total))
        if self.prepare:
            self.prepare(new)
        futures = self.client.compute([as_delayed(self.calls[i]) for i in new])
        self.index.update(zip((future.key for future in futures), new, strict=True))
        self.futures.update(zip(new, futures, strict=True))
        self.arriving.update(futures)
        self.submitted = new.stop

    def _result(self, turn: int) -> Any:
        """The result whose turn it is, or its error: that of the first call that fails."""
        while turn not in self.results:
            future, result = next(self.arriving)
            index = self.index.pop(future.key)
            if future.status == "finished":
                self.results[index] = result
                self.futures.pop(index).release()
            elif index == turn:
                break
            else:
                self.results[index] = _FAILED
        if turn in self.futures:
            return self.client.gather(self.futures[turn])  # raises what went wrong
        return self.results.pop(turn)


_FAILED = object()


def _size(value: Any) -> int:
    """Bytes of the arrays in results, as deep as tuples, lists and plain objects go."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    inner = value if isinstance(value, tuple | list) else vars(value).values() if is_dataclass(value) else ()
    return sum(map(_size, inner))
