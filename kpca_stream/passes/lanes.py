"""Several windows of a pass under way at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Self

import dask

from kpca_stream.passes.calls import Call
from kpca_stream.passes.computing import compute
from kpca_stream.passes.schedulers import active_client, is_clients, is_shared, n_workers
from kpca_stream.passes.waiting import FORSAKE_SECONDS, forsake
from kpca_stream.signals import undisturbed


class Lanes:
    """Windows under way, each in a thread that waits for it; a single lane is the caller's own.

    Dask's threads are those of one pool for all lanes. Of schedulers other than threads and a client's, which
    may not be called from several threads at once, one window is under way.
    """

    def __init__(self, n_lanes: int) -> None:
        self.n_lanes = n_lanes if is_shared() else 1
        self.client = active_client() if is_clients() else None
        self.how: dict[str, Any] = {"of_pass": object()}
        self._under_way: deque[tuple[range, float, Future[Sequence[Any]]]] = deque()
        if self.n_lanes > 1 and self.client is None:
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
            # A lane that nobody knows of would not be waited for.
            with undisturbed() if self.client else nullcontext():
                future = _threads("lanes", self.n_lanes).submit(compute, calls, **self.how)
                self._under_way.append((window, began, future))
            return
        future = Future()
        future.set_result(compute(calls))
        self._under_way.append((window, began, future))

    def end(self) -> tuple[range, Sequence[Any], float]:
        """The first window that was begun, its results once they are there, and the seconds since then."""
        window, began, future = self._under_way[0]
        results = future.result()
        self._under_way.popleft()
        return window, results, time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Threads of one's own cannot be left; a cluster can, but not closed while a lane waits for it.
        is_left = error is not None and self.client is not None
        lanes = [future for _, _, future in self._under_way]
        while wait(lanes, FORSAKE_SECONDS if is_left else None).not_done:  # some may just have begun
            forsake(self.client, self.how["of_pass"])


_pools = threading.local()


def _threads(name: str, n_threads: int) -> ThreadPoolExecutor:
    """Threads of the caller's own, used again: new ones begin with new pages of memory."""
    pools: dict[tuple[str, int], ThreadPoolExecutor] = _pools.__dict__.setdefault("held", {})
    return pools.setdefault((name, n_threads), ThreadPoolExecutor(n_threads))
