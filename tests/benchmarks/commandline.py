"""Runs the real command on real data, and measures it from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Measured:
    """What one command printed and took."""

    result: dict[str, Any]
    seconds: float
    peak_memory: int  # bytes, of the process that did the work


def fit(folder: Path, rows: NDArray[Any], settings: dict[str, Any]) -> Measured:
    """Write `rows` as npy to `folder` and fit them by ``kpca-stream fit`` in a process of its own.

    Parameters
    ----------
    folder : Path
        For the data, the run's store and the models.
    rows : ndarray of shape (n_samples, n_features)
    settings : dict
        Keys and values for ``--set``.
    """
    np.save(folder / "rows.npy", rows)
    config = folder / "config.yaml"
    config.write_text("name: benchmark\ndata: {train: {path: rows.npy}}\n", encoding="utf-8")
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    return _measured(["fit", config.name, "--json", *overrides], folder)


def _measured(arguments: Sequence[str], folder: Path) -> Measured:
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "kpca_stream", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}: {output}")
    return Measured(json.loads(output)["result"], time.perf_counter() - began, usage.ru_maxrss * 1024)
