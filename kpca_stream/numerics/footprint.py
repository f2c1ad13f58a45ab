"""Memory and disk of a fit, from its shape and its tiles.

Memory is that of whole processes as the system shows it: what their imports take is part of it. With tasks
in threads there is one process, the caller; worker processes have tasks and tiles, and the caller the rest.
"""

from __future__ import annotations

from kpca_stream.numerics.eigensolve import GUARD_COLUMNS
from kpca_stream.numerics.forecast import (
    OPERAND_BYTES,
    SAMPLE_ROWS,
    Shape,
    rows_at_once,
)
from kpca_stream.numerics.kernels.base import FEW_ROWS
from kpca_stream.numerics.multiply import STRIP_ROWS
from kpca_stream.numerics.projection import held_bytes
from kpca_stream.numerics.tiles import TileGrid

IMPORT_BYTES = 155 * 2**20
"""A process that has imported all that a fit uses."""
CLUSTER_BYTES = 24 * 2**20
"""What Dask's server takes besides, in the caller of worker processes and in each of these."""
PARSER_BYTES = 32 * 2**20
"""Libraries that parse files, and what they keep."""
RETAINED_BYTES = 8 * 2**20
"""What the allocator keeps of freed blocks for each thread, at most."""
BASIS_BLOCKS = 8
"""Blocks that a basis holds before it restarts."""
LEAST_BLOCKS = 4
"""Blocks that a restarted basis holds at least, whatever the limit."""
LANDMARK_BLOCK_ROWS = 8192
MERGING_COPIES = 4
"""Of the distinct rows, while they are merged."""
CHUNK_ROWS = 2048
MOST_CHUNK_ROWS = 8192
CHUNK_BYTES = 2**20
"""Of stored rows: where they are short, a file takes longer to make than its rows to write."""
DESCRIPTION_BYTES = 2500
BASIS_DESCRIPTION_BYTES = 30_000
"""Descriptions of a basis' arrays, its quantiles, what a version says of itself."""
WHOLE_ROWS = 65536
"""Of a chunk of numbers of one a row."""
SCORED_ROWS = 4096
SCORED_BYTES = 4 * 2**20
"""Rows that are scored at once, and what they take at most."""


def start_bytes(shape: Shape) -> int:
    """The caller while the kernel is resolved: a sample, prepared too, and the kernel of all its pairs."""
    n_sampled = min(shape.n_samples, SAMPLE_ROWS)
    pairs = 0
    if shape.kernel in ("rbf", "laplacian"):
        # Values and a mask of them; both sides of a block, and one more under way, in three forms each.
        pairs = 9 * n_sampled**2 + 9 * min(FEW_ROWS, n_sampled) * shape.row_bytes
    return IMPORT_BYTES + 2 * n_sampled * shape.row_bytes + pairs


def rows_bytes(shape: Shape, n_landmarks: int, merging_bytes: int) -> int:
    """The caller while tasks look at rows: the samples that it joins, what it merges, or landmarks."""
    samples = 2 * min(shape.n_samples, SAMPLE_ROWS) * shape.row_bytes
    landmarks = 4 * 8 * n_landmarks**2 + 3 * shape.n_samples * shape.width * 8
    return IMPORT_BYTES + samples + max(MERGING_COPIES * merging_bytes, landmarks if n_landmarks else 0)


def row_task_bytes(shape: Shape, n_landmarks: int, reading_bytes: int) -> int:
    """A task over rows: a look at some, or their similarities to landmarks."""
    rows = min(rows_at_once(shape.n_features, LANDMARK_BLOCK_ROWS), shape.n_samples)
    held, making = _operand_row_bytes(shape)
    value = 2 * shape.itemsize + (8 if shape.kernel == "laplacian" else 0)  # its distances are float64
    similar = rows * (held + making + n_landmarks * value)
    return max(reading_bytes, similar + 3 * 8 * n_landmarks**2 if n_landmarks else 0)


def client_bytes(shape: Shape, method: str, max_columns: int) -> int:
    """The caller during the passes: imports, the sample, the Krylov basis, its products, and blocks."""
    sample = min(shape.n_samples, SAMPLE_ROWS) * shape.row_bytes
    if method == "dense":
        return IMPORT_BYTES + sample + dense_bytes(shape.n_samples)
    columns = max(max_columns, LEAST_BLOCKS * shape.width)
    krylov = 2 * shape.n_samples * columns * shape.itemsize  # in mixed half as many, twice as wide
    blocks = (7 if shape.mixed else 6) * shape.n_samples * (shape.width + GUARD_COLUMNS) * 8
    return IMPORT_BYTES + sample + krylov + blocks + 8 * shape.n_samples * 8


def dense_bytes(n_samples: int) -> int:
    """Memory of a dense solve: the matrix, its centred form, its eigenvectors, and LAPACK's work."""
    return 6 * n_samples**2 * 8


def task_bytes(shape: Shape, grid: TileGrid, storage: str, *, in_bucket: bool = False) -> int:
    """Memory of one task: both sides of its block, their vectors and sums, and one tile or strip.

    Of stored tiles one is written while the next is made; to a bucket it is sent as one piece with its
    checksum, which is a copy. The sums count twice: those of a finished task wait until they are folded.
    """
    rows = min(grid.tile_rows * grid.tiles_per_block, grid.n_samples)
    tile_rows = min(grid.tile_rows, grid.n_samples)
    held, making = _operand_row_bytes(shape)
    sides = tile_rows * (held + making) + min(rows * held, max(OPERAND_BYTES, tile_rows * held))
    vectors = 2 * rows * (shape.width + GUARD_COLUMNS) * 2 * shape.widest
    strips = min(STRIP_ROWS, tile_rows) * tile_rows * (shape.widest + 8)
    tile = tile_rows**2 * shape.itemsize * (2 + in_bucket) if storage == "zarr" else 0
    used = sides + vectors + strips + tile
    return int(used + min(used, RETAINED_BYTES)) + 2 * sums_bytes(shape, grid)


def sums_bytes(shape: Shape, grid: TileGrid) -> int:
    """What a task gives back: the sums of both sides of its block."""
    rows = min(grid.tile_rows * grid.tiles_per_block, grid.n_samples)
    return 2 * rows * (shape.width + GUARD_COLUMNS) * 8


def scoring_bytes(shape: Shape, in_memory_bytes: int, n_tasks: int) -> int:
    """A process that scores with `n_tasks` at once: the basis, if it takes no more than `in_memory_bytes`."""
    basis = held_bytes(shape.n_samples, shape.n_features, shape.n_components)
    scored = max(1, min(SCORED_ROWS, SCORED_BYTES // (8 * shape.n_features)))
    trained = min(rows_at_once(shape.n_features, CHUNK_ROWS), shape.n_samples)
    held, making = _operand_row_bytes(shape)
    strips = 2 * STRIP_ROWS * trained * 8
    task = (scored + trained) * (held + making + 8 * shape.n_components) + strips + RETAINED_BYTES
    return IMPORT_BYTES + PARSER_BYTES + (basis if basis <= in_memory_bytes else 0) + n_tasks * task


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
    return int(memory_limit / 3 / (2 * shape.n_samples * shape.itemsize))


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


def values_of_tasks(grid: TileGrid, n_tasks: int) -> int:
    """Values in the tiles of the first tasks."""
    if n_tasks >= grid.n_tasks:
        return grid.n_values
    return sum(grid.values(block) for block in grid.blocks()[:n_tasks])


def tile_bytes(grid: TileGrid, shape: Shape) -> int:
    """All tiles on disk, those at the edge padded to full size."""
    return grid.n_tiles * grid.tile_rows**2 * shape.itemsize


def chunk_rows(n_features: int) -> int:
    """Rows of a chunk in a run's store, a power of two."""
    rows = MOST_CHUNK_ROWS
    while rows > CHUNK_ROWS and 8 * n_features * rows > CHUNK_BYTES:
        rows //= 2
    return rows_at_once(n_features, rows)


def rows_on_disk(shape: Shape, itemsize: int) -> int:
    """The rows in a run's store, in whole chunks."""
    chunk = min(chunk_rows(shape.n_features), shape.n_samples)
    return _padded(shape.n_samples, chunk) * shape.n_features * itemsize


def vectors_on_disk(shape: Shape, passes: int, *, has_start: bool) -> int:
    """Products of all passes, the block that is multiplied, the means; each first pass has a column more."""
    columns = shape.width + (GUARD_COLUMNS if has_start else 0)
    products = passes * columns + (2 if shape.mixed else 1)
    return shape.n_samples * (8 * products + columns * shape.widest) + means_on_disk(shape)


def means_on_disk(shape: Shape) -> int:
    """Row means and diagonal, and the descriptions of all arrays."""
    return 2 * 8 * shape.n_samples + DESCRIPTION_BYTES


def basis_on_disk(shape: Shape, n_rows: int, itemsize: int, *, n_sampled: int = 0) -> int:
    """A published basis that `n_rows` rows of `itemsize` bytes a value span.

    One of landmarks has their products too, and some training rows, `n_sampled` of them.
    """
    k, d = shape.n_components, 0 if shape.kernel == "precomputed" else shape.n_features
    chunk = rows_at_once(2 * max(shape.n_features, k), CHUNK_ROWS)  # half as many bytes as a tile's side
    row = 8 * k + itemsize * d + (8 * n_rows if n_sampled else 0)
    # Of landmarks a mean of each, a weight, a provisional mean and a sum; of the sample weights.
    numbers = (4 if n_sampled else 1) * _padded(n_rows, WHOLE_ROWS) + _padded(n_sampled, WHOLE_ROWS)
    tall = _padded(n_rows, chunk) * row + _padded(n_sampled, chunk) * 8 * d
    return tall + 8 * (numbers + 2 * k + 2 * d) + BASIS_DESCRIPTION_BYTES


def _padded(n_rows: int, chunk: int) -> int:
    """Rows in whole chunks, of which none is larger than all rows."""
    chunk = max(1, min(chunk, n_rows))
    return -(-n_rows // chunk) * chunk
