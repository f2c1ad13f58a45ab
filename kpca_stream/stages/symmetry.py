"""Whether a given kernel matrix is symmetric, looked at before the first tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.storage.rows import Rows

BLOCK_ROWS = 2048
LARGEST_ASYMMETRY = 1e-10
"""Relative to the largest entry; below it the matrix is symmetrized."""


class Asymmetry(NamedTuple):
    """The largest |K_ij − K_ji| of a pair of blocks, where it is, and the largest |K_ij|."""

    difference: float
    row: int
    column: int
    largest: float


def check_symmetry(rows: Rows, *, progress: Callable[[int, int], None] | None = None) -> None:
    """Refuse a matrix (n, n) that is not symmetric.

    Raises
    ------
    DataError
        If the largest asymmetry passes 1e-10 of the largest entry; names it.
    """
    starts = range(0, rows.shape[0], BLOCK_ROWS)
    calls = [passes.Call(asymmetry, (rows, i, j)) for i in starts for j in starts if i <= j]
    found: list[Asymmetry] = []
    passes.run(calls, lambda _, result: found.append(result), progress=progress)
    worst, largest = max(found), max(result.largest for result in found)
    limit = LARGEST_ASYMMETRY if rows.dtype.itemsize == 8 else float(np.finfo(rows.dtype).eps)
    if worst.difference > limit * largest:
        raise DataError(
            "the precomputed kernel is not symmetric: "
            f"|K[{worst.row},{worst.column}] − K[{worst.column},{worst.row}]| is {worst.difference:.3g} "
            f"where the largest entry is {largest:.3g}; expected a symmetric matrix: average it with its "
            "transpose if that is what you mean"
        )


def asymmetry(rows: Rows, i: int, j: int) -> Asymmetry:
    """Compare the block at (i, j) with the one at (j, i)."""
    n_rows = rows.shape[0]
    a, b = slice(i, min(i + BLOCK_ROWS, n_rows)), slice(j, min(j + BLOCK_ROWS, n_rows))
    K_ij = rows.part(a.start, a.stop).load(b).astype(np.float64)
    K_ji = rows.part(b.start, b.stop).load(a).astype(np.float64)
    difference = np.abs(K_ij - K_ji.T)
    row, column = np.unravel_index(int(np.argmax(difference)), difference.shape)
    largest = max(float(np.abs(K_ij).max()), float(np.abs(K_ji).max()))
    return Asymmetry(float(difference[row, column]), int(row) + i, int(column) + j, largest)
