"""How rows that are compared with landmarks are cut into tasks, reads and blocks: from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from kpca_stream.numerics.forecast import (
    PRODUCTS_PER_SECOND,
    TILE_BYTES,
    Shape,
    rows_at_once,
    task_seconds,
)

BLOCK_ROWS = 8192
BLOCK_BYTES = 64 * 2**20
"""Of the similarities of one block."""


@dataclass(frozen=True)
class RowCut:
    """Rows of a task, of one read within it, and of a block of similarities; each a multiple of the next."""

    n_rows: int
    task_rows: int
    read_rows: int
    block_rows: int

    @classmethod
    def of(cls, shape: Shape, n_landmarks: int) -> RowCut:
        """For tasks of about a second, at most 5,000 of them."""
        block = rows_at_once(shape.n_features, BLOCK_ROWS)
        while block > 1 and block * n_landmarks * shape.itemsize > BLOCK_BYTES:
            block //= 2
        n_rows, seconds = shape.n_samples, row_seconds(shape, n_landmarks)
        task = max(1, round(task_seconds(n_rows * seconds) / seconds / block)) * block
        read = max(1, TILE_BYTES // (8 * shape.n_features) // block) * block
        return cls(n_rows, task, min(task, read), block)


def row_seconds(shape: Shape, n_landmarks: int) -> float:
    """Nominal time of one row on one core: its similarities, and its part of the rank-k update."""
    # Of a given matrix whole rows are read.
    n_values = shape.n_features if shape.kernel == "precomputed" else n_landmarks
    update = shape.itemsize / 4 * n_landmarks**2 / PRODUCTS_PER_SECOND
    return n_values * shape.evaluation_seconds + update
