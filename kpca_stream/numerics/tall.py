"""Algebra of tall blocks of vectors: row by row chunk in float64, whatever the blocks are stored in.

A *family* is a sequence of blocks (n, w_j) that stand side by side as one (n, Σ w_j) matrix; it is never
joined as a whole, so that float32 blocks cost half and still lose nothing in the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Family = Sequence[Array]

CHUNK_ROWS = 8192
RANK_TOLERANCE = 1e-14


def inner(A: Family, B: Family) -> Array:
    """AᵀB, shape (columns of A, columns of B), float64."""
    total = np.zeros((n_columns(A), n_columns(B)))
    for rows in chunks(A):
        total += joined(A, rows).T @ joined(B, rows)
    return total


def combine(A: Family, Y: Array) -> Array:
    """A·Y, shape (n, columns of Y), float64."""
    out = np.empty((A[0].shape[0], Y.shape[1]))
    for rows in chunks(A):
        np.matmul(joined(A, rows), Y, out=out[rows])
    return out


def residual_norms(vectors: Family, products: Family, Y: Array, theta: Array) -> Array:
    """‖A u_j − θ_j u_j‖ for u = vectors·Y, where ``products`` holds A·vectors; shape (columns of Y,)."""
    squares = np.zeros(Y.shape[1])
    for rows in chunks(vectors):
        R = joined(products, rows) @ Y - (joined(vectors, rows) @ Y) * theta
        squares += np.einsum("ij,ij->j", R, R)
    return np.sqrt(squares)


def project_out(A: Family, F: Array) -> None:
    """F ← (I − A Aᵀ) F in place, twice, for orthonormal A."""
    for _ in range(2):
        C = inner(A, [F])
        for rows in chunks(A):
            F[rows] -= joined(A, rows) @ C


def orthonormal(F: Array, floor: float) -> Array:
    """An orthonormal basis (n, r) of the directions of F (n, w) with singular values above `floor`."""
    Q, R = np.linalg.qr(F)
    U, s, _ = np.linalg.svd(R)
    return np.asarray(Q @ U[:, s > max(floor, RANK_TOLERANCE * s.max(initial=0.0))])


def n_columns(A: Family) -> int:
    """Columns of the joined family."""
    return sum(block.shape[1] for block in A)


def chunks(A: Family) -> Iterator[slice]:
    """Row slices that cover the family in order."""
    n_rows = A[0].shape[0] if A else 0
    return (slice(i, min(i + CHUNK_ROWS, n_rows)) for i in range(0, n_rows, CHUNK_ROWS))


def joined(A: Family, rows: slice) -> Array:
    """Some rows of the joined family, in float64."""
    return np.concatenate([block[rows] for block in A], axis=1, dtype=np.float64)
