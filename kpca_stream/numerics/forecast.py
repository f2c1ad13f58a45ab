"""Bytes, evaluations, passes and time of a fit, from shapes and fixed nominal rates.

Nothing here looks at the machine: the task blocks that follow from these rates touch the arithmetic, and
the same plan has to give the same bits everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpca_stream.numerics.eigensolve import block_width
from kpca_stream.numerics.multiply import STRIP_ROWS
from kpca_stream.numerics.tiles import TileGrid

TILE_ROWS = 2048
TILE_BYTES = 16 * 2**20
"""Of the rows of one side of a tile in float64; wider rows get lower tiles."""
LEAST_TILE_ROWS = 64
OPERAND_BYTES = 64 * 2**20
"""Row tiles that a task holds ready for the second side of its block; of the first it holds one."""
RETAINED_BYTES = 32 * 2**20
"""What the allocator keeps of freed blocks for each thread, at most."""
MAX_TASKS = 5000
EXPECTED_PASSES = 8
LEAST_BLOCKS = 4
"""Blocks that a restarted basis holds at least, whatever the limit."""
CHECKPOINT_COPIES = 2
STORING_COST = 2.0
"""How much faster than computing again reading must be to be worth the writing and the disk."""
SAMPLE_ROWS = 2000

# Nominal rates of one core in float32; float64 takes twice as long.
PRODUCTS_PER_SECOND = 1.0e11
EXPONENTIALS_PER_SECOND = 2.9e9
DIFFERENCES_PER_SECOND = 1.0e9
OWN_VALUES_PER_SECOND = 5.0e7
READ_BYTES_PER_SECOND = 1.5e9
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
    grid = TileGrid(shape.n_samples, tile_rows, tiles_per_block)
    while grid.n_tasks > MAX_TASKS:
        grid = TileGrid(shape.n_samples, tile_rows, grid.tiles_per_block + 1)
    return grid


def task_seconds(pass_seconds: float) -> float:
    """How long a task of a pass shall take, of which all tasks take so long."""
    return max(min(max(pass_seconds / 128, 0.02), 1.0), pass_seconds / MAX_TASKS)


def automatic_tile_rows(shape: Shape) -> int:
    """2048, fewer where rows are wide; a given matrix is never read in whole rows."""
    return TILE_ROWS if shape.kernel == "precomputed" else rows_at_once(shape.n_features, TILE_ROWS)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a fit will take; bytes and seconds."""

    disk_rows: int
    disk_tiles: int
    disk_vectors: int
    memory_start: int
    memory_client: int
    memory_task: int
    memory_tiles: int
    evaluations: int
    passes: int
    core_seconds: float


def forecast(
    shape: Shape,
    grid: TileGrid,
    *,
    storage: str,
    method: str,
    max_columns: int,
    with_store: bool,
    memory_tasks: int = 0,
    in_place: bool = False,
) -> Forecast:
    """The forecast of a fit by `method`, tiles in `storage`, those of the first `memory_tasks` in memory."""
    n_samples, itemsize = shape.n_samples, shape.itemsize
    passes = 1 if method == "dense" else EXPECTED_PASSES
    triangle = tile_bytes(grid, shape)
    values = n_samples * (n_samples + 1) // 2
    held = values if storage == "memory" else values_of_tasks(grid, memory_tasks)
    again = (values - held) * (passes - 1)
    evaluations = values + (again if storage == "recompute" else 0)
    read = again * itemsize / READ_BYTES_PER_SECOND if storage == "zarr" else 0.0
    vectors = n_samples * (shape.width + 1) * 8
    return Forecast(
        disk_rows=n_samples * shape.n_features * 8 if with_store and not in_place else 0,
        disk_tiles=triangle if storage == "zarr" else 0,
        disk_vectors=vectors * (passes + CHECKPOINT_COPIES) if with_store else 0,
        memory_start=start_bytes(shape),
        memory_client=client_bytes(shape, method, max_columns),
        memory_task=task_bytes(shape, grid, storage),
        memory_tiles=held * itemsize if method != "dense" else 0,
        evaluations=evaluations,
        passes=passes,
        core_seconds=evaluations * shape.evaluation_seconds
        + values * passes * 2 * shape.multiplication_seconds
        + read,
    )


def start_bytes(shape: Shape) -> int:
    """Memory while the kernel is resolved: the sample, its prepared copy, and the kernel of all its pairs."""
    n_sampled = min(shape.n_samples, SAMPLE_ROWS)
    return n_sampled * (2 * shape.row_bytes + 4 * 8 * n_sampled)


def client_bytes(shape: Shape, method: str, max_columns: int) -> int:
    """Memory of the caller: the sample, the Krylov basis, its products, and blocks under way."""
    sample = min(shape.n_samples, SAMPLE_ROWS) * shape.row_bytes
    sample += min(sample, RETAINED_BYTES)
    if method == "dense":
        return sample + dense_bytes(shape.n_samples)
    columns = max(max_columns, LEAST_BLOCKS * shape.width)
    krylov = 2 * shape.n_samples * columns * shape.widest
    return sample + krylov + 6 * shape.n_samples * (shape.width + 1) * 8


def dense_bytes(n_samples: int) -> int:
    """Memory of a dense solve: the matrix, its centred form, its eigenvectors, and LAPACK's work."""
    return 6 * n_samples**2 * 8


def rows_at_once(n_features: int, most: int) -> int:
    """Rows of a block that a task holds: `most`, or the power of two below it that keeps a tile small."""
    rows = most
    while rows > LEAST_TILE_ROWS and 8 * n_features * rows > TILE_BYTES:
        rows //= 2
    return rows


def task_bytes(shape: Shape, grid: TileGrid, storage: str) -> int:
    """Memory of one task: both sides of its block, their vectors and sums, and one tile or strip.

    The sums count twice: those of a finished task wait until they are folded.
    """
    rows = min(grid.tile_rows * grid.tiles_per_block, grid.n_samples)
    tile_rows = min(grid.tile_rows, grid.n_samples)
    held, making = _operand_row_bytes(shape)
    sides = tile_rows * (held + making) + min(rows * held, max(OPERAND_BYTES, tile_rows * held))
    vectors = 2 * rows * (shape.width + 1) * (8 + 8 + 2 * shape.widest)
    strips = min(STRIP_ROWS, tile_rows) * tile_rows * (shape.widest + 8)
    tile = tile_rows**2 * shape.itemsize * 3 if storage == "zarr" else 0
    used = sides + vectors + strips + tile
    return int(used + min(used, RETAINED_BYTES))


def _operand_row_bytes(shape: Shape) -> tuple[int, int]:
    """Memory of a row made ready for a tile, and what making it takes besides."""
    points = shape.row_bytes
    cast = points * shape.widest // 8
    making = 2 * points  # the row as it is stored and as it is loaded
    if shape.kernel == "rbf":
        return points + 2 * cast, making
    return points + (cast if shape.widest == 4 else 0), making


def krylov_columns(shape: Shape, memory_limit: int) -> int:
    """Basis vectors that a third of the memory limit holds with their products."""
    itemsize = 8 if shape.itemsize == 8 or shape.mixed else 4
    return int(memory_limit / 3 / (2 * shape.n_samples * itemsize))


def resolved_storage(storage: str, shape: Shape, tile_budget: int, *, with_store: bool) -> Any:
    """Where tiles go that `tile_budget` bytes of memory do not hold: as asked, else nowhere.

    Tiles go to disk only where a core reads values much faster than it computes them: functions of one's
    own, and laplacian and rbf in many dimensions.
    """
    if storage != "auto":
        return storage
    if shape.n_samples * (shape.n_samples + 1) // 2 * shape.itemsize <= tile_budget:
        return "memory"
    if with_store and shape.itemsize / shape.evaluation_seconds < READ_BYTES_PER_SECOND / STORING_COST:
        return "zarr"
    return "recompute"


def tile_budget(shape: Shape, grid: TileGrid, method: str, *, memory_limit: int, max_columns: int) -> int:
    """Memory for tiles: half of the limit, as far as the caller and two tasks leave it."""
    others = client_bytes(shape, method, max_columns) + 2 * task_bytes(shape, grid, "recompute")
    return max(0, min(memory_limit // 2, memory_limit - others))


def tasks_in_memory(grid: TileGrid, itemsize: int, budget: int) -> int:
    """How many tasks, the first ones, have their tiles within `budget` bytes."""
    free = budget // itemsize
    for index, block in enumerate(grid.blocks()):
        free -= grid.values(block)
        if free < 0:
            return index
    return grid.n_tasks


def tile_bytes(grid: TileGrid, shape: Shape) -> int:
    """All tiles on disk, those at the edge padded to full size."""
    return grid.n_tiles * grid.tile_rows**2 * shape.itemsize


def values_of_tasks(grid: TileGrid, n_tasks: int) -> int:
    """Values in the tiles of the first tasks."""
    return sum(grid.values(block) for block in grid.blocks()[:n_tasks])
