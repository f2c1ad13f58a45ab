"""Data are read as they were when they were opened, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.stages.sweep import sweep
from kpca_stream.storage.source import Source, open_source
from tests.tables import WRITERS, Writer, write_zarr

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((300, 4))

every_kind = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
LATER = 10**9


def read(source: Source) -> Array:
    return np.concatenate(list(source.blocks(0, source.n_samples)))


def made_older(path: Path) -> Path:
    """Times of files are told apart only some milliseconds later."""
    for entry in [path, *path.rglob("*")]:
        status = entry.stat()
        os.utime(entry, ns=(status.st_atime_ns, status.st_mtime_ns - LATER))
    return path


def replace_content(path: Path, write: Writer, rows: Array) -> None:
    """Write into the file that is there, as a program may that does not ask who reads it."""
    if path.is_dir():
        write(path.parent, rows)
        return
    (path.parent / "other").mkdir()
    path.write_bytes(write(path.parent / "other", rows).read_bytes())


def refused(source: Source, path: Path, how: str = "") -> None:
    with pytest.raises(DataError) as caught:
        read(source)
    assert str(caught.value).startswith(f"{path}: changed since it was opened: it {how}")
    assert "start again" in str(caught.value)
    assert "\n" not in str(caught.value)


@every_kind
@pytest.mark.parametrize("rows", [X[:200], -X, np.concatenate([X, X])], ids=["shrunk", "rewritten", "grown"])
def test_rows_that_were_written_again(write: Writer, rows: Array, tmp_path: Path) -> None:
    """A file that shrank, grew or was rewritten since it was opened is refused by name, before any row."""
    path = made_older(write(tmp_path, X))
    source = open_source(path)
    identity = source.parts()[0].identity
    np.testing.assert_array_equal(read(source), X)
    write(tmp_path, rows)
    refused(source, path)
    np.testing.assert_array_equal(read(open_source(path)), rows)
    assert open_source(path).parts()[0].identity != identity


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "zarr"])
def test_a_file_that_grows_at_its_end(kind: str, tmp_path: Path) -> None:
    """Bytes that a file gets after it was opened are noticed, whatever they are."""
    path = WRITERS[kind](tmp_path, X)
    source = open_source(path)
    with path.open("ab") as file:
        file.write(b"1,2,3,4\n")
    refused(source, path, f"has {path.stat().st_size} bytes instead of {path.stat().st_size - 8}")


@every_kind
def test_a_file_that_is_removed(write: Writer, tmp_path: Path) -> None:
    """Data that are gone when they are read are an error by name, never zeros."""
    path = write(tmp_path, X)
    source = open_source(path)
    path.rename(tmp_path / "elsewhere")
    refused(source, path)


@every_kind
def test_a_change_between_two_blocks(write: Writer, tmp_path: Path) -> None:
    """A file that changes while it is read ends the reading with no further row."""
    tall = np.random.default_rng(1).standard_normal((140_000, 4))
    path = made_older(write(tmp_path, tall))
    source = open_source(path)
    blocks = source.blocks(0, source.n_samples)
    next(blocks)
    replace_content(path, write, tall[:1000])
    with pytest.raises(DataError, match="changed since it was opened"):
        list(blocks)


@every_kind
def test_a_growing_folder_is_taken_as_it_is_at_the_start(write: Writer, tmp_path: Path) -> None:
    """Files that appear after the opening are not seen, and one that changes is named."""
    folder = tmp_path / "folder"
    folder.mkdir()
    first = write(tmp_path, X)
    end = first.suffix
    made_older(first).rename(folder / f"b{end}")
    source = open_source(folder)
    for name in ("a", "c"):
        write(tmp_path, -X).rename(folder / f"{name}{end}")
    np.testing.assert_array_equal(read(source), X)
    assert [part.name for part in source.parts()] == [f"b{end}"]
    np.testing.assert_array_equal(read(open_source(folder)), np.concatenate([-X, X, -X]))
    moved = write(tmp_path, 2 * X)
    (folder / f"b{end}").rename(tmp_path / "old")
    moved.rename(folder / f"b{end}")
    refused(source, folder / f"b{end}")


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_rows_used_in_place_must_stay(kind: str, tmp_path: Path) -> None:
    """Rows that were swept and are used where they lie are refused once they changed."""
    path = made_older(WRITERS[kind](tmp_path, X))
    rows = sweep(open_source(path), seed=0, store=zarr.open_group(tmp_path / "store", mode="w")).rows
    np.testing.assert_array_equal(rows.part(10, 20).load(), X[10:20])
    WRITERS[kind](tmp_path, -X)
    with pytest.raises(DataError, match=f"x.{kind}: changed since it was opened"):
        rows.part(10, 20).load()


def write_v2(path: Path) -> zarr.Array[Any]:
    return zarr.create_array(path, data=X, chunks=(50, 2), zarr_format=2)


def write_v2_nested(path: Path) -> zarr.Array[Any]:
    encoding: Any = {"name": "v2", "separator": "/"}
    return zarr.create_array(path, data=X, chunks=(50, 2), zarr_format=2, chunk_key_encoding=encoding)


def write_v3(path: Path) -> zarr.Array[Any]:
    return zarr.create_array(path, data=X, chunks=(50, 2))


def write_v3_flat(path: Path) -> zarr.Array[Any]:
    encoding: Any = {"name": "default", "separator": "."}
    return zarr.create_array(path, data=X, chunks=(50, 2), chunk_key_encoding=encoding)


def write_shards(path: Path) -> zarr.Array[Any]:
    return zarr.create_array(path, data=X, chunks=(50, 2), shards=(100, 4))


@pytest.mark.parametrize("write", [write_v2, write_v2_nested, write_v3, write_v3_flat, write_shards])
def test_one_value_written_into_a_zarr_array(
    write: Callable[[Path], zarr.Array[Any]], tmp_path: Path
) -> None:
    """A chunk that is written in place changes the identity of the array and is noticed at reading."""
    path = tmp_path / "x.zarr"
    array = write(path)
    made_older(path)
    source = open_source(path)
    assert open_source(path).parts() == source.parts()
    np.testing.assert_array_equal(read(source), X)
    array[120, 3] = 7.0
    assert open_source(path).parts()[0].identity != source.parts()[0].identity
    with pytest.raises(DataError, match="changed since it was opened"):
        list(source.blocks(110, 130))


def test_a_chunk_that_is_removed(tmp_path: Path) -> None:
    """A chunk of a Zarr array that is deleted after the opening is not read as zeros."""
    path = made_older(write_zarr(tmp_path, np.concatenate([X] * 20)))
    source = open_source(path)
    (path / "c" / "1" / "0").unlink()
    refused(source, path, "was written again")


def test_changes_elsewhere_in_a_zarr_array(tmp_path: Path) -> None:
    """Only chunks that hold the rows asked for are looked at, so that reading some costs no look at all."""
    path = made_older(write_zarr(tmp_path, np.concatenate([X] * 20)))
    source = open_source(path)
    zarr.open_array(path)[5_000] = 0.0
    np.testing.assert_array_equal(np.concatenate(list(source.blocks(0, 300))), X)
    with pytest.raises(DataError, match="changed"):
        list(source.blocks(4_990, 5_010))


def test_arrays_outside_folders_have_no_time() -> None:
    """A Zarr array in memory is read as it is."""
    array = zarr.array(X)
    source = open_source(array)
    assert source.parts()[0].identity.count(":") >= 3
    np.testing.assert_array_equal(read(source), X)
