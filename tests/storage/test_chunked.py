"""Tiles as chunk files: Zarr reads what is written here, and the other way round."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from kpca_stream.addresses import Address
from kpca_stream.errors import DataError
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.storage.chunked import create_array, is_stored, read_tile, write_tile
from kpca_stream.storage.opening import occupied

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


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest) -> Address | None:
    """Where tiles lie, if not in the run's folder."""
    return Address.parse(request.getfixturevalue("bucket")) / "g" if request.param == "bucket" else None


def begun(path: Path, place: Address | None, kernel: str, *, restart: bool = False) -> zarr.Array[Any]:
    """Tiles of a run, as its tasks carry them."""
    with occupied(path, print, restart=restart, tiles=place) as store:
        store.claim({"kernel": kernel})
        tiles: zarr.Array[Any] = pickle.loads(pickle.dumps(store.open_tiles(21, 8, np.float32)))  # noqa: S301
    return tiles


def test_a_task_that_outlives_its_run_changes_no_tile_of_the_next(
    place: Address | None, tmp_path: Path
) -> None:
    """What a task of another run writes after a restart is never read, before and after the right tile."""
    old = begun(tmp_path / "s", place, "rbf")
    new = begun(tmp_path / "s", place, "laplacian", restart=True)
    for _ in range(2):
        with suppress(DataError):
            write_tile(old, GRID, (0, 1), 2 * values((0, 1), np.float32))
        T = read_tile(new, GRID, (0, 1))
        assert T is None or np.array_equal(T, values((0, 1), np.float32))
        write_tile(new, GRID, (0, 1), values((0, 1), np.float32))
    np.testing.assert_array_equal(read_tile(new, GRID, (0, 1)), values((0, 1), np.float32))


def test_a_task_that_outlives_its_store_leaves_nothing(tmp_path: Path) -> None:
    """Where a run's store was cleared and no other has begun, a late tile is refused and makes no file."""
    path = tmp_path / "s"
    old = begun(path, None, "rbf")
    with occupied(path, print, restart=True) as store:
        with pytest.raises(DataError, match=r"tiles/c/0/1 .* begun anew .* fit again"):
            write_tile(old, GRID, (0, 1), values((0, 1), np.float32))
        store.claim({"kernel": "laplacian"})
    assert not (path / "tiles").exists()


def test_tasks_of_the_same_run_share_its_tiles(place: Address | None, tmp_path: Path) -> None:
    """What a task of a killed run writes is found by the next one of the same data and kernel."""
    old, new = (begun(tmp_path / "s", place, "rbf") for _ in range(2))
    write_tile(old, GRID, (0, 1), values((0, 1), np.float32))
    assert is_stored(new, (0, 1))
    np.testing.assert_array_equal(read_tile(new, GRID, (0, 1)), values((0, 1), np.float32))


def test_tiles_of_a_store_that_names_no_run_beside_them_are_read(
    place: Address | None, tmp_path: Path
) -> None:
    """Tiles of an earlier version, or brought back from a copy, count, and their run goes on among them."""
    tiles = begun(tmp_path / "s", place, "rbf")
    description = tiles.attrs.asdict()
    tiles.attrs.put({})
    bare = type(tiles).open(tiles.store_path)
    write_tile(bare, GRID, (0, 1), values((0, 1), np.float32))
    again = begun(tmp_path / "s", place, "rbf")
    assert again.attrs.asdict() == description
    np.testing.assert_array_equal(read_tile(again, GRID, (0, 1)), values((0, 1), np.float32))
    write_tile(again, GRID, (1, 2), values((1, 2), np.float32))
    np.testing.assert_array_equal(read_tile(bare, GRID, (1, 2)), values((1, 2), np.float32))
