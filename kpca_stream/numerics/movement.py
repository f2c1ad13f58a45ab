"""Bytes that a pass moves where its tasks run in processes of their own.

A task gets a description of its rows, never the rows: it reads these, and its block of vectors, where they
lie. What it returns is summed within the task for each of its row blocks, so that the caller receives each
row block once for every task that has tiles in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kpca_stream.numerics.eigensolve import GUARD_COLUMNS
from kpca_stream.numerics.forecast import OPERAND_BYTES, Shape
from kpca_stream.numerics.rowcut import RowCut
from kpca_stream.numerics.tiles import TileGrid

DESCRIPTION_BYTES = 2200
"""Of a task as it is sent: its function, addresses and kernel, and what the scheduler says about it."""
PLACE_BYTES, PRESENT_BYTES = 1100, 8
"""More where tiles are stored: their array, and each of them that is there."""
RECEIVED_BYTES_PER_SECOND = 5.0e8
"""Nominal: blocks of sums that the caller receives and adds up."""


@dataclass(frozen=True, kw_only=True)
class Movement:
    """Bytes of one pass over rows whose tiles, if any are kept, are there.

    Parameters
    ----------
    to_workers : int
        Descriptions of tasks, from the caller through the scheduler.
    from_workers : int
        Sums of row blocks, or of Nyström statistics, to the caller.
    read : int
        Rows, blocks of vectors (or landmarks) and tiles, which tasks read from the store.
    """

    to_workers: int
    from_workers: int
    read: int

    @property
    def receiving_seconds(self) -> float:
        """Time in which the caller takes in what the workers return, which no further worker shortens."""
        return self.from_workers / RECEIVED_BYTES_PER_SECOND


def of_gram_pass(
    shape: Shape, grid: TileGrid, storage: str, *, memory_share: float, row_itemsize: int, has_start: bool
) -> Movement:
    """Of a product with a block of vectors.

    Parameters
    ----------
    shape, grid, storage
        As planned.
    memory_share : float
        Of the tiles that workers hold.
    row_itemsize : int
        Bytes of a stored number of a row.
    has_start : bool
        Whether the block has guard columns.
    """
    columns = shape.width + (GUARD_COLUMNS if has_start else 0)
    n_rows = _rows_of_tasks(grid)
    place = PLACE_BYTES + PRESENT_BYTES * grid.tiles_per_block**2 if storage == "zarr" else 0
    description = DESCRIPTION_BYTES + 8 * shape.n_features + place
    sides = {
        "zarr": shape.itemsize * grid.n_tiles * grid.tile_rows**2,
        "recompute": _operand_bytes(shape, grid, row_itemsize),
    }
    return Movement(
        to_workers=grid.n_tasks * description,
        from_workers=8 * columns * n_rows,
        read=round((1 - memory_share) * sides.get(storage, 0)) + shape.itemsize * columns * _loaded(grid),
    )


def of_assembly(shape: Shape, grid: TileGrid, row_itemsize: int) -> Movement:
    """Of a matrix whose tiles the caller gathers for LAPACK."""
    return Movement(
        to_workers=grid.n_tasks * (DESCRIPTION_BYTES + 8 * shape.n_features),
        from_workers=shape.itemsize * grid.n_values,
        read=_operand_bytes(shape, grid, row_itemsize),
    )


def of_landmark_pass(shape: Shape, n_landmarks: int, row_itemsize: int) -> Movement:
    """Of a pass that adds up Nyström statistics."""
    m, cut = n_landmarks, RowCut.of(shape, n_landmarks)
    n_tasks = -(-cut.n_rows // cut.task_rows)
    landmarks = 0 if shape.kernel == "precomputed" else 8 * m * shape.n_features
    return Movement(
        to_workers=n_tasks * (DESCRIPTION_BYTES + 8 * shape.n_features + 8 * m),
        from_workers=n_tasks * 8 * (m * m + 2 * m),
        read=shape.n_samples * shape.n_features * row_itemsize + n_tasks * landmarks,
    )


def _rows_of_tasks(grid: TileGrid) -> int:
    """Rows of the row blocks of all tasks; a task on the diagonal has one block, all others two."""
    return grid.block_side * grid.n_samples


def _loaded(grid: TileGrid) -> int:
    """Rows of both sides of all tasks, which are loaded also where they are the same."""
    return (grid.block_side + 1) * grid.n_samples


def _operand_bytes(shape: Shape, grid: TileGrid, row_itemsize: int) -> int:
    """Rows that tasks read to compute their tiles; a second side that is too large is read more than once."""
    if shape.kernel == "precomputed":
        return 2 * row_itemsize * grid.n_values
    row = shape.n_features * row_itemsize
    height = min(grid.tile_rows * grid.tiles_per_block, grid.n_samples)
    fits = height * (shape.row_bytes + shape.itemsize * (shape.n_features + 2)) <= OPERAND_BYTES
    again = 1 if fits else grid.tiles_per_block
    return row * grid.n_samples * (grid.block_side + 1) * (1 + again) // 2
