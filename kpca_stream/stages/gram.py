"""Rows → tiles K_ij, i ≤ j → products K·V.

The tile service: a task gets its tiles from memory, from Zarr or by computing them, multiplies each one
for both of its sides, and returns the sums of its two row blocks. Where tiles come from does not touch
the arithmetic, so that all three give the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.numerics.forecast import OPERAND_BYTES
from kpca_stream.numerics.kernels import Kernel, Operand, as_operand
from kpca_stream.numerics.multiply import Strip, computed_strips, kept, multiply_tile, stored_strips
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.layout import RunStore, read_tile
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.telemetry import Advance

Array = NDArray[Any]
Storage = Literal["memory", "zarr", "recompute"]


@dataclass
class TileCounts:
    """Tiles that were found at the start, read, made and made again."""

    found: int = 0
    read: int = 0
    made: int = 0
    repaired: int = 0

    def add(self, other: TileCounts) -> None:
        """Count what a task did."""
        self.read += other.read
        self.made += other.made
        self.repaired += other.repaired


@dataclass(frozen=True, eq=False)
class BlockTask:
    """What a task needs to have the tiles of one block: addresses, no arrays."""

    grid: TileGrid
    block: Tile
    kernel: Kernel
    dtype: np.dtype[Any]
    rows: tuple[Rows, Rows]
    tiles: zarr.Array[Any] | None = None
    present: frozenset[Tile] = frozenset()

    def strips(self, tile: Tile, sides: tuple[Operands, Operands], counts: TileCounts) -> Iterator[Strip]:
        """One tile as strips, read where it is present, else computed and kept."""
        if self.tiles is None:
            return self._computed(tile, sides, counts)
        if tile in self.present:
            T = read_tile(self.tiles, self.grid, tile)
            if T is not None:
                counts.read += 1
                return stored_strips(T)
            counts.repaired += 1
        return self._stored(self.tiles, tile, sides, counts)

    def operands(self) -> tuple[Operands, Operands]:
        """Both sides of the block; on distinct buffers, since A·Aᵀ takes another path than A·Bᵀ."""
        first, second = (
            Operands(self, rows, start=self.grid.block_rows(block)[0])
            for rows, block in zip(self.rows, self.block, strict=True)
        )
        return first, second

    def _computed(self, tile: Tile, sides: tuple[Operands, Operands], counts: TileCounts) -> Iterator[Strip]:
        counts.made += 1
        A, B = (side[t] for side, t in zip(sides, tile, strict=True))
        return computed_strips(self.kernel, A, B, self.dtype, diagonal=tile[0] == tile[1])

    def _stored(
        self, tiles: zarr.Array[Any], tile: Tile, sides: tuple[Operands, Operands], counts: TileCounts
    ) -> Iterator[Strip]:
        (a, b), (c, d) = (self.grid.rows(t) for t in tile)
        T = np.empty((b - a, d - c), dtype=self.dtype)
        yield from kept(self._computed(tile, sides, counts), T)
        tiles[a:b, c:d] = T


class Operands:
    """The row tiles of one side of a block, each made ready when it is needed.

    The first ones are held, and the last one, within a fixed budget.
    """

    def __init__(self, task: BlockTask, rows: Rows, start: int) -> None:
        self.task, self.rows, self.start = task, rows, start
        self.held: dict[int, Operand] = {}
        self.free = OPERAND_BYTES
        self.last: tuple[int, Operand] | None = None

    def __getitem__(self, tile: int) -> Operand:
        if tile in self.held:
            return self.held[tile]
        if self.last is not None and self.last[0] == tile:
            return self.last[1]
        self.last = None
        operand = self._made(tile)
        if 2 * operand.nbytes <= self.free:  # the last one needs room too
            self.free -= operand.nbytes
            self.held[tile] = operand
        else:
            self.last = tile, operand
        return operand

    def _made(self, tile: int) -> Operand:
        a, b = self.task.grid.rows(tile)
        rows = self.rows.part(a - self.start, b - self.start)
        return as_operand(self.task.kernel, rows, (a, b), self.task.dtype)


@dataclass(frozen=True, eq=False)
class BlockProduct:
    """The sums of a task: of its row block I and, off the diagonal, of its row block J."""

    P_i: Array
    P_j: Array | None
    counts: TileCounts


def multiply_block(task: BlockTask, V_i: Rows, V_j: Rows, memory: list[Array] | None = None) -> BlockProduct:
    """The products of a block's tiles, those in `memory` if given, with their parts of V."""
    counts = TileCounts()
    sides = task.operands()
    V = [rows.load().astype(task.dtype, copy=False) for rows in (V_i, V_j)]
    P_i, P_j = (np.zeros((len(v), v.shape[1])) for v in V)
    starts = [task.grid.block_rows(block)[0] for block in task.block]
    for index, tile in enumerate(task.grid.tiles(task.block)):
        strips = task.strips(tile, sides, counts) if memory is None else stored_strips(memory[index])
        i, j = (
            slice(*(edge - start for edge in task.grid.rows(t)))
            for t, start in zip(tile, starts, strict=True)
        )
        # In a block on the diagonal both sides are the same rows, and their sums are added up as one.
        mirrored = P_i if task.block[0] == task.block[1] else P_j
        multiply_tile(strips, V[0][i], V[1][j], P_i[i], None if tile[0] == tile[1] else mirrored[j])
    return BlockProduct(P_i, None if task.block[0] == task.block[1] else P_j, counts)


def tiles_of_block(task: BlockTask) -> list[Array]:
    """The tiles of a block, in their order, as arrays."""
    counts = TileCounts()
    sides = task.operands()
    return [
        np.concatenate([strip.copy() for _, strip in task.strips(tile, sides, counts)])
        for tile in task.grid.tiles(task.block)
    ]


def terms_of_rows(
    kernel: Kernel, rows: Rows, address: tuple[int, int], tile_rows: int
) -> tuple[Array, Array]:
    """k'(x_i, x_i) and a(x_i) of a row block, both (n_rows,), tile by tile."""
    first, end = address
    terms = []
    for start in range(first, end, tile_rows):
        stop = min(start + tile_rows, end)
        A = as_operand(kernel, rows.part(start - first, stop - first), (start, stop), np.float64)
        terms.append((kernel.diagonal(A), kernel.offset(A)))
    diagonal, offset = (np.concatenate(parts) for parts in zip(*terms, strict=True))
    return diagonal, offset


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
    store : RunStore, optional
        Keeps tiles ("zarr"), checkpoints, and the blocks of vectors for the workers.
    step : callable, optional
        Begins a stage of the progress.
    at_once : int, optional
        Upper limit of tasks alive at once.
    """

    rows: Rows
    kernel: Kernel
    grid: TileGrid
    dtype: np.dtype[Any]
    storage: Storage
    store: RunStore | None = None
    step: Any = None
    at_once: int | None = None
    counts: TileCounts = field(default_factory=TileCounts)

    def __post_init__(self) -> None:
        """Open the tiles, and find those that are there."""
        self._blocks = self.grid.blocks()
        self._memory: dict[int, Any] = {}
        self._tiles: zarr.Array[Any] | None = None
        self._present: set[Tile] = set()
        self._n_passes = 0
        if self.storage == "zarr" and self.store is not None:
            self._tiles = self.store.open_tiles(self.grid.n_samples, self.grid.tile_rows, self.dtype)
            self._present = self.store.present_tiles()
            self.counts.found = len(self._present)

    def multiply(self, V: Array) -> Array:
        """K'·V for V (n, w), in float64 sums of products in the working precision.

        With a store, the sums are checkpointed as they grow and kept when they are whole; the same product
        asked for again, as a restarted solve does, is read.
        """
        V = np.ascontiguousarray(V, dtype=self.dtype)
        self._n_passes += 1
        name = f"{self.dtype}-{self._n_passes:03d}"
        ledger = _Ledger.of(self.store, name, V, self.grid.tiles_per_block)
        total, first = ledger.restored()
        if first < self.grid.n_tasks:
            self._run(V, total, ledger, first)
            ledger.save(total, self.grid.n_tasks)
        return total

    def terms(self) -> tuple[Array, Array]:
        """The diagonal k'(x_i, x_i) and the offsets a(x_i), both (n,) in float64."""
        addresses = [self.grid.block_rows(block) for block in range(self.grid.block_side)]
        calls = [
            passes.Call(terms_of_rows, (self.kernel, self.rows.part(*a), a, self.grid.tile_rows))
            for a in addresses
        ]
        results: list[tuple[Array, Array]] = []
        passes.run(calls, lambda _, result: results.append(result), at_once=self.at_once)
        diagonal, offset = (np.concatenate(parts) for parts in zip(*results, strict=True))
        return diagonal, offset

    def assemble(self) -> Array:
        """K' as a whole, (n, n) in float64, for small n."""
        n_samples = self.grid.n_samples
        K = np.empty((n_samples, n_samples))

        def fold(index: int, tiles: list[Array]) -> None:
            for tile, T in zip(self.grid.tiles(self._blocks[index]), tiles, strict=True):
                i, j = (slice(*self.grid.rows(t)) for t in tile)
                K[i, j] = T
                K[j, i] = T.T

        calls = [passes.Call(tiles_of_block, (self._task(index),)) for index in range(self.grid.n_tasks)]
        passes.run(calls, fold, progress=self._progress("Gram matrix"), at_once=self.at_once)
        self._count_assembled()
        if self._tiles is not None:
            self._present = set(self.grid.tiles())
        return K

    def _run(self, V: Array, total: Array, ledger: _Ledger, first: int) -> None:
        V_rows = ArrayRows(V) if self.store is None else self.store.publish_vectors(V)

        def fold(index: int, part: BlockProduct) -> None:
            i, j = (slice(*self.grid.block_rows(block)) for block in self._blocks[index])
            total[i] += part.P_i
            if part.P_j is not None:
                total[j] += part.P_j
            self.counts.add(part.counts)

        passes.run(
            _Lazy(self.grid.n_tasks, lambda index: self._product(index, V_rows)),
            fold,
            commit=passes.Commit(lambda n_folded: ledger.save(total, n_folded), first),
            progress=self._progress(f"pass {self._n_passes}"),
            at_once=self.at_once,
            prepare=self._keep if self.storage == "memory" else None,
        )
        if self._tiles is not None:
            self._present = set(self.grid.tiles())

    def _product(self, index: int, V: Rows) -> passes.Call:
        parts = [V.part(*self.grid.block_rows(block)) for block in self._blocks[index]]
        memory = (self._memory[index],) if self.storage == "memory" else ()
        return passes.Call(multiply_block, (self._task(index), *parts, *memory))

    def _keep(self, window: range) -> None:
        missing = [index for index in window if index not in self._memory]
        calls = [passes.Call(tiles_of_block, (self._task(index),)) for index in missing]
        if calls:
            self._memory.update(zip(missing, passes.persist(calls), strict=True))
            self.counts.made += sum(len(self.grid.tiles(self._blocks[index])) for index in missing)

    def _task(self, index: int) -> BlockTask:
        block = self._blocks[index]
        first, second = (self.rows.part(*self.grid.block_rows(b)) for b in block)
        task = BlockTask(self.grid, block, self.kernel, self.dtype, (first, second))
        if self._tiles is None:
            return task
        return replace(
            task, tiles=self._tiles, present=frozenset(self._present.intersection(self.grid.tiles(block)))
        )

    def _count_assembled(self) -> None:
        self.counts.read += len(self._present)
        self.counts.made += self.grid.n_tiles - len(self._present)

    def _progress(self, stage: str) -> Advance | None:
        return self.step(stage) if self.step is not None else None


@dataclass(frozen=True)
class _Lazy(Sequence[passes.Call]):
    """Calls that are made when their window is due."""

    n_calls: int
    make: Any

    def __len__(self) -> int:
        return self.n_calls

    def __getitem__(self, index: Any) -> Any:
        return self.make(index)


@dataclass(frozen=True, eq=False)
class _Ledger:
    """The checkpoint of one pass: the sums, and how many tasks they hold."""

    store: RunStore | None
    name: str
    belongs_to: list[int]
    shape: tuple[int, int]

    @classmethod
    def of(cls, store: RunStore | None, name: str, V: Array, tiles_per_block: int) -> _Ledger:
        # What was folded counts only for the same vectors in the same tasks.
        belongs_to = [] if store is None else [zlib.crc32(V.data), tiles_per_block]
        return cls(store, name, belongs_to, (V.shape[0], V.shape[1]))

    def restored(self) -> tuple[Array, int]:
        found = None if self.store is None else self.store.checkpoints.load(self.name)
        # Sums of another block of vectors belong to a solve that took another way.
        if found is None or found[1].get("belongs_to") != self.belongs_to:
            return np.zeros(self.shape), 0
        arrays, facts = found
        return arrays["sums"], int(facts["n_folded"])

    def save(self, sums: Array, n_folded: int) -> None:
        if self.store is not None:
            self.store.checkpoints.save(
                self.name, {"sums": sums}, {"n_folded": n_folded, "belongs_to": self.belongs_to}
            )
