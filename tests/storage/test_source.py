"""The same rows from every kind of file."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.storage.rows import NpyRows, ZarrRows
from kpca_stream.storage.source import BLOCK_BYTES, Source, open_source
from tests.tables import write_arrow, write_feather, write_hdf5

Array = NDArray[Any]
NAMES = ["a", "b", "c", "d"]


def as_table(X: Array) -> pa.Table:
    return pa.table({name: X[:, j] for j, name in enumerate(NAMES)})


def write_npy(path: Path, X: Array) -> Path:
    np.save(path / "x.npy", X)
    return path / "x.npy"


def write_npy_by_columns(path: Path, X: Array) -> Path:
    return write_npy(path, np.asfortranarray(X))


def write_zarr(path: Path, X: Array) -> Path:
    zarr.create_array(path / "x.zarr", data=X, chunks=(7_000, 3))
    return path / "x.zarr"


def write_zarr_group(path: Path, X: Array) -> Path:
    group = zarr.open_group(path / "x.zarr", mode="w")
    group.create_array("x", data=X, chunks=(100_000, 4), shards=None)
    group.create_array("weights", data=X[:, 0])
    return path / "x.zarr"


def write_parquet(path: Path, X: Array) -> Path:
    pq.write_table(as_table(X), path / "x.parquet", row_group_size=30_001, write_page_checksum=True)
    return path / "x.parquet"


def write_csv(path: Path, X: Array) -> Path:
    pacsv.write_csv(as_table(X), path / "x.csv")
    return path / "x.csv"


def write_contiguous_hdf5(path: Path, X: Array) -> Path:
    with h5py.File(path / "x.hdf5", "w") as file:
        file["x"] = X
    return path / "x.hdf5"


def write_hdf5_of_wide_chunks(path: Path, X: Array) -> str:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("a", data=X, chunks=(min(len(X), 100_000), 3))
        file.create_dataset("b", data=-X)
    return f"{path / 'x.h5'}::a"


def write_hdf5_folder(path: Path, X: Array) -> Path:
    for index, part in enumerate(np.array_split(X, 3)):
        write_hdf5(path, part).rename(path / f"{index}.{'hdf5' if index else 'h5'}")
    return path


def write_folder(path: Path, X: Array) -> Path:
    folder = path / "parts"
    folder.mkdir()
    for index, (start, stop) in enumerate([(0, 66_000), (66_000, 66_001), (66_001, len(X))]):
        pq.write_table(as_table(X[start:stop]), folder / f"part-{index}.parquet")
    (folder / "part-3.parquet.tmp").write_bytes(b"unfinished")
    (folder / ".hidden").write_bytes(b"")
    return folder


def in_memory(_path: Path, X: Array) -> Array:
    return X


WRITERS: list[Callable[[Path, Array], Any]] = [
    write_npy,
    write_npy_by_columns,
    write_zarr,
    write_zarr_group,
    write_parquet,
    write_csv,
    write_arrow,
    write_feather,
    write_hdf5,
    write_contiguous_hdf5,
    write_hdf5_of_wide_chunks,
    write_hdf5_folder,
    write_folder,
    in_memory,
]


@pytest.fixture(scope="module", name="X")
def all_rows() -> Array:
    return np.random.default_rng(0).standard_normal((140_000, 4))


def values(source: Source, start: int = 0, stop: int | None = None) -> Array:
    return np.concatenate(list(source.blocks(start, source.n_samples if stop is None else stop)))


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_rows(
    write: Callable[[Path, Array], Any], tmp_path: Path, X: Array
) -> None:
    """Rows, slices of rows and chosen columns are the same to the bit in every format."""
    path = write(tmp_path, X)
    source = open_source(path)
    np.testing.assert_array_equal(values(source), X)
    np.testing.assert_array_equal(values(source, 65_530, 131_080), X[65_530:131_080])
    cut = open_source(path, rows="-100000:-17", columns=[3, 1])
    np.testing.assert_array_equal(values(cut), X[-100_000:-17][:, [3, 1]])
    np.testing.assert_array_equal(values(cut, 40_000, 40_001), X[80_000:80_001][:, [3, 1]])


@pytest.mark.parametrize("write", WRITERS)
def test_a_pickled_part_reads_the_same_rows(
    write: Callable[[Path, Array], Any], tmp_path: Path, X: Array
) -> None:
    """A source that was cut and pickled gives the same rows and names them alike."""
    source = open_source(write(tmp_path, X), rows="10:")
    part: Source = pickle.loads(pickle.dumps(source.part(65_990, 70_000)))  # noqa: S301 - the test's own bytes
    np.testing.assert_array_equal(values(part), X[66_000:70_010])
    assert part.locate(3) == source.locate(65_993)
    assert part.columns == source.columns


@pytest.mark.parametrize("write", WRITERS)
def test_blocks_are_bounded(write: Callable[[Path, Array], Any], tmp_path: Path, X: Array) -> None:
    """Blocks are C-contiguous, of one type, of one height but for the last, and of bounded size."""
    source = open_source(write(tmp_path, X), columns=[0, 2])
    blocks = list(source.blocks(0, source.n_samples))
    assert len({len(block) for block in blocks[:-1]}) == 1
    for block in blocks:
        assert block.flags.c_contiguous
        assert block.dtype == source.dtype
        assert block.nbytes <= BLOCK_BYTES


def test_a_parts_pickle_holds_only_its_rows(X: Array) -> None:
    """Of rows in memory no more are pickled than the part has."""
    assert len(pickle.dumps(open_source(X).part(100, 200))) < 2 * X[100:200].nbytes


@pytest.mark.parametrize(
    ("dtype", "cast"),
    [
        ("bool", "float32"),
        ("int8", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("uint16", "float32"),
        ("float16", "float32"),
        ("float32", "float32"),
        (">f4", "float32"),
        ("int32", "float64"),
        ("uint32", "float64"),
        ("int64", "float64"),
        ("uint64", "float64"),
        ("float64", "float64"),
    ],
)
def test_numbers_are_cast_without_loss(dtype: str, cast: str, tmp_path: Path) -> None:
    """Blocks are float32 where that holds every value, else float64, and the old type is remembered."""
    X = np.array([[0, 1], [1, 0]]).astype(dtype)
    if dtype != "bool":
        info = np.finfo(dtype) if X.dtype.kind == "f" else np.iinfo(dtype)
        X[0, 0] = info.max
    for path in (X, write_npy(tmp_path, X)):
        source = open_source(path)
        assert source.dtype == cast
        assert source.original_dtype == np.dtype(dtype).newbyteorder("=")
        np.testing.assert_array_equal(values(source), X.astype(cast))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("x.parquet", pq.write_table),
        ("x.feather", pa.feather.write_feather),
        ("x.arrow", partial(pa.feather.write_feather, compression="uncompressed")),
    ],
)
def test_columns_of_many_types(name: str, write: Callable[..., None], tmp_path: Path) -> None:
    """Nulls become NaN, every kind of number is read, and text and dates are left out by default."""
    table = pa.table(
        {
            "text": ["x", "y", None],
            "whole": pa.array([1, None, 3], pa.int64()),
            "flag": pa.array([True, None, False]),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
            "price": pa.array([1, 2, None]).cast(pa.decimal128(30, 2)),
            "day": pa.array([0, 1, 2], pa.date32()),
            "nothing": pa.nulls(3),
            "big": pa.array([2**63 - 1, 0, 1], pa.int64()),
        }
    )
    write(table, tmp_path / name)
    source = open_source(tmp_path / name)
    nan = np.nan
    assert source.columns == ("whole", "flag", "half", "price", "nothing", "big")
    expected = [[1, 1, 1, 1, nan, 2.0**63], [nan, nan, 2, 2, nan, 0], [3, 0, 3, nan, nan, 1]]
    np.testing.assert_array_equal(values(source), expected)
    assert open_source(tmp_path / name, columns=["half", "flag"]).dtype == np.float32


def test_columns_by_name_or_position(X: Array, tmp_path: Path) -> None:
    """Names and positions mean the same columns, and come in the order that was asked for."""
    path = write_parquet(tmp_path, X[:10])
    choices: list[list[str | int]] = [["d", "b"], [3, 1], ["d", 1], [-1, "b"]]
    for columns in choices:
        source = open_source(path, columns=columns)
        assert source.columns == ("d", "b")
        np.testing.assert_array_equal(values(source), X[:10, [3, 1]])
    assert open_source(X, columns=["3", 1]).columns == ("3", "1")


@pytest.mark.parametrize("rows", [":", "0:1", "3:", ":-3", "-4:-1", " 2 : 5 ", "8:100", "-100:2"])
def test_row_slices_mean_what_they_mean_in_python(rows: str) -> None:
    """A slice of rows is Python's."""
    X = np.arange(20.0).reshape(10, 2)
    start, stop = (int(side) if side.strip() else None for side in rows.split(":"))
    np.testing.assert_array_equal(values(open_source(X, rows=rows)), X[start:stop])


def test_rows_that_can_be_used_in_place(X: Array, tmp_path: Path) -> None:
    """Whole rows of floats in npy and Zarr have an address, also when cut; all others have none."""
    npy, group = (
        open_source(write_npy(tmp_path, X), rows="5:99").rows(),
        open_source(write_zarr(tmp_path, X)).rows(),
    )
    assert isinstance(npy, NpyRows)
    assert isinstance(group, ZarrRows)
    np.testing.assert_array_equal(npy.load(), X[5:99])
    np.testing.assert_array_equal(group.part(3, 9).load(), X[3:9])
    assert open_source(write_npy(tmp_path, X), columns=[1, 0]).rows() is None
    assert open_source(write_npy(tmp_path, X.astype(np.int32))).rows() is None
    assert open_source(write_npy_by_columns(tmp_path, X)).rows() is None
    assert open_source(write_csv(tmp_path, X)).rows() is None


def test_arrays_in_memory_are_not_copied() -> None:
    """Contiguous floats in memory are used as they are, blocks and rows alike."""
    X = np.ones((10, 3))
    source = open_source(X)
    assert all(np.shares_memory(block, X) for block in source.blocks(0, 10))
    rows = source.rows()
    assert rows is not None
    assert np.shares_memory(rows.load(), X)
    assert open_source(np.asfortranarray(X)).rows() is None


def test_sets_that_come_with_scikit_learn() -> None:
    """A built-in set has its rows, its names, and takes slices."""
    digits = open_source("sklearn:digits", rows="1437:")
    assert (digits.n_samples, digits.n_features) == (360, 64)
    assert digits.locate(0) == "sklearn:digits, row 1437"
    assert open_source("sklearn:iris").columns[0] == "sepal length (cm)"


def test_parts_of_a_file() -> None:
    """Parts cover all rows in order, `part_rows` at a time, and are named by their rows."""
    parts = open_source("sklearn:digits", rows="1437:").parts(100)
    assert [(part.start, part.stop) for part in parts] == [(0, 100), (100, 200), (200, 300), (300, 360)]
    assert parts[0].name == "sklearn:digits, rows 1437 to 1536"
    assert len({part.identity for part in parts}) == 4


def test_parts_of_a_folder_are_its_files(X: Array, tmp_path: Path) -> None:
    """No part reaches over two files, and a slice leaves out the files that it does not touch."""
    folder = write_folder(tmp_path, X)
    assert [part.name for part in open_source(folder).parts()] == [f"part-{i}.parquet" for i in range(3)]
    cut = open_source(folder, rows="65999:66002").parts(60_000)
    assert [(part.start, part.stop) for part in cut] == [(0, 1), (1, 2), (2, 3)]
    assert cut[2].name == "part-2.parquet, rows 0 to 0"


def test_datasets_of_one_file_are_told_apart(X: Array, tmp_path: Path) -> None:
    """A dataset that was chosen by name has it in its own name, its parts' and its rows'."""
    chosen = write_hdf5_of_wide_chunks(tmp_path, X[:5])
    source = open_source(chosen)
    assert source.name == chosen
    assert source.locate(3) == "x.h5::a, row 3"
    other = open_source(chosen.removesuffix("a") + "b")
    np.testing.assert_array_equal(values(other), -X[:5])
    assert other.parts()[0].identity != source.parts()[0].identity
    folder = open_source(f"{tmp_path}::b")
    np.testing.assert_array_equal(values(folder), -X[:5])
    assert folder.locate(3) == "x.h5::b, row 3"


def test_a_parts_identity_changes_with_the_file(X: Array, tmp_path: Path) -> None:
    """The identity of a part stays when nothing happens, and changes with size or time of the file."""
    path = write_csv(tmp_path, X[:5])
    first = open_source(path).parts()
    assert open_source(path).parts() == first
    os.utime(path, ns=(0, 0))
    assert open_source(path).parts()[0].identity != first[0].identity


def test_rows_are_named_by_file(X: Array, tmp_path: Path) -> None:
    """A row's name holds its file and its place there."""
    source = open_source(write_folder(tmp_path, X), rows="1:")
    assert source.locate(0) == "part-0.parquet, row 1"
    assert source.locate(65_999) == "part-1.parquet, row 0"
    assert source.locate(66_001) == "part-2.parquet, row 1"


def test_wide_rows_are_read_one_by_one(tmp_path: Path) -> None:
    """A row that alone passes the size of a block is a block."""
    X = np.random.default_rng(1).standard_normal((3, BLOCK_BYTES // 8 + 1)).astype(np.float32)
    source = open_source(write_npy(tmp_path, X))
    assert [len(block) for block in source.blocks(0, 3)] == [1, 1, 1]
    np.testing.assert_array_equal(values(source), X)
