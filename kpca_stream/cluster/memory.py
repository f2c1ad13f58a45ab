"""Memory that was freed goes back to the system, so that what a process holds is what it needs."""

from __future__ import annotations

import ctypes
from contextlib import suppress

OWN_BLOCK_BYTES = 4 * 2**20
"""Larger arrays get pages of their own, which go back when the array does."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>


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
