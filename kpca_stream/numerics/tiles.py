"""The tile grid: integers only.

Tile (i, j), i ≤ j, holds K of row tile i against row tile j. A task owns a *block* of neighbouring tiles,
so that its length does not depend on the tile size.
"""

from __future__ import annotations

from dataclasses import dataclass

Tile = tuple[int, int]


@dataclass(frozen=True)
class TileGrid:
    """The upper triangle of an n × n matrix, cut into tiles and these into tasks.

    Parameters
    ----------
    n_samples : int
        Rows of the matrix.
    tile_rows : int
        Rows and columns of a tile; those at the edge are smaller.
    tiles_per_block : int
        Tiles along one side of the block that a task owns.
    """

    n_samples: int
    tile_rows: int
    tiles_per_block: int = 1

    @property
    def side(self) -> int:
        """Tiles along one side of the matrix."""
        return -(-self.n_samples // self.tile_rows)

    @property
    def n_tiles(self) -> int:
        """Tiles with i ≤ j."""
        return self.side * (self.side + 1) // 2

    @property
    def n_values(self) -> int:
        """Values in all tiles; those on the diagonal are whole squares."""
        return self._values_among(self.n_samples)

    @property
    def block_side(self) -> int:
        """Blocks along one side of the matrix."""
        return -(-self.side // self.tiles_per_block)

    @property
    def n_tasks(self) -> int:
        """Blocks with i ≤ j."""
        return self.block_side * (self.block_side + 1) // 2

    def rows(self, tile: int) -> tuple[int, int]:
        """First row and end of row tile `tile`."""
        return tile * self.tile_rows, min((tile + 1) * self.tile_rows, self.n_samples)

    def block_rows(self, block: int) -> tuple[int, int]:
        """First row and end of row block `block`."""
        width = self.tile_rows * self.tiles_per_block
        return block * width, min((block + 1) * width, self.n_samples)

    def blocks(self) -> list[Tile]:
        """The blocks (I, J), I ≤ J, of all tasks in their order."""
        return [(i, j) for i in range(self.block_side) for j in range(i, self.block_side)]

    def tiles(self, block: Tile | None = None) -> list[Tile]:
        """The tiles (i, j), i ≤ j, of a block, or of the whole matrix, in their order."""
        first, second = (range(self.side),) * 2 if block is None else map(self._tiles_of, block)
        return [(i, j) for i in first for j in second if i <= j]

    def values(self, block: Tile) -> int:
        """Values in the tiles of a block."""
        first, second = (stop - start for start, stop in map(self.block_rows, block))
        if block[0] != block[1]:
            return first * second
        return self._values_among(first)

    def _values_among(self, n_rows: int) -> int:
        """In the tiles (i, j), i ≤ j, of rows of which only the last tile may be smaller."""
        n_whole, rest = divmod(n_rows, self.tile_rows)
        squares = n_whole * self.tile_rows**2 + rest**2
        return (n_rows**2 + squares) // 2

    def _tiles_of(self, block: int) -> range:
        start = block * self.tiles_per_block
        return range(start, min(start + self.tiles_per_block, self.side))
