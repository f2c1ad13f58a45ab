"""Tiles as chunk files: Zarr reads what is written here, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.storage.chunked import create_array, read_tile, write_tile

GRID = TileGrid(21, 8)
TILES = [(0, 0), (0, 1), (1, 2), (2, 2)]


def tile_array(store: Any, dtype: Any) -> zarr.Array[Any]:
    group = zarr.open_group(store, mode="a", zarr_format=3)
    return create_array(group, "tiles", (21, 21), (8, 8), dtype, dimensions=("row", "column"))


def values(tile: tuple[int, int], dtype: Any) -> NDArray[Any]:
    shape = tuple(stop - start for start, stop in map(GRID.rows, tile))
    return np.random.default_rng(tile).standard_normal(shape).astype(dtype)


def region(tile: tuple[int, int]) -> tuple[slice, ...]:
    return tuple(slice(*GRID.rows(t)) for t in tile)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tile", TILES)
def test_zarr_reads_what_is_written(tile: tuple[int, int], dtype: Any, tmp_path: Path) -> None:
    """A tile written as a file is, for Zarr, a chunk like any other, checksum and padding included."""
    array = tile_array(tmp_path, dtype)
    write_tile(array, GRID, tile, values(tile, dtype))
    np.testing.assert_array_equal(np.asarray(array[region(tile)]), values(tile, dtype))
    np.testing.assert_array_equal(read_tile(array, GRID, tile), values(tile, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tile", TILES)
def test_files_are_those_that_zarr_writes(tile: tuple[int, int], dtype: Any, tmp_path: Path) -> None:
    """The bytes are the same as if Zarr had written the tile."""
    ours, theirs = (tile_array(tmp_path / name, dtype) for name in ("ours", "theirs"))
    write_tile(ours, GRID, tile, values(tile, dtype))
    theirs[region(tile)] = values(tile, dtype)
    file = Path("tiles", "c", str(tile[0]), str(tile[1]))
    assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()
    np.testing.assert_array_equal(read_tile(theirs, GRID, tile), values(tile, dtype))


def test_a_store_without_files_goes_through_zarr() -> None:
    """Tiles of a store in memory are written and read as well, and a missing one is told."""
    array = tile_array(MemoryStore(), np.float32)
    assert read_tile(array, GRID, (0, 1)) is None
    write_tile(array, GRID, (1, 2), values((1, 2), np.float32))
    np.testing.assert_array_equal(read_tile(array, GRID, (1, 2)), values((1, 2), np.float32))


@pytest.mark.parametrize("bit", range(0, 8 * (8 * 8 * 4 + 4), 97))
def test_any_flipped_bit_is_seen(bit: int, tmp_path: Path) -> None:
    """A chunk of which one bit differs, in a value or in the checksum, is not read."""
    array = tile_array(tmp_path, np.float32)
    write_tile(array, GRID, (0, 1), values((0, 1), np.float32))
    file = tmp_path / "tiles" / "c" / "0" / "1"
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    assert read_tile(array, GRID, (0, 1)) is None


def test_a_tile_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Where the file's place is taken by a folder, the error comes through and no partial file stays."""
    array = tile_array(tmp_path, np.float32)
    (tmp_path / "tiles" / "c" / "0" / "1" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="0/1"):
        write_tile(array, GRID, (0, 1), values((0, 1), np.float32))
    assert not list(tmp_path.rglob("*.partial"))
