"""K' of the training rows as an operator: rows → tiles K_ij, i ≤ j → products K·V."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.numerics.kernels import Kernel
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.stages.gram.blocks import (
    BlockTask,
    BlockTiles,
    TileCounts,
    keep_block,
    multiply_block,
    terms_of_rows,
    tiles_of_block,
)
from kpca_stream.storage.checkpoint import Ledger
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.telemetry import Advance

Array = NDArray[Any]
Storage = Literal["memory", "zarr", "recompute"]


@dataclass
class Gram:
    """K' of the training rows as an operator.

    Parameters
    ----------
    rows : Rows
        The training rows (n, d); for a precomputed kernel the matrix (n, n).
    kernel : Kernel
    grid : TileGrid
    dtype : dtype
        Of tiles and of a strip's products.
    storage : {"memory", "zarr", "recompute"}
        Where tiles are between passes.
    memory_tasks : int
        With "zarr" and "recompute", the tiles of so many tasks, the first ones, are held in memory as well.
    store : RunStore, optional
        Keeps tiles ("zarr"), checkpoints, and the blocks of vectors for the workers.
    step : callable, optional
        Begins a stage of the progress.
    at_once : int, optional
        Upper limit of tasks alive at once.
    checkpoint_seconds : float
        Least time between two checkpoints of a pass.
    """

    rows: Rows
    kernel: Kernel
    grid: TileGrid
    dtype: np.dtype[Any]
    storage: Storage
    store: RunStore | None = None
    step: Any = None
    at_once: int | None = None
    memory_tasks: int = 0
    checkpoint_seconds: float = passes.COMMIT_SECONDS
    counts: TileCounts = field(default_factory=TileCounts)

    def __post_init__(self) -> None:
        """Open the tiles, and find those that are there."""
        self._blocks = self.grid.blocks()
        self._memory: dict[int, Any] = {}
        self._tiles: zarr.Array[Any] | None = None
        self._present: set[Tile] = set()
        self._told: set[Tile] = set()
        self._n_passes = 0
        self._n_in_memory = self.grid.n_tasks if self.storage == "memory" else self.memory_tasks
        if self.storage == "zarr" and self.store is not None:
            self._tiles = self.store.open_tiles(self.grid.n_samples, self.grid.tile_rows, self.dtype)
            self._present = self.store.present_tiles()
            self.counts.found = len(self._present)
            if self._tiles.attrs.get("complete"):  # a lost one is then found missing when read, and told
                self._present = set(self.grid.tiles())

    def multiply(self, V: Array) -> Array:
        """K'·V for V (n, w), in float64 sums of products in the working precision.

        With a store, the sums are checkpointed as they grow and kept when they are whole; the same product
        asked for again, as a restarted solve does, is read.
        """
        V = np.ascontiguousarray(V, dtype=self.dtype)
        self._n_passes += 1
        name = f"{self.dtype}-{self._n_passes:03d}"
        ledger = self._ledger(name, V)
        # Sums of another block of vectors belong to a solve that took another way.
        sums, first = ledger.restored({"sums": V.shape}) or ({"sums": np.zeros(V.shape)}, 0)
        self.counts.resumed += first > 0
        if first < self.grid.n_tasks:
            self._run(V, sums["sums"], ledger, first)
            ledger.save(sums, self.grid.n_tasks)
        return sums["sums"]

    def terms(self) -> tuple[Array, Array]:
        """The diagonal k'(x_i, x_i) and the offsets a(x_i), both (n,) in float64.

        Raises
        ------
        DataError
            If the kernel's values, which the diagonal bounds, are too large for the type of the tiles.
        """
        addresses = [self.grid.block_rows(block) for block in range(self.grid.block_side)]
        calls = [
            passes.Call(
                terms_of_rows,
                (self.kernel, self.rows.part(*a), a, self.grid.tile_rows),
                label=f"rows {a[0]}:{a[1]}",
            )
            for a in addresses
        ]
        results: list[tuple[Array, Array]] = []
        passes.run(calls, lambda _, result: results.append(result), at_once=self.at_once)
        diagonal, offset = (np.concatenate(parts) for parts in zip(*results, strict=True))
        largest = float(np.abs(diagonal).max())
        if not largest < float(np.finfo(self.dtype).max) / len(diagonal):
            raise DataError(
                f"kernel {self.kernel.name}: got values up to {largest:.1e}, whose sums {self.dtype} cannot "
                "hold; scale the rows (scale: standard), lower gamma or degree, or use precision: float64"
            )
        return diagonal, offset

    def assemble(self) -> Array:
        """K' as a whole, (n, n) in float64, for small n."""
        n_samples = self.grid.n_samples
        K = np.empty((n_samples, n_samples))

        def fold(index: int, block: BlockTiles) -> None:
            for tile, T in zip(self.grid.tiles(self._blocks[index]), block.tiles, strict=True):
                i, j = (slice(*self.grid.rows(t)) for t in tile)
                K[i, j] = T
                K[j, i] = T.T
            self.counts.add(block.counts)

        calls = [
            passes.Call(tiles_of_block, (self._task(index),), label=self._label(index))
            for index in range(self.grid.n_tasks)
        ]
        passes.run(calls, fold, progress=self._progress("Gram matrix"), at_once=self.at_once)
        self._all_present()
        return K

    def _ledger(self, name: str, V: Array) -> Ledger:
        # What was folded counts only for the same vectors in the same tasks.
        belongs_to = [] if self.store is None else [zlib.crc32(V.data), self.grid.tiles_per_block]
        return Ledger(None if self.store is None else self.store.checkpoints, name, belongs_to)

    def _run(self, V: Array, total: Array, ledger: Ledger, first: int) -> None:
        V_rows = ArrayRows(V) if self.store is None else self.store.publish("vectors", V)

        def fold(index: int, result: Any) -> None:
            if index < self._n_in_memory and index not in self._memory:
                self._memory[index], part = result
            else:
                part = result
            i, j = (slice(*self.grid.block_rows(block)) for block in self._blocks[index])
            total[i] += part.P_i
            if part.P_j is not None:
                total[j] += part.P_j
            self.counts.add(part.counts)

        passes.run(
            passes.Lazy(self.grid.n_tasks, lambda index: self._product(index, V_rows)),
            fold,
            commit=passes.Commit(
                lambda n_folded: ledger.save({"sums": total}, n_folded), first, self.checkpoint_seconds
            ),
            progress=self._progress(f"pass {self._n_passes}"),
            at_once=self.at_once,
        )
        self._all_present()

    def _product(self, index: int, V: Rows) -> passes.Call:
        parts = [V.part(*self.grid.block_rows(block)) for block in self._blocks[index]]
        label = self._label(index)
        if index >= self._n_in_memory:
            return passes.Call(multiply_block, (self._task(index), *parts), label=label)
        if index not in self._memory:
            return passes.Call(keep_block, (self._task(index), *parts), keeps=True, label=label)
        return passes.Call(multiply_block, (self._task(index), *parts, self._memory[index]), label=label)

    def _label(self, index: int) -> str:
        """The rows whose tiles a task has."""
        (a, b), (c, d) = (self.grid.block_rows(block) for block in self._blocks[index])
        return f"K[{a}:{b}, {c}:{d}]"

    def _task(self, index: int) -> BlockTask:
        block = self._blocks[index]
        first, second = (self.rows.part(*self.grid.block_rows(b)) for b in block)
        task = BlockTask(self.grid, block, self.kernel, self.dtype, (first, second))
        if self._tiles is None:
            return task
        return replace(
            task, tiles=self._tiles, present=frozenset(self._present.intersection(self.grid.tiles(block)))
        )

    def _all_present(self) -> None:
        """After a pass all tiles are there; those that were damaged are named."""
        if self._tiles is None:
            return
        self._present = set(self.grid.tiles())
        if not self._tiles.attrs.get("complete"):
            self._tiles.attrs["complete"] = True
        damaged = sorted(set(self.counts.repaired) - self._told)
        if damaged:
            self._told.update(damaged)
            first = ", ".join(map(str, damaged[:8])) + (", …" if len(damaged) > 8 else "")
            warnings.warn(
                f"{self._tiles.store_path}: {len(damaged)} tiles were cut, changed or lost and have been "
                f"computed again: {first}; check the disk",
                KpcaStreamWarning,
                stacklevel=2,
            )

    def _progress(self, stage: str) -> Advance | None:
        return self.step(stage) if self.step is not None else None
