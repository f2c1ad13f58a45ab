"""A pass is a sequence of small graphs whose results are folded in index order.

Serves every stage: building and multiplying tiles, sweeping rows, scoring. Two graphs, on a cluster four,
are under way at a time, so that workers have tasks while the last one of a graph ends and its results are
folded. No more than twice the number of workers partial results are alive, a few times more while tasks are
short and results small; any Dask scheduler will do, and since results are folded in index order the sums are
the same to the bit on every scheduler and after every restart.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, is_dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import dask
from dask.delayed import delayed
from dask.system import CPU_COUNT

COMMIT_SECONDS = 60.0
WINDOW_SECONDS = 0.5
"""Graphs that take less are made larger: every one costs the caller a few milliseconds."""
WINDOW_BYTES = 32 * 2**20
"""Of results alive, beyond which graphs are not made larger."""
SCHEDULERS_OF_CLIENTS = (None, "dask.distributed")
LANES_OF_CLIENTS = 4
"""Half as wide as two are, so that as many results are alive: where tasks take 0.5 to 2 s, workers that wait
for a graph to end cost 7 % with two of them and 0.5 % with four."""
MOST_ALIVE = 32
"""Tasks, unless twice the workers are more: graphs stay small."""


class Call(NamedTuple):
    """One task: a module-level function and its arguments, all of which serialize.

    With `keeps` the function returns a pair, of which the first part stays where it was made; the result is a
    handle of that, and the second part. As an argument of other calls what a handle stands for does not move.
    What `shared` gives does so once. `label` names a call among its like, where one that fails must be found.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keeps: bool = False
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
    windows = _Windows(commit, len(calls), at_once)
    with _Lanes(windows.n_lanes) as lanes:
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


def compute(calls: Sequence[Call], **how: Any) -> Sequence[Any]:
    """Results of `calls`; without words to the scheduler a single one runs in the caller, without a graph."""
    if not how and _is_trivial(calls):
        return [calls[0].function(*calls[0].arguments)]
    keeping = [call for call in calls if call.keeps]
    if not keeping:
        return _computed([as_delayed(call) for call in calls], how)
    pairs = _persisted([as_delayed(call) for call in keeping], how)
    kept = iter(_persisted([delayed(operator.itemgetter(0))(pair) for pair in pairs], how))
    second = iter([delayed(operator.itemgetter(1))(pair) for pair in pairs])
    found = _computed([next(second) if call.keeps else as_delayed(call) for call in calls], how)
    return [(next(kept), part) if call.keeps else part for call, part in zip(calls, found, strict=True)]


def shared(value: Any) -> Any:
    """What many calls take as an argument, made ready for that.

    Of a client's workers each gets it once, and not with every task; it stays with them as long as the caller
    holds on to the result. On threads it is the value itself.
    """
    if not _is_clients():
        return value
    from distributed import futures_of

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):  # it is sent once
        held = _persisted([delayed(value, name=f"shared-{uuid.uuid4().hex}", traverse=False)], {})[0]
    # Tasks go where what they take is: to all workers.
    _active_client().replicate(futures_of(held))
    return held


def _is_clients() -> bool:
    """Whether graphs go to the workers of a client."""
    return _active_client() is not None and dask.config.get("scheduler", None) in SCHEDULERS_OF_CLIENTS


def _computed(graphs: Sequence[Any], how: dict[str, Any]) -> Sequence[Any]:
    if _is_clients():
        return _brought_home(_active_client(), graphs)
    return tuple(dask.compute(*graphs, **how))  # type: ignore[attr-defined,no-untyped-call]


def _brought_home(client: Any, graphs: Sequence[Any]) -> Sequence[Any]:
    """Results as they come: one that is here is not lost with the worker that made it."""
    from distributed import as_completed

    futures, direct = client.compute(list(graphs)), dask.config.get("kpca_stream.direct", None)
    results: dict[Any, Any] = {}
    # Not with_results: as_completed waits for ever for a result that is lost and cannot be made again.
    for batch in as_completed(futures).batches():
        finished = [future for future in batch if future.status == "finished"]
        results.update(
            zip([future.key for future in finished], client.gather(finished, direct=direct), strict=True)
        )
        for future in finished:
            future.release()
    for future in futures:
        if future.key not in results:
            results[future.key] = client.gather(future)  # or raises what went wrong first
    return tuple(results[future.key] for future in futures)


def _persisted(graphs: Sequence[Any], how: dict[str, Any]) -> Sequence[Any]:
    return tuple(dask.persist(*graphs, **how))  # type: ignore[attr-defined,no-untyped-call]


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
    """The ranges of calls that run together: two of as many as there are workers, or four of half as many.

    There are more of smaller ones where fewer may be alive; they grow while they are short and small, none
    beyond the time after which it shall be committed.
    """

    def __init__(self, commit: Commit | None, n_calls: int, at_once: int | None) -> None:
        self.next, self.n_calls = commit.first if commit else 0, n_calls
        self.seconds = min(WINDOW_SECONDS, commit.seconds) if commit else WINDOW_SECONDS
        alive = usual = 2 * n_workers()
        most = max(MOST_ALIVE, usual)
        if at_once is not None:
            alive, most = (max(1, min(number, at_once)) for number in (usual, most))
        if _is_clients():
            self.n_lanes = min(LANES_OF_CLIENTS, alive)
        else:
            self.n_lanes = 2 if alive == usual else alive
        if n_calls - self.next <= 1:
            self.n_lanes = 1
        self.width, self.widest = max(1, alive // self.n_lanes), max(1, most // self.n_lanes)

    @property
    def remain(self) -> bool:
        """Whether there are calls that have not been taken."""
        return self.next < self.n_calls

    def take(self) -> range:
        """The next ones."""
        window = range(self.next, min(self.next + self.width, self.n_calls))
        self.next = window.stop
        return window

    def widen(self, seconds: float, results: Sequence[Any]) -> None:
        """Take the next window wider, if one was short, and twice as many of its results are small."""
        if seconds < self.seconds and 2 * self.n_lanes * _size(results) < WINDOW_BYTES:
            self.width = min(2 * self.width, self.widest)


class _Lanes:
    """Windows under way, each in a thread that waits for it; a single lane is the caller's own.

    Dask's threads are those of one pool for all lanes. Of schedulers other than threads and a client's, which
    may not be called from several threads at once, one window is under way.
    """

    def __init__(self, n_lanes: int) -> None:
        self.n_lanes = n_lanes if _is_shared() else 1
        self.how: dict[str, Any] = {}
        self._under_way: deque[tuple[range, float, Future[Sequence[Any]]]] = deque()
        if self.n_lanes > 1 and _active_client() is None:
            self.how["pool"] = dask.config.get("pool", None) or _threads("workers", n_workers())

    @property
    def busy(self) -> bool:
        """Whether there is a window under way."""
        return bool(self._under_way)

    @property
    def free(self) -> bool:
        """Whether there is room for another one."""
        return len(self._under_way) < self.n_lanes

    def begin(self, window: range, calls: Sequence[Call]) -> None:
        """Have these calls computed."""
        began = time.monotonic()
        if self.n_lanes > 1:
            future = _threads("lanes", self.n_lanes).submit(compute, calls, **self.how)
        else:
            future = Future()
            future.set_result(compute(calls))
        self._under_way.append((window, began, future))

    def end(self) -> tuple[range, Sequence[Any], float]:
        """The first window that was begun, its results once they are there, and the seconds since then."""
        window, began, future = self._under_way.popleft()
        results = future.result()
        return window, results, time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_asked_to_end = error is not None and not isinstance(error, Exception)
        if not (is_asked_to_end and _active_client()):  # a cluster can be left, threads of one's own cannot
            wait([future for _, _, future in self._under_way])


_pools = threading.local()


def _threads(name: str, n_threads: int) -> ThreadPoolExecutor:
    """Threads of the caller's own, used again: new ones begin with new pages of memory."""
    pools: dict[tuple[str, int], ThreadPoolExecutor] = _pools.__dict__.setdefault("held", {})
    return pools.setdefault((name, n_threads), ThreadPoolExecutor(n_threads))


def _is_shared() -> bool:
    """Whether several graphs may be under way at once."""
    return _active_client() is not None or dask.config.get("scheduler", None) in (
        None,
        "threads",
        "threading",
    )


def _size(value: Any) -> int:
    """Bytes of the arrays in results, as deep as tuples, lists and plain objects go; none of a handle."""
    if _is_lazy(value):
        return 0
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    inner = value if isinstance(value, tuple | list) else vars(value).values() if is_dataclass(value) else ()
    return sum(map(_size, inner))
