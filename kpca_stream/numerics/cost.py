"""What a fit will take: bytes, evaluations, passes and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpca_stream.numerics import footprint
from kpca_stream.numerics.forecast import (
    BUCKET_BYTES_PER_SECOND,
    READ_BYTES_PER_SECOND,
    VECTOR_PRODUCTS_PER_SECOND,
    Shape,
)
from kpca_stream.numerics.tiles import TileGrid

STORING_COST = 2.0
"""How much faster than computing again reading must be to be worth the writing and the disk."""
CONTENTION = 1.5
"""How much longer than nominal products with a block take where tasks share the memory's bandwidth."""
DIGITS_OF_A_PASS = 2.0
"""That a pass adds to a residual, once there is a block near the eigenvectors."""
EXACT_DIGITS = 10.0
"""That the first float64 pass of a mixed solve brings."""

# Nominal rates, of one core but for those of the caller.
START_SECONDS = 0.3
OPENING_SECONDS = 0.1
"""Until a basis is open, and what was scored before is known."""
PROCESS_SECONDS = 2.0
"""Until the processes of a cluster have imported what their first tasks need."""
ROW_VALUES_PER_SECOND = 5.0e7
PARSED_VALUES_PER_SECOND = 1.0e7
LAPACK_FLOPS_PER_SECOND = 6.0e10


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a fit will take; bytes and seconds.

    ``memory_start``, ``memory_rows`` and ``memory_client`` are those of the calling process, imports
    included, while the kernel is resolved, while tasks look at rows, and during the passes;
    ``memory_row_task`` and ``memory_task`` those of one task, ``memory_sums`` what it leaves to the caller.
    """

    disk_rows: int
    disk_tiles: int
    disk_vectors: int
    memory_start: int
    memory_rows: int
    memory_client: int
    memory_row_task: int
    memory_task: int
    memory_sums: int
    memory_tiles: int
    evaluations: int
    passes: int
    start_seconds: float
    core_seconds: float

    def seconds(self, n_cores: int, n_processes: int) -> float:
        """Time with so many cores, for tasks in `n_processes` of their own (0: threads)."""
        return self.start_seconds + (PROCESS_SECONDS if n_processes else 0) + self.core_seconds / n_cores

    def memory(self, n_workers: int, n_processes: int, at_once: int) -> int:
        """The largest process with `n_workers` tasks at once, in `n_processes` of their own (0: threads).

        No more than `at_once` tasks of the passes are alive in a process.
        """
        if not n_processes:
            rows = self.memory_rows + self.memory_row_task * n_workers
            passes = self.memory_client + self.memory_tiles + self.memory_task * min(n_workers, at_once)
            return max(self.memory_start, rows, passes)
        threads = -(-n_workers // n_processes)
        passes = self.memory_client + 2 * n_workers * self.memory_sums
        caller = max(self.memory_start, self.memory_rows, passes)
        tiles = -(-self.memory_tiles // n_processes)
        tasks = max(self.memory_row_task * threads, tiles + self.memory_task * min(threads, at_once))
        return footprint.CLUSTER_BYTES + max(caller, footprint.IMPORT_BYTES + tasks)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What the cost depends on beside shape and tiles.

    Parameters
    ----------
    storage, method : str
    tol : float
    max_columns : int
        Of the Krylov basis.
    memory_tasks : int
        Tasks, the first ones, whose tiles are in memory.
    n_landmarks : int
        Of the start; 0 for a random one.
    reading_bytes : int
        Memory of a reader of the source.
    merging_bytes : int
        Distinct rows, as far as they are held.
    stored_itemsize : int
        Of the rows in the run's store; 0 where they are used in place, or there is no store.
    with_store, in_bucket : bool
        Whether there is a run's store, and whether its tiles lie in an object store.
    """

    storage: str
    method: str
    tol: float
    max_columns: int
    memory_tasks: int = 0
    n_landmarks: int = 0
    reading_bytes: int = 0
    merging_bytes: int = 0
    stored_itemsize: int = 0
    with_store: bool = True
    in_bucket: bool = False


def reading_rate(*, in_bucket: bool) -> float:
    """Bytes of stored tiles that a core gets in a second."""
    return BUCKET_BYTES_PER_SECOND if in_bucket else READ_BYTES_PER_SECOND


def cost(shape: Shape, grid: TileGrid, given: Circumstances) -> Cost:
    """What a fit takes under these circumstances."""
    dense = given.method == "dense"
    coarse, fine = (1, 0) if dense else passes_of(shape, given.tol, has_start=given.n_landmarks > 0)
    n_pairs = shape.n_samples * (shape.n_samples + 1) // 2
    in_memory = grid.n_tasks if given.storage == "memory" else given.memory_tasks
    held = footprint.values_of_tasks(grid, in_memory)
    share = 1 - held / grid.n_values  # of the tiles, that is not in memory
    again = (coarse - 1) * share if given.storage == "recompute" else 0.0
    vectors = 0 if dense else footprint.vectors_on_disk(shape, coarse + fine, has_start=given.n_landmarks > 0)
    parser = footprint.PARSER_BYTES if given.stored_itemsize else 0
    return Cost(
        disk_rows=footprint.rows_on_disk(shape, given.stored_itemsize),
        disk_tiles=footprint.tile_bytes(grid, shape) if given.storage == "zarr" else 0,
        disk_vectors=(vectors or footprint.means_on_disk(shape)) if given.with_store else 0,
        memory_start=parser + footprint.start_bytes(shape),
        memory_rows=parser + footprint.rows_bytes(shape, given.n_landmarks, given.merging_bytes),
        memory_client=parser + footprint.client_bytes(shape, given.method, given.max_columns),
        memory_row_task=footprint.row_task_bytes(
            shape,
            given.n_landmarks,
            given.reading_bytes,
        ),
        memory_task=footprint.task_bytes(shape, grid, given.storage, in_bucket=given.in_bucket),
        memory_sums=footprint.sums_bytes(shape, grid),
        memory_tiles=0 if dense else held * shape.itemsize,
        evaluations=round(n_pairs * (1 + again)) + n_pairs * fine,
        passes=coarse + fine,
        start_seconds=_start_seconds(shape, given),
        core_seconds=grid.n_values * _value_seconds(shape, given, coarse, fine, share)
        + shape.n_samples * given.n_landmarks * 2 * shape.evaluation_seconds,
    )


def passes_of(shape: Shape, tol: float, *, has_start: bool) -> tuple[int, int]:
    """Passes that a usual solve takes in the precision of the tiles, and after these in float64."""
    digits = -float(np.log10(tol))
    coarse = min(digits, 6.0) if shape.mixed else digits
    first = 1 if has_start else 3
    further = max(0.0, digits - EXACT_DIGITS) / DIGITS_OF_A_PASS
    return max(2, int(first + coarse / DIGITS_OF_A_PASS)), (1 + round(further) if shape.mixed else 0)


def _value_seconds(shape: Shape, given: Circumstances, coarse: int, fine: int, share: float) -> float:
    """Time of one kernel value on one core in all passes; the first of these makes it.

    A disk takes it beside; to an object store it goes as slowly as it comes back.
    """
    precise = replace(shape, itemsize=8, mixed=False)
    stored = shape.itemsize / reading_rate(in_bucket=given.in_bucket)
    again = {"recompute": shape.evaluation_seconds, "zarr": stored}
    sent = share * stored if given.in_bucket and given.storage == "zarr" else 0.0
    return (
        shape.evaluation_seconds
        + sent
        + (coarse - 1) * share * again.get(given.storage, 0.0)
        + coarse * CONTENTION * shape.multiplication_seconds
        + fine * (precise.evaluation_seconds + CONTENTION * precise.multiplication_seconds)
    )


def _start_seconds(shape: Shape, given: Circumstances) -> float:
    """Time of what the caller does alone: the look at the rows, LAPACK."""
    lapack = 10 * shape.n_samples**3 / LAPACK_FLOPS_PER_SECOND if given.method == "dense" else 0.0
    return row_seconds_of_caller(shape, given.stored_itemsize) + lapack


def row_seconds_of_caller(shape: Shape, stored_itemsize: int) -> float:
    """Time of a look at all rows, which are parsed and written where the run's store takes them."""
    rate = PARSED_VALUES_PER_SECOND if stored_itemsize else ROW_VALUES_PER_SECOND
    return START_SECONDS + shape.n_samples * shape.n_features / rate


def scoring_seconds(shape: Shape, n_scored: int, n_rows: int, at_once: int) -> float:
    """Time in which rows are read and scored, some parts at once, by a basis that `n_rows` rows span."""
    products = shape.itemsize / 4 * 2 * shape.n_components / VECTOR_PRODUCTS_PER_SECOND
    reading = shape.n_features / PARSED_VALUES_PER_SECOND
    row = reading + n_rows * (shape.evaluation_seconds + CONTENTION * products)
    return OPENING_SECONDS + n_scored * row / at_once


def resolved_storage(
    storage: str,
    shape: Shape,
    grid: TileGrid,
    tile_budget: int,
    *,
    with_store: bool,
    in_bucket: bool = False,
) -> Any:
    """Where tiles go that `tile_budget` bytes of memory do not hold: as asked, else nowhere.

    Tiles are stored only where a core reads values much faster than it computes them: functions of one's
    own, and laplacian and rbf in many dimensions.
    """
    if storage != "auto":
        return storage
    if grid.n_values * shape.itemsize <= tile_budget:
        return "memory"
    rate = reading_rate(in_bucket=in_bucket)
    if with_store and shape.itemsize / shape.evaluation_seconds < rate / STORING_COST:
        return "zarr"
    return "recompute"
