"""Rows → scores against a basis, tile by tile; a row's score does not depend on the rows beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.kernels import Kernel, Operand
from kpca_stream.numerics.multiply import computed_strips, multiply_tile

Array = NDArray[Any]


READY_BYTES = 2**28
"""Rows in memory are made ready to be scored against once and for all where that takes no more.

Otherwise it is done each time: the more columns there are, the smaller is its share of the time."""


class Spanning(NamedTuple):
    """Some of the rows that a basis is spanned by, ready to be scored against.

    `side` are the rows (b,) as the second side of tiles; `factors` (b, k + 1) are their coefficients α and,
    in the last column, their weights, in the precision of kernel values.
    """

    side: Operand
    factors: Array


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
    spanning: Iterable[Spanning],
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
    spanning : iterable of Spanning
        Blocks of the rows that the basis is spanned by.
    centring : ndarray of shape (k,)
        αᵀm, m the row means of the reduced kernel. The other two terms of centring drop out, since 1ᵀα = 0.
    total_weight : float
        Σ w.
    dtype : dtype
        Precision of the kernel values.
    """
    sums = np.zeros((len(A), len(centring) + 1))
    for B, V in spanning:
        multiply_tile(computed_strips(kernel, A, B, dtype, diagonal=False), V[:0], V, sums, None)
    return Projection(sums[:, :-1] - centring, sums[:, -1] / total_weight)


def ready_bytes(n_rows: int, n_features: int, n_components: int) -> int:
    """Memory that rows take, at most, that are ready to be scored against: points, a side, coefficients."""
    return 8 * n_rows * (2 * n_features + n_components + 3)


def held_bytes(n_rows: int, n_features: int, n_components: int) -> int:
    """Memory that a basis takes when it is loaded, with what is made ready of it."""
    ready = ready_bytes(n_rows, n_features, n_components)
    return 8 * n_rows * (n_features + n_components) + (ready if ready <= READY_BYTES else 0)
