"""A Dask scheduler for as long as a fit lasts, with BLAS held to one thread wherever it computes.

One thread, because a matrix product on two has other bits than on one, and since the tasks occupy
the cores anyway.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import dask
import scipy.linalg  # noqa: F401  its own BLAS must be loaded before the thread pools are counted
from dask.system import CPU_COUNT
from threadpoolctl import ThreadpoolController

from kpca_stream.errors import BusyError, ConfigError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

Kind = Literal["threads", "local"]

OWN_BLOCK_BYTES = 4 * 2**20
"""Larger arrays get pages of their own, which go back when the array does."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>


def connect(
    kind: Kind = "threads",
    *,
    n_workers: int | None = None,
    threads_per_worker: int = 1,
    memory_limit: int | None = None,
) -> AbstractContextManager[None]:
    """Make a scheduler the active one; leaving the context closes all that it started.

    Parameters
    ----------
    kind : {"threads", "local"}
        Threads of this process, without a server; or processes of this machine, reached through
        loopback only.
    n_workers : int, optional
        Threads, or processes; default: the processors that this process may use.
    threads_per_worker : int
        Threads of each process of ``local``.
    memory_limit : int, optional
        Bytes at which a process of ``local`` is restarted; default: never.

    Raises
    ------
    ConfigError
        Another kind.
    BusyError
        The processes of ``local`` did not start, or were killed again and again.

    Notes
    -----
    A script that opens ``local`` needs the usual ``if __name__ == "__main__":``, since processes
    are spawned.
    """
    if kind == "threads":
        return dask.config.set(scheduler="threads", num_workers=n_workers or CPU_COUNT)
    if kind == "local":
        return _local(n_workers or max(1, CPU_COUNT // threads_per_worker), threads_per_worker, memory_limit)
    raise ConfigError(f"unknown cluster kind, got {kind!r}, expected 'threads' or 'local'")


@contextmanager
def _local(n_workers: int, threads_per_worker: int, memory_limit: int | None) -> Iterator[None]:
    # Imported here: it costs more time than a small fit.
    from distributed import Client, KilledWorker
    from distributed.comm import CommClosedError  # type: ignore[attr-defined]

    with (
        _local_cluster(n_workers, threads_per_worker, memory_limit) as cluster,
        _lost("lost the cluster's processes", KilledWorker, CancelledError, CommClosedError),
        Client(cluster) as client,
    ):
        hold_blas(client)
        yield


def _local_cluster(n_workers: int, threads_per_worker: int, memory_limit: int | None) -> LocalCluster:
    from distributed import LocalCluster

    with _lost("the cluster's processes did not start", RuntimeError, OSError, TimeoutError):
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads_per_worker,
            processes=True,
            memory_limit=memory_limit,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # what goes wrong is raised here, and told once
        )


@contextmanager
def _lost(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Tell these errors as a cluster that may be there another time."""
    try:
        yield
    except errors as error:
        raise BusyError(f"{what}, got: {error}; try again, or with fewer of them") from error


def hold_blas(client: Client) -> None:
    """Hold BLAS at one thread on every worker of `client`, those that join later included.

    Calling it again changes nothing.
    """
    from distributed import WorkerPlugin

    class OneBlasThread(WorkerPlugin):
        """Limits BLAS for as long as the worker lives."""

        name = "kpca_stream-one-blas-thread"
        idempotent = True

        def setup(self, worker: Any) -> None:  # noqa: ARG002  Dask's signature
            hold_blas_for_good()

    client.register_plugin(OneBlasThread())


def hold_blas_for_good() -> None:
    """Hold BLAS at one thread until this process ends."""
    _take_control()
    _controller().limit(limits=1)


def return_freed_memory() -> None:
    """Have the allocator give large freed blocks back to the system, from now on in this process.

    As it is, glibc comes to keep up to 64 MB of them for every thread; Dask's own processes are started so.
    """
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, OWN_BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, OWN_BLOCK_BYTES)


def release_memory() -> None:
    """Give back what readers of files have freed: Arrow's memory pool keeps it otherwise."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


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
        with self.lock:
            if self.depth == 0:
                _take_control()
                self.limiter = _controller().limit(limits=1)
            self.depth += 1

    def leave(self) -> None:
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
