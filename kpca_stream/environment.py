"""What a report of a fault should say about where it happened."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TextIO

from kpca_stream.packages import package_versions


def show_versions(file: TextIO | None = None) -> None:
    """Print the system, the processors, the versions of Python and packages, and the BLAS libraries.

    Parameters
    ----------
    file : text stream, optional
        Default: standard output.

    Examples
    --------
    >>> from kpca_stream import show_versions
    >>> show_versions()  # doctest: +SKIP
    """
    stream = sys.stdout if file is None else file
    for name, value in environment().items():
        print(f"{name:<18}  {value}", file=stream)


def environment() -> dict[str, str]:
    """The same as names and values."""
    n_usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": platform.platform(),
        "processors": f"{n_usable} of {os.cpu_count()}, {platform.machine()}",
        **package_versions(),
        **_libraries(),
    }


def _libraries() -> dict[str, str]:
    """BLAS and OpenMP as they are loaded, which numbers depend on to the last bit."""
    import scipy.linalg  # noqa: F401  loads its own BLAS
    from threadpoolctl import threadpool_info

    found = {}
    for library in threadpool_info():
        told = [
            library["internal_api"],
            library.get("version"),
            library.get("architecture"),
            f"{library['num_threads']} threads",
        ]
        owner = Path(library["filepath"]).parent.name.removesuffix(".libs")
        found[f"{library['user_api']} of {owner}"] = ", ".join(str(part) for part in told if part)
    return found
