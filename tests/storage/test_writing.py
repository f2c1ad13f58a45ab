"""Tiles written while the next ones are computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.storage.chunked import create_array, read_tile
from kpca_stream.storage.writing import TileWriter

GRID = TileGrid(10, 4)
TILES = GRID.tiles()


@pytest.fixture
def tiles(tmp_path: Path) -> zarr.Array:
    group = zarr.create_group(tmp_path / "s", zarr_format=3)
    return create_array(group, "tiles", (10, 10), (4, 4), np.float32, dimensions=("row", "column"))


def fill(writer: TileWriter, index: int) -> None:
    (a, b), (c, d) = map(GRID.rows, TILES[index])
    T = writer.room((b - a, d - c), np.dtype(np.float32))
    T[...] = index
    writer.write(TILES[index], T)


def test_all_tiles_are_there_when_the_block_ends(tiles: zarr.Array) -> None:
    """Each tile holds what was filled in for it, though its memory was used again at once."""
    with TileWriter(tiles, GRID) as writer:
        for index in range(len(TILES)):
            fill(writer, index)
    for index, tile in enumerate(TILES):
        T = read_tile(tiles, GRID, tile)
        assert T is not None
        assert (index == T).all()


@pytest.mark.parametrize("n_more", [0, 2])
def test_a_tile_that_cannot_be_written_ends_the_block(tiles: zarr.Array, n_more: int, tmp_path: Path) -> None:
    """The error of a write comes through with the next tile, or at the end."""
    (tmp_path / "s" / "tiles" / "c" / "0" / "0").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="c/0/0"), TileWriter(tiles, GRID) as writer:  # noqa: PT012
        for index in range(1 + n_more):
            fill(writer, index)


def test_an_error_of_the_caller_comes_through(tiles: zarr.Array) -> None:
    """Where the caller fails, his own error is told, once the last write has ended."""
    with pytest.raises(KeyError), TileWriter(tiles, GRID) as writer:  # noqa: PT012
        fill(writer, 0)
        raise KeyError
    assert read_tile(tiles, GRID, TILES[0]) is not None
