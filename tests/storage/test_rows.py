"""Rows with an address."""

from __future__ import annotations

import ast
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.chunked import write_array
from kpca_stream.storage.rows import ArrayRows, NpyRows, Rows, ZarrRows

Array = NDArray[Any]


def values(dtype: Any = np.float32) -> Array:
    return np.arange(60, dtype=dtype).reshape(12, 5)


def in_memory(_: Path, X: Array) -> Rows:
    return ArrayRows(X)


def in_zarr(folder: Path, X: Array) -> Rows:
    return ZarrRows.whole(zarr.create_array(folder / "X", data=X, chunks=(5, 2)))


def in_npy(folder: Path, X: Array) -> Rows:
    np.save(folder / "X.npy", X)
    return NpyRows.whole(folder / "X.npy")


def in_fortran_npy(folder: Path, X: Array) -> Rows:
    return in_npy(folder, np.asfortranarray(X))


Opener = Callable[[Path, Array], Rows]
everywhere = pytest.mark.parametrize("place", [in_memory, in_zarr, in_npy, in_fortran_npy])


@everywhere
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16])
def test_rows_are_what_was_stored(place: Opener, dtype: Any, tmp_path: Path) -> None:
    """Shape, type and values are those of the array."""
    rows = place(tmp_path, values(dtype))
    assert rows.shape == (12, 5)
    assert rows.dtype == dtype
    assert rows.load().dtype == dtype
    assert np.array_equal(rows.load(), values(dtype))


@everywhere
def test_part_of_a_part_is_a_part(place: Opener, tmp_path: Path) -> None:
    """Parts count from their own first row, and end where the block that they are cut from ends."""
    part = place(tmp_path, values()).part(3, 9)
    assert part.shape == (6, 5)
    assert np.array_equal(part.load(), values()[3:9])
    inner = part.part(2, 5)
    assert inner.shape == (3, 5)
    assert np.array_equal(inner.load(), values()[5:8])
    assert np.array_equal(part.part(4, 99).load(), values()[7:9])
    assert part.part(4, 99).shape == (2, 5)
    assert part.part(2, 2).load().shape == (0, 5)


@everywhere
def test_some_columns_are_loaded(place: Opener, tmp_path: Path) -> None:
    """A slice of columns gives just these, of just these rows."""
    part = place(tmp_path, values()).part(1, 4)
    assert np.array_equal(part.load(slice(2, 4)), values()[1:4, 2:4])


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[9] ^= 4
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def replace_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [cut, flip, empty, Path.unlink, replace_by_a_folder])
def test_damaged_rows_are_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Stored rows that are not whole are an error that names them and the remedy, never numbers."""
    group = zarr.open_group(tmp_path, mode="w")
    write_array(group, "rows", values(), dimensions=("row", "column"), chunk_rows=6)
    rows = ZarrRows.whole(group["rows"])  # type: ignore[arg-type]
    damage(tmp_path / "rows" / "c" / "0" / "0")
    with pytest.raises(DataError) as caught:
        rows.part(2, 5).load(slice(1, 3))
    message = str(caught.value)
    assert f"rows 2 to 4 in file://{tmp_path}/rows are damaged" in message
    assert "remove the store or fit with --restart" in message
    assert "\n" not in message
    assert np.array_equal(rows.part(6, 12).load(), values()[6:])


def test_a_file_that_was_written_again_is_not_mixed(tmp_path: Path) -> None:
    """Rows of a file that was replaced, cut or removed after it was opened are refused."""
    rows = in_npy(tmp_path, values())
    np.save(tmp_path / "X.npy", np.zeros((12, 5), np.float32))
    os.utime(tmp_path / "X.npy", ns=(0, 1))
    with pytest.raises(DataError, match=r"X.npy: changed since it was opened: it was written again"):
        rows.part(0, 2).load()
    cut(tmp_path / "X.npy")
    with pytest.raises(DataError, match=r"X.npy: changed .* bytes instead of"):
        rows.load()
    (tmp_path / "X.npy").unlink()
    with pytest.raises(DataError, match=r"X.npy: changed .* cannot be opened any more \(No such file"):
        rows.load()


@everywhere
def test_handle_survives_pickling(place: Opener, tmp_path: Path) -> None:
    """A handle that was sent to another process loads the same rows."""
    part = place(tmp_path, values()).part(3, 9)
    sent = pickle.loads(pickle.dumps(part))  # noqa: S301  our own bytes
    assert sent.shape == part.shape
    assert np.array_equal(sent.load(), part.load())


@pytest.mark.parametrize("place", [in_zarr, in_npy])
def test_handle_on_disk_carries_no_values(place: Opener, tmp_path: Path) -> None:
    """What is sent of rows on disk is their address: the same size for any number of rows."""
    large, small = (place(tmp_path / str(n), np.zeros((n, 50))) for n in made_folders(tmp_path, (400, 20)))
    assert abs(len(pickle.dumps(large)) - len(pickle.dumps(small))) < 100


def made_folders(folder: Path, numbers: tuple[int, ...]) -> tuple[int, ...]:
    for n in numbers:
        (folder / str(n)).mkdir()
    return numbers


def test_handle_in_memory_carries_its_own_part_only() -> None:
    """What is sent of rows in memory are the rows of the part, not those of the whole array."""
    part = ArrayRows(np.zeros((10_000, 50))).part(10, 20)
    assert len(pickle.dumps(part)) < 5000


def test_part_in_memory_is_a_view() -> None:
    """Cutting rows in memory copies nothing."""
    X = values()
    part = ArrayRows(X).part(3, 9)
    assert np.shares_memory(part.load(), X)
    assert np.shares_memory(part.load(slice(1, 2)), X)


def test_loaded_rows_of_a_file_outlive_it(tmp_path: Path) -> None:
    """Rows of a file are copied out, so that a later change of the file does not change them."""
    rows = in_npy(tmp_path, values())
    loaded = rows.load()
    np.save(tmp_path / "X.npy", np.zeros((12, 5), np.float32))
    assert np.array_equal(loaded, values())


@pytest.mark.parametrize("place", [in_npy, in_fortran_npy])
def test_many_threads_load_without_reading_the_header_again(
    place: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading evaluates no header, which threads cannot safely do at once in CPython 3.11."""
    rows = place(tmp_path, values(np.float64))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a header was read")

    monkeypatch.setattr(ast, "literal_eval", refuse)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda start: rows.part(start, start + 3).load(), list(range(10)) * 20))
    assert all(np.array_equal(X, values(np.float64)[i % 10 :][:3]) for i, X in enumerate(found))
