"""A fit before its first tile: its choices, what it will cost, and why it must not start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kpca_stream.approximation import drawn_rows, most_landmarks
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics import footprint, movement
from kpca_stream.numerics.cost import Circumstances, Cost, cost, reading_rate, scoring_seconds
from kpca_stream.numerics.forecast import Shape
from kpca_stream.numerics.landmark_costs import cost_of_landmarks
from kpca_stream.numerics.movement import Movement
from kpca_stream.numerics.rowcut import RowCut
from kpca_stream.numerics.tiles import TileGrid

START_ROWS = 5000
"""From so many rows on, a first block from landmarks costs less than the passes that it saves."""
BASIS_SHARE = 0.25
"""A basis that takes no more of the memory limit is held in memory while it scores."""
DEFINITE = ("linear", "rbf", "laplacian", "poly", "cosine")

AUTOMATIC_TOLERANCE = {"float32": 1e-6, "mixed": 1e-6, "float64": 1e-13}


@dataclass(frozen=True, eq=False)
class FitPlan:
    """All choices that follow from the settings and the shape of the data, made before the first tile."""

    settings: FitSettings
    shape: Shape
    grid: TileGrid
    precision: str
    storage: Literal["memory", "zarr", "recompute"]
    method: Literal["dense", "lanczos", "nystrom"]
    with_store: bool
    memory_tasks: int = 0
    in_place: bool = False
    row_itemsize: int = 8
    reading_bytes: int = 0
    method_reason: str = ""

    @property
    def tol(self) -> float:
        """The tolerance, the automatic one where none was given."""
        return self.settings.tol or AUTOMATIC_TOLERANCE[self.precision]

    @property
    def tile_dtype(self) -> np.dtype[Any]:
        """Of tiles and of the passes over them."""
        return np.dtype(np.float64 if self.precision == "float64" else np.float32)

    @property
    def scoring_precision(self) -> str:
        """In which rows are scored, and by which eigenvalues are judged."""
        return "float32" if self.precision == "float32" else "float64"

    @property
    def max_columns(self) -> int:
        """Krylov vectors held at once."""
        return krylov_columns(self.settings, self.shape)

    @property
    def n_landmarks(self) -> int:
        """Landmarks of a Nyström fit, at most."""
        return most_landmarks(self.settings.nystrom, self.shape.n_samples)

    @property
    def n_tasks(self) -> int:
        """Of a pass."""
        if self.method == "nystrom":
            cut = RowCut.of(self.shape, self.n_landmarks)
            return -(-cut.n_rows // cut.task_rows)
        return self.grid.n_tasks

    @property
    def n_start_landmarks(self) -> int:
        """Landmarks of the solve's first block; 0 for a random one.

        A kernel that may be indefinite is started at random, since its low end must be seen too.
        """
        if self.method != "lanczos" or self.shape.kernel not in DEFINITE or self.shape.n_samples < START_ROWS:
            return 0
        return min(max(self.shape.n_samples // 60, 250), 1000)

    @cached_property
    def forecast(self) -> Cost:
        """What this fit will take."""
        if self.method == "nystrom":
            return cost_of_landmarks(
                self.shape,
                self.n_landmarks,
                drawn_rows(self.shape.n_features),
                reading_bytes=self.reading_bytes,
                merging_bytes=self._merging_bytes,
                stored_itemsize=self.row_itemsize if self._stores_rows else 0,
                with_store=self.with_store,
                chooses_among_all=self._chooses_among_all,
            )
        return cost(
            self.shape,
            self.grid,
            Circumstances(
                storage=self.storage,
                method=self.method,
                tol=self.tol,
                max_columns=self.max_columns,
                memory_tasks=self.memory_tasks,
                n_landmarks=self.n_start_landmarks,
                reading_bytes=self.reading_bytes,
                merging_bytes=self._merging_bytes,
                stored_itemsize=self.row_itemsize if self._stores_rows else 0,
                with_store=self.with_store,
                in_bucket=self.settings.tiles_in_bucket,
            ),
        )

    @cached_property
    def moved(self) -> Movement:
        """Bytes that a pass moves where tasks run in processes of their own; the first one reads more."""
        shape, grid = self.shape, self.grid
        if self.method == "nystrom":
            return movement.of_landmark_pass(shape, self.n_landmarks, self.row_itemsize)
        if self.method == "dense":
            return movement.of_assembly(shape, grid, self.row_itemsize)
        return movement.of_gram_pass(
            shape,
            grid,
            self.storage,
            memory_share=self.forecast.memory_tiles / (grid.n_values * shape.itemsize),
            row_itemsize=self.row_itemsize,
            has_start=self.n_start_landmarks > 0,
        )

    def seconds(self, n_cores: int, n_processes: int) -> float:
        """Time with so many cores, for tasks in `n_processes` of their own (0: threads).

        No more cores than tasks are of use, and no pass is shorter than the caller takes to receive its sums.
        """
        f, n_passes = self.forecast, 1 if self.method == "nystrom" else self.forecast.passes
        computing = f.seconds(min(n_cores, self.n_tasks), n_processes)
        receiving = n_passes * self.moved.receiving_seconds if n_processes else 0.0
        return max(computing, f.start_seconds + receiving)

    @property
    def _chooses_among_all(self) -> bool:
        """Whether landmarks are chosen in passes over all rows; of a given matrix there are no others."""
        asked, is_given = self.settings.nystrom, self.shape.kernel == "precomputed"
        is_pivoted = asked.method_for(self.shape.kernel) == "rpcholesky"
        return is_pivoted and (is_given or asked.pool == "all")

    @property
    def _stores_rows(self) -> bool:
        """Whether the run's store takes the rows, as it does where they are merged."""
        return self.with_store and not (self.in_place and self.settings.merge_duplicates is not True)

    @property
    def _merging_bytes(self) -> int:
        merging, n_samples = self.settings.merging, self.shape.n_samples
        if merging is None:
            return 0
        n_rows = min(n_samples, int(min(merging.most_rows(n_samples), n_samples)))
        return min(merging.most_bytes, n_rows * self.shape.n_features * self.row_itemsize)

    @property
    def disk_basis(self) -> int:
        """Bytes of the basis once it is published."""
        if not self.with_store:
            return 0
        if self.method != "nystrom" or self.shape.kernel == "precomputed":
            return footprint.basis_on_disk(self.shape, self.shape.n_samples, self.row_itemsize)
        n_sampled = min(self.shape.n_samples, drawn_rows(self.shape.n_features))
        return footprint.basis_on_disk(self.shape, self.n_landmarks, self.row_itemsize, n_sampled=n_sampled)

    @property
    def disk_tiles(self) -> int:
        """Bytes of tiles on disk."""
        return 0 if self.settings.tiles_in_bucket else self.forecast.disk_tiles

    @property
    def bucket_tiles(self) -> int:
        """Bytes of tiles in an object store."""
        return self.forecast.disk_tiles - self.disk_tiles

    @property
    def disk_total(self) -> int:
        """Bytes of the run's store on disk and of the basis."""
        f = self.forecast
        return f.disk_rows + self.disk_tiles + f.disk_vectors + self.disk_basis

    @property
    def storage_reason(self) -> str:
        """Why tiles go where they go, where that was chosen and memory does not hold them all."""
        if self.settings.storage != "auto" or self.storage == "memory" or self.method != "lanczos":
            return ""
        held = self.forecast.memory_tiles
        computed = self.shape.itemsize / self.shape.evaluation_seconds
        rate = reading_rate(in_bucket=self.settings.tiles_in_bucket)
        rates = f"a core computes {gib(computed)}/s of them and reads {gib(rate)}/s"
        rest = "are stored" if self.storage == "zarr" else "are computed again in every pass"
        tiles = gib(footprint.tile_bytes(self.grid, self.shape))
        return f"tiles: {gib(held)} of {tiles} in memory, the others {rest}: {rates}"

    def memory_total(self, n_workers: int, n_processes: int = 0) -> int:
        """Bytes of the largest process at its peak, imports included, as the system shows it.

        Parameters
        ----------
        n_workers : int
            Tasks at once, as far as the limit allows.
        n_processes : int
            Processes of their own for them; 0 where they are threads of the caller.
        """
        return self.forecast.memory(n_workers, n_processes, self.at_once)

    def memory_scoring(self, n_workers: int, n_processes: int = 0) -> int:
        """Bytes of the largest process that scores new rows, as `memory_total` counts them."""
        n_tasks = -(-n_workers // max(1, n_processes))
        return footprint.scoring_bytes(self.shape, int(BASIS_SHARE * self.settings.memory_limit), n_tasks)

    def scoring_seconds(self, n_scored: int, at_once: int) -> float:
        """Time in which so many new rows are read and scored, so many parts at once."""
        shape = replace(self.shape, itemsize=4 if self.scoring_precision == "float32" else 8)
        n_rows = self.n_landmarks if self.method == "nystrom" else shape.n_samples
        return scoring_seconds(shape, n_scored, n_rows, at_once)

    @property
    def at_once(self) -> int:
        """Tasks of a pass that may be alive at once in one process within the memory limit; at least one.

        The plan is the same wherever it is carried out: the caller and all tiles count for that process.
        """
        f = self.forecast
        free = self.settings.memory_limit - f.memory_client - f.memory_tiles
        return max(1, free // max(f.memory_task, 1))

    def refusals(self) -> tuple[str, ...]:
        """Why this must not start: what does not fit, by how much, and the way out."""
        return tuple(f"{excess}: {remedy}" for excess, remedy in self._excesses())

    def excesses(self) -> tuple[str, ...]:
        """What does not fit, and by how much."""
        return tuple(excess for excess, _ in self._excesses())

    def _excesses(self) -> list[tuple[str, str]]:
        f, limits, name = self.forecast, self.settings, self.settings.wording
        memory = self.memory_total(1)
        disk = self.disk_total
        found: list[tuple[str, str]] = []
        if memory > limits.memory_limit:
            excess = f"needs {gib(memory)} of memory, {name('memory_limit')} is {gib(limits.memory_limit)}"
            found.append((excess, self._memory_remedy()))
        if limits.disk_limit is not None and disk > limits.disk_limit:
            remedy = f"set {name('storage', 'recompute')} or raise" if self.disk_tiles else "raise"
            limit = name("disk_limit")
            excess = f"needs {gib(disk)} of disk, {limit} is {gib(limits.disk_limit)}"
            found.append((excess, f"{remedy} {limit}"))
        hours = f.core_seconds / 3600
        if limits.core_hours is not None and hours > limits.core_hours:
            limit = name("core_hours")
            excess = f"takes about {hours:.3g} hours of one core, {limit} is {limits.core_hours:g}"
            found.append((excess, "raise it"))
        return found

    def refusal(self) -> str:
        """All reasons why this must not start, and whether an approximation would; empty where it may."""
        found = "; ".join(self.refusals())
        if not found or self.settings.method != "auto" or self.method == "nystrom":
            return found
        other, name = self.approximated(), self.settings.wording
        if other.refusals():
            return found
        return (
            f"{found}; or take an approximation by {other.n_landmarks:,} landmarks, "
            f"which needs {gib(other.memory_total(1))}: set {name('allow_approximate', 'true')} "
            f"or {name('method', 'nystrom')}"
        )

    def approximated(self) -> FitPlan:
        """The plan of a Nyström fit to the same rows."""
        return replace(self, method="nystrom", storage="recompute", memory_tasks=0)

    def _memory_remedy(self) -> str:
        """What brings the need below the limit; where nothing that can be asked for does, the limit alone."""
        limit, (words, other) = self.settings.wording("memory_limit"), self._smaller()
        is_enough = other.memory_total(1) <= self.settings.memory_limit
        return f"{words}, or raise {limit}" if is_enough else f"raise {limit}"

    def _smaller(self) -> tuple[str, FitPlan]:
        """What to ask for to need less memory, and the plan of the most that this brings."""
        name, shape = self.settings.wording, self.shape
        if self.method == "nystrom":
            nystrom = replace(self.settings.nystrom, n_landmarks=shape.n_components)
            fewest = replace(self, settings=replace(self.settings, nystrom=nystrom))
            return f"ask for fewer landmarks ({name('n_landmarks')})", fewest
        passes = replace(self, method="lanczos", storage="recompute", memory_tasks=0)
        if self.storage == "memory" and self.method != "dense":
            return f"set {name('storage', 'recompute')} (or zarr)", passes
        least = replace(passes, shape=replace(shape, n_components=1, itemsize=4, mixed=False))
        if self.method == "dense":
            return f"set {name('method', 'lanczos')} with a number of components", least
        return f"ask for fewer components or {name('precision', 'float32')}", least


def krylov_columns(settings: FitSettings, shape: Shape) -> int:
    """As many as the passes of a usual solve bring, a share's as many as it may need; then it restarts."""
    most = footprint.BASIS_BLOCKS * shape.width
    if isinstance(settings.n_components, float):
        most = max(most, settings.max_components + 4 * shape.width)
    return min(most, footprint.krylov_columns(shape, settings.memory_limit))


def gib(n_bytes: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} GiB"
