"""Tile: one kernel tile of 2048 × 2048, float32, on one core, beside scikit-learn's function for it.

``python -m tests.benchmarks.tile``. The package's tile comes in strips, as a pass takes it, from rows that
were made ready once for their block; "whole" also copies it into an array, "rows" makes both sides ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.kernels import Kernel, Operand, Preparation
from kpca_stream.numerics.multiply import Workspace, computed_strips
from kpca_stream.numerics.resolve import KernelSpec, make_kernel
from tests.benchmarks.data import clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main, median_seconds
from tests.memory import traced_peak

Array = NDArray[Any]

TILE_ROWS = 2048
LIMITS = {("rbf", 16): 0.33, ("rbf", 64): 0.40, ("rbf", 784): 0.50}
CASES = (
    *LIMITS,
    ("laplacian", 16),
    ("laplacian", 64),
    ("poly", 64),
    ("sigmoid", 64),
    ("cosine", 64),
    ("linear", 64),
)
CENTRED = ("rbf", "laplacian", "linear")


def answer(*, quick: bool) -> Answer:
    """All kernels; the figures are rbf's."""
    with single_threaded_blas():
        rows = [_row(name, n_features, 3 if quick else 15) for name, n_features in CASES]
    figures = [
        Figure(f"rbf tile, d = {n_features}: time / scikit-learn", row["ratio"], LIMITS[name, n_features])
        for (name, n_features), row in zip(CASES, rows, strict=True)
        if (name, n_features) in LIMITS
    ]
    return Answer(rows, figures)


def _row(name: str, n_features: int, times: int) -> dict[str, Any]:
    data = clusters(2 * TILE_ROWS, n_features)
    X, Y = data[:TILE_ROWS].copy(), data[TILE_ROWS:].copy()
    kernel, peer = _kernel(name, data), _peer(name, n_features)
    A, B = (kernel.operand(side, np.float32) for side in (X, Y))
    space = Workspace()
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: _drain(kernel, A, B, space),
        "scikit-learn": lambda: peer(X, Y),
        "whole": lambda: _whole(kernel, A, B),
        "rows": lambda: [kernel.operand(side, np.float32) for side in (X, Y)],
    }
    for work in sides.values():
        work()
    seconds = median_seconds(sides, times)
    return {
        "kernel": name,
        "d": n_features,
        "ours ms": 1e3 * seconds["ours"],
        "scikit-learn ms": 1e3 * seconds["scikit-learn"],
        "ratio": seconds["ours"] / seconds["scikit-learn"],
        "whole ms": 1e3 * seconds["whole"],
        "rows ms": 1e3 * seconds["rows"],
        "MB": traced_peak(lambda: _drain(kernel, A, B, Workspace())) / MB,
        "its MB": traced_peak(sides["scikit-learn"]) / MB,
        "difference": float(np.abs(_whole(kernel, A, B) + _offsets(kernel, A, B) - peer(X, Y)).max()),
    }


def _kernel(name: str, data: Array) -> Kernel:
    preparation = Preparation(data.mean(axis=0, dtype=np.float64) if name in CENTRED else None)
    return make_kernel(KernelSpec(name), preparation, gamma=_gamma(data.shape[1]))


def _gamma(n_features: int) -> float:
    return 1.0 / n_features


def _peer(name: str, n_features: int) -> Callable[[Array, Array], Array]:
    gamma = _gamma(n_features)
    peers: dict[str, Callable[[Array, Array], Array]] = {
        "rbf": lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=gamma),
        "laplacian": lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=gamma),
        "poly": lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=3, gamma=gamma, coef0=1),
        "sigmoid": lambda X, Y: pairwise.sigmoid_kernel(X, Y, gamma=gamma, coef0=1),
        "cosine": pairwise.cosine_similarity,
        "linear": pairwise.linear_kernel,
    }
    return peers[name]


def _drain(kernel: Kernel, A: Operand, B: Operand, space: Workspace) -> None:
    for _ in computed_strips(kernel, A, B, np.float32, diagonal=False, workspace=space):
        pass


def _whole(kernel: Kernel, A: Operand, B: Operand) -> Array:
    T = np.empty((len(A), len(B)), dtype=np.float32)
    for _ in computed_strips(kernel, A, B, np.float32, diagonal=False, out=T):
        pass
    return T


def _offsets(kernel: Kernel, A: Operand, B: Operand) -> Array:
    """What a reduced kernel leaves out, (n_rows, n_rows)."""
    return np.asarray(kernel.offset(A)[:, None] + kernel.offset(B))


QUESTION = Question("Tile: 2048 × 2048, float32, one core", answer)

if __name__ == "__main__":
    main(QUESTION)
