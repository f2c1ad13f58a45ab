"""Several windows of a pass under way at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Self

import dask

from kpca_stream.passes.calls import Call
from kpca_stream.passes.computing import compute
from kpca_stream.passes.schedulers import active_client, is_shared, n_workers


class Lanes:
    """Windows under way, each in a thread that waits for it; a single lane is the caller's own.

    Dask's threads are those of one pool for all lanes. Of schedulers other than threads and a client's, which
    may not be called from several threads at once, one window is under way.
    """

    def __init__(self, n_lanes: int) -> None:
        self.n_lanes = n_lanes if is_shared() else 1
        self.how: dict[str, Any] = {}
        self._under_way: deque[tuple[range, float, Future[Sequence[Any]]]] = deque()
        if self.n_lanes > 1 and active_client() is None:
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
        if not (is_asked_to_end and active_client()):  # a cluster can be left, threads of one's own cannot
            wait([future for _, _, future in self._under_way])


_pools = threading.local()


def _threads(name: str, n_threads: int) -> ThreadPoolExecutor:
    """Threads of the caller's own, used again: new ones begin with new pages of memory."""
    pools: dict[tuple[str, int], ThreadPoolExecutor] = _pools.__dict__.setdefault("held", {})
    return pools.setdefault((name, n_threads), ThreadPoolExecutor(n_threads))
