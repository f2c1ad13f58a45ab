"""What a fit's cost depends on, fixed nominal rates, and the tiles and tasks that follow from both.

Nothing here looks at the machine: the task blocks that follow from these rates touch the arithmetic, and
the same plan has to give the same bits everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kpca_stream.numerics.eigensolve import block_width
from kpca_stream.numerics.tiles import TileGrid

TILE_ROWS = 2048
TILE_BYTES = 16 * 2**20
"""Of the rows of one side of a tile in float64; wider rows get lower tiles."""
LEAST_TILE_ROWS = 64
OPERAND_BYTES = 64 * 2**20
"""Row tiles that a task holds ready for the second side of its block; of the first it holds one."""
MAX_TASKS = 5000
SAMPLE_ROWS = 2000

# Nominal rates of one core in float32; float64 takes twice as long.
PRODUCTS_PER_SECOND = 1.0e11
EXPONENTIALS_PER_SECOND = 2.9e9
DIFFERENCES_PER_SECOND = 1.0e9
OWN_VALUES_PER_SECOND = 5.0e7
READ_BYTES_PER_SECOND = 1.5e9
BUCKET_BYTES_PER_SECOND = 1.0e8
"""To an object store, and from it."""
VECTOR_PRODUCTS_PER_SECOND = 3.5e10


@dataclass(frozen=True)
class Shape:
    """What a fit's cost depends on."""

    n_samples: int
    n_features: int
    n_components: int
    kernel: str
    itemsize: int  # of tiles and of the working precision
    mixed: bool = False

    @property
    def width(self) -> int:
        """Columns of a block of vectors."""
        return block_width(min(self.n_components, self.n_samples), self.n_samples)

    @property
    def widest(self) -> int:
        """Bytes of a number in the most precise passes."""
        return 8 if self.mixed else self.itemsize

    @property
    def row_bytes(self) -> int:
        """A row in float64, as far as a task holds it."""
        return 0 if self.kernel == "precomputed" else 8 * self.n_features

    @property
    def evaluation_seconds(self) -> float:
        """Nominal time of one kernel value on one core."""
        slow = self.itemsize / 4
        if self.kernel == "precomputed":
            return 16 / READ_BYTES_PER_SECOND
        if self.kernel == "laplacian":
            return self.n_features / DIFFERENCES_PER_SECOND + slow / EXPONENTIALS_PER_SECOND
        product = 2 * (self.n_features + 2) / PRODUCTS_PER_SECOND
        if self.kernel in ("rbf", "sigmoid"):
            return slow * (product + 1 / EXPONENTIALS_PER_SECOND)
        if self.kernel in ("linear", "cosine", "poly"):
            return slow * (product + 0.2 / EXPONENTIALS_PER_SECOND)
        return 1 / OWN_VALUES_PER_SECOND

    @property
    def multiplication_seconds(self) -> float:
        """Nominal time of one kernel value's two products with a row of the block, on one core."""
        return self.itemsize / 4 * 4 * (self.width + 1) / VECTOR_PRODUCTS_PER_SECOND


def grid_for(shape: Shape, tile_rows: int | None = None) -> TileGrid:
    """Tiles, and blocks of them that take a task about a second.

    Shorter (to 20 ms) where there would be too few tasks to share out, longer where there would be more
    than 5,000.
    """
    tile_rows = min(tile_rows or automatic_tile_rows(shape), shape.n_samples)
    seconds = shape.evaluation_seconds + shape.multiplication_seconds
    n_values = shape.n_samples**2 / 2
    target = task_seconds(n_values * seconds)
    tiles_per_block = max(1, round(float(np.sqrt(target / seconds)) / tile_rows))
    most_blocks = (math.isqrt(8 * MAX_TASKS + 1) - 1) // 2  # along a side: b (b + 1)/2 tasks
    side = -(-shape.n_samples // tile_rows)
    return TileGrid(shape.n_samples, tile_rows, max(tiles_per_block, -(-side // most_blocks)))


def task_seconds(pass_seconds: float) -> float:
    """How long a task of a pass shall take, of which all tasks take so long."""
    return max(min(max(pass_seconds / 16, 0.02), 1.0), pass_seconds / MAX_TASKS)


def automatic_tile_rows(shape: Shape) -> int:
    """2048, fewer where rows are wide; a given matrix is never read in whole rows."""
    return TILE_ROWS if shape.kernel == "precomputed" else rows_at_once(shape.n_features, TILE_ROWS)


def rows_at_once(n_features: int, most: int) -> int:
    """Rows of a block that a task holds: `most`, or the power of two below it that keeps a tile small."""
    rows = most
    while rows > LEAST_TILE_ROWS and 8 * n_features * rows > TILE_BYTES:
        rows //= 2
    return rows
