"""The tile service: what a task of the Gram matrix does.

A task owns a block of neighbouring tiles. It gets each from memory, from Zarr or by computing it, multiplies
it for both of its sides, and returns the sums of its two row blocks. Where tiles come from does not touch
the arithmetic, so that all three give the same bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.forecast import OPERAND_BYTES
from kpca_stream.numerics.kernels import Kernel, Operand, as_operand
from kpca_stream.numerics.multiply import Strip, Workspace, computed_strips, multiply_tile, stored_strips
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.chunked import is_stored, read_tile
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.writing import TileWriter

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

    def strips(self, tile: Tile, sides: tuple[Operands, Operands], work: Work) -> Iterator[Strip]:
        """One tile as strips, read where it is present, else computed and kept."""
        if self.tiles is None:
            return self.computed(tile, sides, work)
        # A worker that was lost may have written what its task is now done again for.
        if tile in self.present or is_stored(self.tiles, tile):
            T = read_tile(self.tiles, self.grid, tile, work.buffer)
            if T is not None:
                work.counts.read += 1
                return stored_strips(T)
            work.counts.repaired.append(tile)
        return self._stored(tile, sides, work)

    def operands(self) -> tuple[Operands, Operands]:
        """Both sides of the block; on distinct buffers, since A·Aᵀ takes another path than A·Bᵀ."""
        # Tiles come row by row, so that a row tile of the first side is not needed again later.
        first, second = (
            Operands(self, rows, self.grid.block_rows(block)[0], budget)
            for rows, block, budget in zip(self.rows, self.block, (0, OPERAND_BYTES), strict=True)
        )
        return first, second

    def computed(
        self, tile: Tile, sides: tuple[Operands, Operands], work: Work, out: Array | None = None
    ) -> Iterator[Strip]:
        """One tile as strips of `out`, if given."""
        work.counts.made += 1
        A, B = (side[t] for side, t in zip(sides, tile, strict=True))
        return computed_strips(
            self.kernel, A, B, self.dtype, diagonal=tile[0] == tile[1], out=out, workspace=work.space
        )

    def shape(self, tile: Tile) -> tuple[int, int]:
        """Rows and columns of a tile."""
        (a, b), (c, d) = (self.grid.rows(t) for t in tile)
        return b - a, d - c

    def empty(self) -> list[Array]:
        """Memory for all tiles of the block."""
        return [np.empty(self.shape(tile), self.dtype) for tile in self.grid.tiles(self.block)]

    def _stored(self, tile: Tile, sides: tuple[Operands, Operands], work: Work) -> Iterator[Strip]:
        T = work.writer.room(self.shape(tile), self.dtype)
        yield from self.computed(tile, sides, work, T)
        work.writer.write(tile, T)


class Work:
    """What a task counts, and where it has tiles while it reads, computes and writes them.

    What it writes is written when its block ends.
    """

    def __init__(self, task: BlockTask) -> None:
        self.task = task
        self.counts = TileCounts()
        self.buffer, self.space = Buffer(), Workspace()
        self._open = ExitStack()

    @cached_property
    def writer(self) -> TileWriter:
        """Begun with the first tile that is written."""
        if self.task.tiles is None:
            raise TypeError("this task stores no tiles")
        return self._open.enter_context(TileWriter(self.task.tiles, self.task.grid))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)


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

    def __sizeof__(self) -> int:
        """Tells Dask how much it holds."""
        return super().__sizeof__() + self.P_i.nbytes + (0 if self.P_j is None else self.P_j.nbytes)


@dataclass(frozen=True, eq=False)
class BlockTiles:
    """The tiles of a block, in their order, and what it took to have them."""

    tiles: list[Array]
    counts: TileCounts

    def __sizeof__(self) -> int:
        """Tells Dask what it would cost to move them."""
        return super().__sizeof__() + sum(tile.nbytes for tile in self.tiles)


def multiply_block(task: BlockTask, V_i: Rows, V_j: Rows, memory: BlockTiles | None = None) -> BlockProduct:
    """The products of a block's tiles, those in `memory` if given, with their parts of V."""
    with Work(task) as work:
        sides = task.operands()
        strips = (
            task.strips(tile, sides, work) if memory is None else stored_strips(memory.tiles[index])
            for index, tile in enumerate(task.grid.tiles(task.block))
        )
        P_i, P_j = _products(task, strips, (V_i, V_j), work)
    return BlockProduct(P_i, P_j, work.counts)


def keep_block(task: BlockTask, V_i: Rows, V_j: Rows) -> tuple[BlockTiles, BlockProduct]:
    """The tiles of a block as arrays, multiplied as they are made."""
    memory = BlockTiles(task.empty(), TileCounts())
    with Work(task) as work:
        P_i, P_j = _products(task, _kept(task, memory.tiles, work), (V_i, V_j), work)
    return memory, BlockProduct(P_i, P_j, work.counts)


def tiles_of_block(task: BlockTask) -> BlockTiles:
    """The tiles of a block as arrays."""
    tiles = task.empty()
    with Work(task) as work:
        for strips in _kept(task, tiles, work):
            deque(strips, maxlen=0)
    return BlockTiles(tiles, work.counts)


def _kept(task: BlockTask, tiles: Sequence[Array], work: Work) -> Iterator[Iterator[Strip]]:
    """All tiles of a block as strips of `tiles`, which are filled on the way."""
    sides = task.operands()
    for tile, T in zip(task.grid.tiles(task.block), tiles, strict=True):
        if task.tiles is None:
            yield task.computed(tile, sides, work, T)
        else:
            yield _copied(task.strips(tile, sides, work), T)


def _copied(strips: Iterator[Strip], T: Array) -> Iterator[Strip]:
    for rows, strip in strips:
        T[rows] = strip
        yield rows, T[rows]


def _products(
    task: BlockTask, strips: Iterable[Iterator[Strip]], V_rows: tuple[Rows, Rows], work: Work
) -> tuple[Array, Array | None]:
    """Of all tiles of a block, each as strips."""
    V = [rows.load().astype(task.dtype, copy=False) for rows in V_rows]
    P_i, P_j = (np.zeros((len(v), v.shape[1])) for v in V)
    starts = [task.grid.block_rows(block)[0] for block in task.block]
    for tile, T in zip(task.grid.tiles(task.block), strips, strict=True):
        i, j = (
            slice(*(edge - start for edge in task.grid.rows(t)))
            for t, start in zip(tile, starts, strict=True)
        )
        # In a block on the diagonal both sides are the same rows, and their sums are added up as one.
        mirrored = P_i if task.block[0] == task.block[1] else P_j
        P_j_of_tile = None if tile[0] == tile[1] else mirrored[j]
        multiply_tile(T, V[0][i], V[1][j], P_i[i], P_j_of_tile, work.space)
    return P_i, None if task.block[0] == task.block[1] else P_j


def terms_of_rows(
    kernel: Kernel, rows: Rows, address: tuple[int, int], tile_rows: int
) -> tuple[Array, Array]:
    """k'(x_i, x_i) and a(x_i) of a row block, both (n_rows,), tile by tile."""
    first, end = address
    terms = []
    for start in range(first, end, tile_rows):
        stop = min(start + tile_rows, end)
        A = as_operand(kernel, rows.part(start - first, stop - first), (start, stop), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # told by the caller, with what bounds all values
            terms.append((kernel.diagonal(A), kernel.offset(A)))
    diagonal, offset = (np.concatenate(parts) for parts in zip(*terms, strict=True))
    return diagonal, offset
