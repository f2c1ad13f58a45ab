"""Prints what was measured as a table, and names the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print `rows`, all with the same keys, under `title`."""
    columns = list(rows[0])
    cells = [columns, *([_text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    print(f"\n{title}")
    for first, *others in cells:
        rest = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([" ", first.ljust(widths[0]), *rest]))


def machine() -> dict[str, Any]:
    """The processor, the versions, and the settings of BLAS that decide how fast it goes."""
    packages = ("numpy", "scipy", "dask", "distributed", "zarr", "scikit-learn")
    settings = {
        key: value for key, value in sorted(os.environ.items()) if key.startswith(("OPENBLAS", "OMP_"))
    }
    return {
        "processor": _processor(),
        "memory GB": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "environment": settings,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
