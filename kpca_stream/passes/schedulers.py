"""The Dask scheduler that is the active one: what it is, and how much it does at once."""

from __future__ import annotations

import sys
from typing import Any

import dask
from dask.system import CPU_COUNT

SCHEDULERS_OF_CLIENTS = (None, "dask.distributed", "distributed")
SCHEDULERS_OF_THREADS = (None, "threads", "threading")


def n_workers() -> int:
    """Tasks that run at once: threads of the active Dask client, if graphs go there, else of this process.

    Of a client those that its cluster may come to have, where that is known.
    """
    if is_clients():
        present = sum(int(n) for n in active_client().nthreads().values())
        return max(1, present, int(dask.config.get("kpca_stream.workers", 0)))
    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def n_processes() -> int:
    """Worker processes of the active Dask client; 0 where tasks are threads of this process."""
    if not is_clients():
        return 0
    return max(1, len(active_client().nthreads()), int(dask.config.get("kpca_stream.processes", 0)))


def active_client() -> Any:
    """Dask's client that is the active one; None where there is none."""
    # Without the import there cannot be a client, and importing costs more than a small fit.
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def is_clients() -> bool:
    """Whether graphs go to the workers of a client."""
    client = active_client()
    return client is not None and dask.config.get("scheduler", None) in (*SCHEDULERS_OF_CLIENTS, client)


def is_shared() -> bool:
    """Whether several graphs may be under way at once."""
    return is_clients() or dask.config.get("scheduler", None) in SCHEDULERS_OF_THREADS
