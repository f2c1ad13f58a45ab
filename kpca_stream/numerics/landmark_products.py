"""Products with the similarities of some rows with the landmarks, strip by strip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.kernels import Kernel, Operand
from kpca_stream.numerics.multiply import STRIP_ROWS, strip_slices

Array = NDArray[Any]


def similarities(kernel: Kernel, A: Operand, Z: Operand, centre: Array, out: Array) -> Array:
    """k_Z(x) − c of rows A against landmarks Z, into the first rows of `out` (≥ n_rows, m), and these."""
    centre = centre.astype(out.dtype, copy=False)
    for rows in strip_slices(len(A)):  # a strip stays in the cache
        T = out[rows]
        kernel.fill(A.strip(rows.start, rows.stop), Z, T)
        T -= centre
    return out[: len(A)]


def projected(kernel: Kernel, A: Operand, Z: Operand, D: Array, mean: Array, dtype: DTypeLike) -> Array:
    """(k_Z(x) − mean)ᵀ D of rows A against landmarks Z, (n_rows, k) in float64.

    Parameters
    ----------
    kernel : Kernel
    A, Z : Operand
        Rows and landmarks.
    D : ndarray of shape (m, k)
        `Embedding.B` for scores.
    mean : ndarray of shape (m,)
        Taken off before the product, so that nearly constant similarities do not cancel in it.
    dtype : dtype
        Precision of the similarities and of a strip's product.
    """
    near, fine = mean.astype(dtype), D.astype(dtype)
    buffer = np.empty((min(STRIP_ROWS, len(A)), len(mean)), dtype)
    out = np.empty((len(A), D.shape[1]))
    for rows in strip_slices(len(A)):
        out[rows] = similarities(kernel, A.strip(rows.start, rows.stop), Z, near, buffer) @ fine
    out -= (mean - near) @ D
    return out


def collected(kernel: Kernel, A: Operand, Z: Operand, V: Array, mean: Array, dtype: DTypeLike) -> Array:
    """Σ (k_Z(x_i) − mean) v_iᵀ over rows A, V (n_rows, w): as `projected` transposed, (m, w) in float64."""
    near, fine = mean.astype(dtype), V.astype(dtype)
    buffer = np.empty((min(STRIP_ROWS, len(A)), len(mean)), dtype)
    total = -np.outer(mean - near, V.sum(axis=0))
    for rows in strip_slices(len(A)):
        total += similarities(kernel, A.strip(rows.start, rows.stop), Z, near, buffer).T @ fine[rows]
    return total
