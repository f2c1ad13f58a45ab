"""Prints what was measured: a table for people, one JSON line for machines."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any


def show(question: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print `rows`, all with the same keys, under `question`; then the same as JSON with the machine."""
    columns = list(rows[0])
    cells = [columns, *([_text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    print(f"\n{question}")
    for line in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(json.dumps({"question": question, "rows": list(rows), "machine": machine()}))


def machine() -> dict[str, str]:
    """The processor and the versions that decide how fast it goes."""
    packages = ("numpy", "scipy", "dask", "zarr", "scikit-learn")
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        return platform.processor()
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
