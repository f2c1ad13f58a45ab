"""What cannot be opened is refused in one line that says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.source import open_source

X = np.arange(20.0).reshape(10, 2)


def read_all(path: Any, **options: Any) -> None:
    source = open_source(path, **options)
    list(source.blocks(0, source.n_samples))


def refused(kind: type[Exception], match: str, path: Any, **options: Any) -> None:
    with pytest.raises(kind, match=match) as caught:
        read_all(path, **options)
    assert "\n" not in str(caught.value)


def test_missing_paths_and_unknown_kinds(tmp_path: Path) -> None:
    """A path without data, or with data of another kind, is a wrong setting."""
    refused(ConfigError, "no such file or folder", tmp_path / "x.npy")
    (tmp_path / "dangling.npy").symlink_to(tmp_path / "nowhere")
    refused(ConfigError, "no such file or folder", tmp_path / "dangling.npy")
    (tmp_path / "x.parqet").touch()
    refused(ConfigError, r"got '.parqet', did you mean .parquet\?", tmp_path / "x.parqet")
    (tmp_path / "x.tsv").touch()
    refused(ConfigError, r"got '.tsv', expected .npy, .* convert the file", tmp_path / "x.tsv")
    (tmp_path / "x").touch()
    refused(ConfigError, "got 'no extension'", tmp_path / "x")
    refused(ConfigError, "got 'sklearn:digit', did you mean 'digits'", "sklearn:digit")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder.csv" / "a.npy").mkdir()
    refused(DataError, "got a folder, expected npy data", tmp_path / "folder.csv")
    (tmp_path / "flat.zarr").touch()
    refused(DataError, "got a file, expected zarr data", tmp_path / "flat.zarr")
    refused(DataError, "got data of type list", [[1.0]])


@pytest.mark.parametrize("rows", ["", "3", "1:2:3", "a:b", "-:", "1.5:2", ":-"])
def test_what_is_no_slice(rows: str) -> None:
    """Anything but two numbers and a colon is no slice of rows."""
    refused(ConfigError, "expected a slice such as", X, rows=rows)


@pytest.mark.parametrize("rows", ["10:", "5:5", "5:2", ":-10"])
def test_slices_without_rows(rows: str) -> None:
    """A slice that holds no rows is refused with the number of rows."""
    refused(ConfigError, f"{rows!r} holds none of the 10 rows", X, rows=rows)


def test_columns_that_do_not_exist(tmp_path: Path) -> None:
    """A column that is not there is refused with the nearest one that is."""
    pq.write_table(pa.table({"height": [1.0], "name": ["x"]}), tmp_path / "x.parquet")
    refused(
        ConfigError,
        r"no column 'heigth', did you mean 'height'\?",
        tmp_path / "x.parquet",
        columns=["heigth"],
    )
    refused(
        ConfigError, "no column 'zzz', expected one of height, name", tmp_path / "x.parquet", columns=["zzz"]
    )
    refused(ConfigError, "no column 2, expected 0 to 1", X, columns=[2])
    refused(ConfigError, "no column -3, expected 0 to 1", X, columns=[-3])
    refused(ConfigError, "got '1' 2 times", X, columns=[1, "1"])
    refused(ConfigError, "got 'height', expected a list", tmp_path / "x.parquet", columns="height")
    refused(ConfigError, r"got \[\], expected a list", X, columns=[])
    refused(DataError, "column 'name': got text, expected numbers", tmp_path / "x.parquet", columns=["name"])


def test_ambiguous_columns(tmp_path: Path) -> None:
    """Columns that share a name are refused, as is the name; the position of one is not."""
    (tmp_path / "x.csv").write_text("a,a\n1,2\n")
    refused(DataError, "got 2 columns named 'a', expected one; rename the others", tmp_path / "x.csv")
    refused(DataError, "got 2 columns named 'a'", tmp_path / "x.csv", columns=[1, 0])
    refused(ConfigError, "has 2 columns 'a'", tmp_path / "x.csv", columns=["a"])
    assert open_source(tmp_path / "x.csv", columns=[1]).n_features == 1
    schema = pa.schema([("a", pa.float64()), ("a", pa.float64())])
    pq.write_table(pa.table([[1.0], [2.0]], schema=schema), tmp_path / "x.parquet")
    refused(DataError, "got 2 columns named 'a', expected one", tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.arange(3.0), r"shape \(3,\), expected rows and columns; reshape"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array(1.0), r"shape \(\)"),
        (np.zeros((0, 3)), "got 0 rows and 3 columns"),
        (np.zeros((3, 0)), "got 3 rows and 0 columns"),
        (np.zeros((2, 2), complex), "type complex128, expected real numbers"),
        (np.array([["a", "b"]]), "expected real numbers"),
        (np.zeros((2, 2), "M8[s]"), "expected real numbers"),
    ],
)
@pytest.mark.parametrize("place", ["memory", "npy", "zarr"])
def test_arrays_that_are_no_matrix_of_numbers(
    array: np.ndarray[Any, Any], match: str, place: str, tmp_path: Path
) -> None:
    """Other shapes and types than a matrix of real numbers are refused in memory and in files alike."""
    if place == "npy":
        np.save(tmp_path / "x.npy", array)
        refused(DataError, match, tmp_path / "x.npy")
    elif place == "memory":
        refused(DataError, match, array)
    elif array.dtype.kind == "f" and array.size:
        refused(DataError, match, zarr.array(array))


def test_objects(tmp_path: Path) -> None:
    """Python objects are refused, and never unpickled."""
    array = np.array([[1, None]], dtype=object)
    refused(DataError, "type object, expected real numbers", array)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    refused(DataError, "not a whole .npy file of numbers", tmp_path / "x.npy")


def write_npy(path: Path) -> Path:
    np.save(path / "x.npy", X)
    return path / "x.npy"


def write_parquet(path: Path) -> Path:
    pq.write_table(pa.table({"a": X[:, 0]}), path / "x.parquet")
    return path / "x.parquet"


@pytest.mark.parametrize("write", [write_npy, write_parquet])
@pytest.mark.parametrize("damage", ["empty", "cut", "other"])
def test_damaged_files(write: Callable[[Path], Path], damage: str, tmp_path: Path) -> None:
    """A file that is empty, cut short or of another kind than its name says is refused by name."""
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": whole[:-9], "other": b"PK\x03\x04" + bytes(100)}[damage])
    refused(DataError, rf"{re.escape(str(path))}: not a whole", path)


def test_an_archive_is_no_array(tmp_path: Path) -> None:
    """Several arrays in one file are refused."""
    with (tmp_path / "x.npy").open("wb") as file:
        np.savez(file, a=X)
    refused(DataError, "not a whole .npy file", tmp_path / "x.npy")


def test_zarr_without_a_matrix(tmp_path: Path) -> None:
    """A group with no matrix or several, and a folder without metadata, are refused."""
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    refused(DataError, "group with 0 two-dimensional arrays", tmp_path / "x.zarr")
    group.create_array("a", data=X)
    group.create_array("b", data=X)
    refused(DataError, "group with 2 two-dimensional arrays", tmp_path / "x.zarr")
    assert open_source(tmp_path / "x.zarr" / "a").n_samples == 10
    (tmp_path / "y.zarr").mkdir()
    refused(DataError, "not a readable Zarr array", tmp_path / "y.zarr")
    (tmp_path / "x.zarr" / "a" / "zarr.json").write_text("{")
    refused(DataError, "not a readable Zarr array", tmp_path / "x.zarr" / "a")


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    """Where the file carries checksums, a flipped bit is an error that names the rows."""
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(5, 2), compressors=[Crc32cCodec()])
    path = tmp_path / "x.zarr" / "c" / "1" / "0"
    flip(path, 3)
    del array
    refused(DataError, "x.zarr, rows 0 to 9: cannot be read", tmp_path / "x.zarr")
    options = {"write_page_checksum": True, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"a": X[:, 0]}), tmp_path / "x.parquet", **options)
    flip(tmp_path / "x.parquet", 60)
    refused(DataError, "x.parquet, rows 0 to 9: cannot be read", tmp_path / "x.parquet")


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_folders_that_do_not_agree(tmp_path: Path) -> None:
    """Files of a folder must be of one kind, with the same columns of the same kinds."""
    refused(DataError, "got an empty folder", tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,b,c\n1,2,3\n")
    refused(DataError, r"b.csv: .* differ from those of a.csv, got 3, expected 2", tmp_path)
    (tmp_path / "b.csv").write_text("a,d\n1,2\n")
    refused(DataError, "b.csv: .* column 1: got 'd', expected 'b'", tmp_path)
    (tmp_path / "b.csv").write_text("a,b\n1,x\n")
    refused(DataError, "b.csv: .* column 'b': got text, expected numbers", tmp_path)
    (tmp_path / "b.csv").write_text("")
    refused(DataError, "b.csv: got 0 rows", tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "b.npy")
    refused(DataError, "got a.csv and b.npy, expected files of one kind", tmp_path)
