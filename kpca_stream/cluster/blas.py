"""BLAS held to one thread wherever it computes.

One thread, because a matrix product on two has other bits than on one, and since the tasks occupy
the cores anyway.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import scipy.linalg  # noqa: F401  its own BLAS must be loaded before the thread pools are counted
from threadpoolctl import ThreadpoolController

from kpca_stream.cluster.memory import return_freed_memory

if TYPE_CHECKING:
    from distributed import Client


def hold_blas(client: Client) -> None:
    """Hold BLAS at one thread on every worker of `client`, those that join later included.

    Their allocators are set as this package's own processes have theirs.

    Calling it again changes nothing.
    """
    from distributed import WorkerPlugin

    class OneBlasThread(WorkerPlugin):
        """Limits BLAS for as long as the worker lives."""

        name = "kpca_stream-one-blas-thread"
        idempotent = True

        def setup(self, worker: Any) -> None:  # noqa: ARG002  Dask's signature
            hold_blas_for_good()
            return_freed_memory()  # as Dask starts them, they ask for new pages with every task

    client.register_plugin(OneBlasThread())


def hold_blas_for_good() -> None:
    """Hold BLAS at one thread until this process ends."""
    _take_control()
    _controller().limit(limits=1)


@functools.cache
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, limiting them microseconds.
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    # Since threadpoolctl 3.7 only one thread may set OpenBLAS's limit; others are silently ignored.
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class _Held:
    """How many contexts hold BLAS now: the first limits it, the last restores it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.limiter: Any = None

    def enter(self) -> None:
        """Limit BLAS, unless another context has done so."""
        with self.lock:
            if self.depth == 0:
                _take_control()
                self.limiter = _controller().limit(limits=1)
            self.depth += 1

    def leave(self) -> None:
        """Restore the limit with the last context."""
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                _take_control()
                self.limiter.restore_original_limits()
                _take_control()


_held = _Held()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread in this process; the caller's setting is back afterwards.

    Contexts may be nested, and overlap in several threads.
    """
    _held.enter()
    try:
        yield
    finally:
        _held.leave()
