"""Truths: full-size real data of which the eigenvalues are known without a Gram matrix.

``python -m tests.benchmarks.truths [pines] [altitude]``: Indian Pines (tensorly), linear, uint16, 21,025 × 200,
against the eigenvalues of its scatter matrix; altitude (pvlib), every 200th, n = 46,656, rbf, γ = 1e-4, against
the weighted kernel matrix of its 218 distinct values. Both in mixed precision; asked: 1e-6 relative.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.commandline import fit
from tests.benchmarks.table import show

PUBLISHED = {
    "pines": (5.633793574e11, 1.935516597e11, 1.2307908e10, 6.757393155e9),
    "altitude": (18036.28989, 1908.474434, 305.7561041, 34.92817166),
}


def indian_pines() -> NDArray[Any]:
    """Pixels × bands, uint16."""
    cube = np.load(_folder("tensorly") / "datasets" / "data" / "Indian_pines_corrected.npy")
    return np.ascontiguousarray(cube.reshape(-1, cube.shape[-1]))


def altitude() -> NDArray[Any]:
    """Every 200th cell of the world's altitude grid, (46656, 1), uint8."""
    import h5py

    with h5py.File(_folder("pvlib") / "data" / "Altitude.h5") as file:
        grid = next(iter(file.values()))[...]
    return np.ascontiguousarray(grid.reshape(-1, 1)[::200])


def scatter_eigenvalues(X: NDArray[Any]) -> NDArray[np.float64]:
    """Of a linear kernel: the eigenvalues of the scatter matrix of the columns."""
    centred = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    return np.linalg.eigvalsh(centred.T @ centred)[::-1]


def distinct_eigenvalues(X: NDArray[Any], gamma: float) -> NDArray[np.float64]:
    """Of an rbf kernel: those of the distinct rows, each as many times as it occurs."""
    values, counts = np.unique(X.astype(np.float64), return_counts=True)
    K = np.exp(-gamma * (values[:, None] - values) ** 2)
    centring = np.eye(len(values)) - counts / counts.sum()
    root = np.sqrt(counts)
    return np.linalg.eigvalsh(root[:, None] * (centring @ K @ centring.T) * root)[::-1]


CASES: dict[str, tuple[Callable[[], NDArray[Any]], Callable[[NDArray[Any]], NDArray[Any]], dict[str, Any]]] = {
    "pines": (indian_pines, scatter_eigenvalues, {"kernel.name": "linear"}),
    "altitude": (altitude, lambda X: distinct_eigenvalues(X, 1e-4), {"kernel.name": "rbf", "kernel.gamma": 1e-4}),
}


def main(names: list[str]) -> None:
    """Fit, and compare with both truths."""
    show("Known eigenvalues, mixed precision", [_row(name) for name in names or list(CASES)])


def _row(name: str) -> dict[str, Any]:
    load, exact, kernel = CASES[name]
    X = load()
    settings = {**kernel, "solver.n_components": 4, "solver.precision": "mixed", "gram.storage": "recompute"}
    with tempfile.TemporaryDirectory() as folder:
        measured = fit(Path(folder), X, settings)
    found = np.array(measured.result["eigenvalues"])
    return {
        "data": name,
        "rows": X.shape[0],
        "seconds": round(measured.seconds, 1),
        "passes": measured.result["n_passes"],
        "peak GB": round(measured.peak_memory / 1e9, 2),
        "against exact": float(np.abs(found / exact(X)[:4] - 1).max()),
        "against published": float(np.abs(found / PUBLISHED[name] - 1).max()),
    }


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; install the bench extra: pip install -e '.[bench]'")
    return Path(spec.origin).parent


if __name__ == "__main__":
    main(sys.argv[1:])
