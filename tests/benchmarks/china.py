"""China: 66,570 image patches on a laptop's memory; tiles on disk against tiles computed again.

``python -m tests.benchmarks.china``: scikit-learn's ``china.jpg`` as 8×8 grey patches at stride 2, rbf with the
median γ, 10 components, tol 1e-6, float32, through the command line. Asked: eigenvalues equal to 1e-5, peak memory
below 1.5 GB (the matrix takes 17.7 GB), at most 8 passes. Needs 10 GB of disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_sample_image

from tests.benchmarks.commandline import fit
from tests.benchmarks.table import show

SETTINGS = {
    "kernel.name": "rbf",
    "kernel.gamma": "median",
    "solver.n_components": 10,
    "solver.tol": 1e-6,
    "solver.precision": "float32",
    "limits.memory": "1GiB",
}


def patches() -> NDArray[np.float32]:
    """The patches, (66570, 64), grey values 0 to 255."""
    grey = load_sample_image("china.jpg").mean(axis=2)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (8, 8))[::2, ::2]
    return np.ascontiguousarray(windows.reshape(-1, 64), dtype=np.float32)


def main() -> None:
    """Fit with both storages and compare."""
    rows, found = [], []
    for storage in ("recompute", "zarr"):
        with tempfile.TemporaryDirectory() as folder:
            measured = fit(Path(folder), patches(), {**SETTINGS, "gram.storage": storage})
        found.append(np.array(measured.result["eigenvalues"]))
        rows.append(_row(storage, measured.result, measured.seconds, measured.peak_memory, found))
    show("china.jpg, 66,570 × 64, rbf, float32, tol 1e-6", rows)


def _row(
    storage: str, result: dict[str, Any], seconds: float, peak_memory: int, found: list[NDArray[Any]]
) -> dict[str, Any]:
    return {
        "storage": storage,
        "seconds": round(seconds, 1),
        "passes": result["n_passes"],
        "peak GB": round(peak_memory / 1e9, 2),
        "first eigenvalue": result["eigenvalues"][0],
        "largest residual": max(result["residual_norms"]),
        "difference": float(np.abs(found[-1] / found[0] - 1).max()),
    }


if __name__ == "__main__":
    main()
