"""Rows → scores against a basis, tile by tile; a row's score does not depend on the rows beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.kernels import Kernel, Operand
from kpca_stream.numerics.multiply import computed_strips, multiply_tile

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Projection:
    """Scores of some rows, and what the reconstruction error needs.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_components)
        z(x) = αᵀ(k(x) − m_row).
    mean_similarity : ndarray of shape (n_rows,)
        The (weighted) mean over training rows of k'(x, x_i).
    """

    scores: Array
    mean_similarity: Array


def project(
    kernel: Kernel,
    A: Operand,
    training: Iterable[tuple[Operand, Array, Array]],
    *,
    centring: Array,
    total_weight: float,
    dtype: DTypeLike,
) -> Projection:
    """Scores of the rows of A.

    Parameters
    ----------
    kernel : Kernel
    A : Operand
        The rows to score.
    training : iterable of (Operand, ndarray (b, k), ndarray (b,))
        Blocks of the training rows with their coefficients α and weights.
    centring : ndarray of shape (k,)
        αᵀm, m the row means of the reduced kernel. The other two terms of centring drop out, since 1ᵀα = 0.
    total_weight : float
        Σ w.
    dtype : dtype
        Precision of the kernel values.
    """
    sums = np.zeros((len(A), len(centring) + 1))
    for B, coefficients, weights in training:
        V = np.column_stack([coefficients, weights]).astype(dtype)
        multiply_tile(computed_strips(kernel, A, B, dtype, diagonal=False), V[:0], V, sums, None)
    return Projection(sums[:, :-1] - centring, sums[:, -1] / total_weight)
