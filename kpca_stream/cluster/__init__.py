"""The cluster section → a Dask scheduler for as long as a command lasts, with BLAS held to one thread."""

from __future__ import annotations

from kpca_stream.cluster.blas import hold_blas, hold_blas_for_good, single_threaded_blas
from kpca_stream.cluster.connection import connect, connect_as, forecast_workers
from kpca_stream.cluster.memory import release_memory, return_freed_memory

__all__ = [
    "connect",
    "connect_as",
    "forecast_workers",
    "hold_blas",
    "hold_blas_for_good",
    "release_memory",
    "return_freed_memory",
    "single_threaded_blas",
]
