"""Landmarks from a pool of rows in memory, by randomly pivoted Cholesky."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.curve import Curve
from kpca_stream.numerics.kernels import Kernel, Operand, Precomputed
from kpca_stream.numerics.pivots import Chosen, Indices, Pivots, Residuals, Wanted, choose

Array = NDArray[Any]

STRIP_ROWS = 1024


@dataclass(frozen=True, eq=False)
class PoolGram:
    """A pool of rows in memory, and other rows by which the curve is judged, if any."""

    kernel: Kernel
    pool: Array
    judges: Array | None
    eps: float = float(np.finfo(np.float64).eps)

    @property
    def weights(self) -> Array:
        """Ones."""
        return np.ones(len(self.pool))

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """In strips of rows."""
        inverse, Z = pivots.inverse(), self.pool[pivots.indices]
        left = residuals_of(self.kernel, self.pool, Z, self.weights, inverse)
        if self.judges is None:
            return left, left.sums.curve
        judged = residuals_of(self.kernel, self.judges, Z, np.ones(len(self.judges)), inverse)
        return left, judged.sums.curve

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """Evaluated."""
        return values_between(self.kernel, self.pool[proposals], self.pool[pivots])


@dataclass(frozen=True, eq=False)
class MatrixGram:
    """A pool of which the kernel matrix (p, p) is given."""

    matrix: Array

    @property
    def weights(self) -> Array:
        """Ones."""
        return np.ones(len(self.matrix))

    @property
    def eps(self) -> float:
        """Of the type in which values are given."""
        return float(np.finfo(self.matrix.dtype if self.matrix.dtype.kind == "f" else np.float64).eps)

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """From columns of the matrix."""
        diagonal = np.diagonal(self.matrix).astype(np.float64)
        K = self.matrix[:, pivots.indices].astype(np.float64)
        left = Residuals.of(K, diagonal, self.weights, pivots.inverse(), 1.0)
        return left, left.sums.curve

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """Entries of the matrix."""
        K = self.matrix[np.ix_(proposals, np.concatenate((pivots, proposals)))].astype(np.float64)
        return K, self.matrix[proposals, proposals].astype(np.float64)


def residuals_of(kernel: Kernel, X: Array, landmarks: Array, weights: Array, inverse: Array) -> Residuals:
    """Of rows X (n_rows, n_features), their kernel values in the precision of `inverse` (m, m)."""
    strips = [slice(a, a + STRIP_ROWS) for a in range(0, len(X), STRIP_ROWS)]
    Z = kernel.operand(landmarks, inverse.dtype) if len(landmarks) else None
    found = [_residuals_of_strip(kernel, X[s], Z, weights[s], inverse) for s in strips]
    values = np.concatenate([each.values for each in found])
    return Residuals(values, functools.reduce(operator.add, [each.sums for each in found]))


def _residuals_of_strip(
    kernel: Kernel, X: Array, landmarks: Operand | None, weights: Array, inverse: Array
) -> Residuals:
    rows = kernel.operand(X, inverse.dtype)
    K = np.empty((len(X), len(inverse)), inverse.dtype)
    if landmarks is not None:
        kernel.fill(rows, landmarks, K)
    return Residuals.of(K, kernel.diagonal(rows), weights, inverse, kernel.cancellation(X))


def values_between(kernel: Kernel, proposals: Array, pivots: Array) -> tuple[Array, Array]:
    """Of rows `proposals` (b, n_features) with `pivots` and themselves (b, m + b), and k(x, x) (b,)."""
    K = kernel.matrix(proposals, np.concatenate((pivots, proposals)))
    return K, kernel.diagonal(kernel.operand(proposals, np.float64))


def rpcholesky(
    kernel: Kernel,
    pool: Array,
    n_landmarks: int,
    seed: int,
    residual: float | None = None,
    *,
    judges: Array | None = None,
) -> Chosen:
    """Landmarks from a pool of rows.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite (rbf and laplacian with shift 0).
    pool : ndarray of shape (p, n_features)
        With a precomputed kernel the symmetric matrix (p, p) of the pool.
    n_landmarks : int
        At most so many; fewer where the pool's rank is exhausted.
    seed : int
    residual : float, optional
        Stop at the first landmark that leaves this share of the trace.
    judges : ndarray of shape (q, n_features), optional
        Rows by which the curve is measured, in place of the pool's own. The pool's own are right where it is
        all rows; where it is a small sample of them, rows that could not be chosen tell the truth.

    Returns
    -------
    Chosen
        Positions in the pool, and the curve.
    """
    wanted = Wanted(n_landmarks=n_landmarks, seed=seed, residual=residual)
    if isinstance(kernel, Precomputed):
        return choose(MatrixGram(pool), wanted)
    return choose(PoolGram(kernel, pool, judges), wanted)
