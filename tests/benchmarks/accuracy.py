"""How good eigenpairs are: residuals of an rbf kernel in float64, written out, independent of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROWS = 512


def relative_residual(X: Array, gamma: float, eigenvalues: Array, eigenvectors: Array) -> float:
    """max_j ‖K̃ a_j − μ_j a_j‖ / μ_1 for unit a_j (n_samples, k)."""
    A = np.asarray(eigenvectors, dtype=np.float64)
    A = A / np.linalg.norm(A, axis=0)
    mu = np.asarray(eigenvalues, dtype=np.float64)
    product = _times_kernel(np.asarray(X, dtype=np.float64), gamma, A - A.mean(axis=0))
    product -= product.mean(axis=0)
    return float(np.linalg.norm(product - A * mu, axis=0).max() / mu[0])


def _times_kernel(X: Array, gamma: float, V: Array) -> Array:
    X = X - X.mean(axis=0)
    norms = np.einsum("ij,ij->i", X, X)
    product = np.empty_like(V)
    for start in range(0, len(X), ROWS):
        rows = slice(start, start + ROWS)
        exponent = 2 * (X[rows] @ X.T)
        exponent -= norms[rows, None]
        exponent -= norms
        np.minimum(exponent, 0, out=exponent)
        exponent *= gamma
        np.exp(exponent, out=exponent)
        product[rows] = exponent @ V
    return product
