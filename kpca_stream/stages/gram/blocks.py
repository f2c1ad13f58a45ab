"""The tile service: what a task of the Gram matrix does.

A task owns a block of neighbouring tiles. It gets each from memory, from Zarr or by computing it, multiplies
it for both of its sides, and returns the sums of its two row blocks. Where tiles come from does not touch
the arithmetic, so that all three give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.numerics.forecast import OPERAND_BYTES
from kpca_stream.numerics.kernels import Kernel, Operand, as_operand
from kpca_stream.numerics.multiply import Strip, computed_strips, kept, multiply_tile, stored_strips
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.chunked import read_tile, write_tile
from kpca_stream.storage.rows import Rows

Array = NDArray[Any]


@dataclass
class TileCounts:
    """Tiles that were found at the start, read and made; those made again, since they were damaged or lost.

    `resumed` counts the passes whose sums, or a part of them, were found.
    """

    found: int = 0
    read: int = 0
    made: int = 0
    repaired: list[Tile] = field(default_factory=list)
    resumed: int = 0

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
            counts.repaired.append(tile)
        return self._stored(self.tiles, tile, sides, counts)

    def operands(self) -> tuple[Operands, Operands]:
        """Both sides of the block; on distinct buffers, since A·Aᵀ takes another path than A·Bᵀ."""
        # Tiles come row by row, so that a row tile of the first side is not needed again later.
        first, second = (
            Operands(self, rows, self.grid.block_rows(block)[0], budget)
            for rows, block, budget in zip(self.rows, self.block, (0, OPERAND_BYTES), strict=True)
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
        write_tile(tiles, self.grid, tile, T)


class Operands:
    """The row tiles of one side of a block, each made ready when it is needed.

    The first ones are held, and the last one, within `budget` bytes.
    """

    def __init__(self, task: BlockTask, rows: Rows, start: int, budget: int) -> None:
        self.task, self.rows, self.start = task, rows, start
        self.held: dict[int, Operand] = {}
        self.free = budget
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


@dataclass(frozen=True, eq=False)
class BlockTiles:
    """The tiles of a block, in their order, and what it took to have them."""

    tiles: list[Array]
    counts: TileCounts


def multiply_block(task: BlockTask, V_i: Rows, V_j: Rows, memory: BlockTiles | None = None) -> BlockProduct:
    """The products of a block's tiles, those in `memory` if given, with their parts of V."""
    counts = TileCounts()
    sides = task.operands()
    V = [rows.load().astype(task.dtype, copy=False) for rows in (V_i, V_j)]
    P_i, P_j = (np.zeros((len(v), v.shape[1])) for v in V)
    starts = [task.grid.block_rows(block)[0] for block in task.block]
    for index, tile in enumerate(task.grid.tiles(task.block)):
        strips = task.strips(tile, sides, counts) if memory is None else stored_strips(memory.tiles[index])
        i, j = (
            slice(*(edge - start for edge in task.grid.rows(t)))
            for t, start in zip(tile, starts, strict=True)
        )
        # In a block on the diagonal both sides are the same rows, and their sums are added up as one.
        mirrored = P_i if task.block[0] == task.block[1] else P_j
        multiply_tile(strips, V[0][i], V[1][j], P_i[i], None if tile[0] == tile[1] else mirrored[j])
    return BlockProduct(P_i, None if task.block[0] == task.block[1] else P_j, counts)


def tiles_of_block(task: BlockTask) -> BlockTiles:
    """The tiles of a block as arrays."""
    counts = TileCounts()
    sides = task.operands()
    tiles = [_whole(task, tile, sides, counts) for tile in task.grid.tiles(task.block)]
    return BlockTiles(tiles, counts)


def _whole(task: BlockTask, tile: Tile, sides: tuple[Operands, Operands], counts: TileCounts) -> Array:
    (a, b), (c, d) = (task.grid.rows(t) for t in tile)
    T = np.empty((b - a, d - c), dtype=task.dtype)
    for _ in kept(task.strips(tile, sides, counts), T):
        pass
    return T


def counts_of(memory: BlockTiles) -> TileCounts:
    """What it took to have these tiles; small enough to travel."""
    return memory.counts


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
