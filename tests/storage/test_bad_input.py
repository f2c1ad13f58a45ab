"""Every fault of the data, in every kind of file, is one line: where, what, what was expected, the remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from kpca_stream.errors import ConfigError, DataError, KpcaStreamError
from kpca_stream.stages.sweep import sweep
from kpca_stream.storage.source import open_source
from tests import faults
from tests.tables import WRITERS, place_of

Array = NDArray[Any]
X = np.arange(60.0).reshape(20, 3)


def message_of(path: Any, store: zarr.Group, **options: Any) -> tuple[type[KpcaStreamError], str]:
    """The error of a whole look at the rows, after which nothing half-written lies in the store."""
    with pytest.raises(KpcaStreamError) as caught:
        sweep(open_source(path, **options), seed=0, store=store, claimed=lambda fingerprint: None)
    assert list(store) == []
    return type(caught.value), str(caught.value)


def tell_all(kind: type[KpcaStreamError], parts: tuple[str, ...], got: tuple[type, str]) -> None:
    error, message = got
    assert error is kind
    for part in parts:
        assert part in message
    assert "\n" not in message


@pytest.fixture
def store(tmp_path: Path) -> zarr.Group:
    return zarr.open_group(tmp_path / "store", mode="w")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number(kind: str, value: float, tmp_path: Path, store: zarr.Group) -> None:
    """NaN and infinity are named by file, row and column, in every kind of file."""
    bad = X.copy()
    bad[17, 1] = value
    path = WRITERS[kind](tmp_path, bad)
    name = f"{place_of(path.name, 17)}, column '1': got {value}"
    tell_all(DataError, (str(path), name, "finite number", faults.REPAIR), message_of(path, store))
    other = tmp_path / "folder"
    other.mkdir()
    WRITERS[kind](tmp_path, X).rename(other / f"a{path.suffix}")
    WRITERS[kind](tmp_path, bad).rename(other / f"b{path.suffix}")
    name = f"{place_of(f'b{path.suffix}', 17)}, column '1': got {value}"
    tell_all(DataError, (str(other), name, faults.REPAIR), message_of(other, store))


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "feather"])
def test_a_missing_value(kind: str, tmp_path: Path, store: zarr.Group) -> None:
    """A null, or an empty field, counts as missing and is named alike."""
    table = pa.table({"a": [1, 2, 3, 4], "b": [1.5, None, 3.5, 4.5]})
    path = tmp_path / f"x.{kind}"
    if kind == "csv":
        path.write_text("a,b\n1,1.5\n2,\n3,3.5\n4,4.5\n")
    else:
        (pq.write_table if kind == "parquet" else pa.feather.write_feather)(table, path)
    tell_all(
        DataError, (f"{place_of(path.name, 1)}, column 'b': got nan", faults.REPAIR), message_of(path, store)
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "csv"])
@pytest.mark.parametrize("columns", [["a", "word"], None])
def test_columns_of_text(
    kind: str, columns: list[str | int] | None, tmp_path: Path, store: zarr.Group
) -> None:
    """Text that was asked for is named by column; where there is nothing else, that is said."""
    cells = {"word": ["x", "y"]} if columns is None else {"a": [1, 2], "word": ["x", "y"]}
    path = tmp_path / f"x.{kind}"
    if kind == "csv":
        lines = [",".join(map(str, row)) for row in [cells, *zip(*cells.values(), strict=True)]]
        path.write_text("\n".join(lines))
    else:
        (pq.write_table if kind == "parquet" else pa.feather.write_feather)(pa.table(cells), path)
    parts = ("only columns of text", "expected some of numbers", "convert them")
    if columns is not None:
        parts = ("column 'word': got text", "expected numbers", "leave it out of data.columns or convert it")
    tell_all(DataError, (str(path), *parts), message_of(path, store, columns=columns))


@pytest.mark.parametrize("kind", WRITERS)
def test_columns_that_are_not_there(kind: str, tmp_path: Path, store: zarr.Group) -> None:
    """A column that no file has is named, with those that there are."""
    path = WRITERS[kind](tmp_path, X)
    parts = (f"columns: {path} has no column '7'", "expected one of 0, 1, 2")
    tell_all(ConfigError, parts, message_of(path, store, columns=["7"]))
    parts = (f"columns: {path} has no column 7", "expected 0 to 2")
    tell_all(ConfigError, parts, message_of(path, store, columns=[7]))


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_are_empty_cut_or_something_else(kind: str, tmp_path: Path, store: zarr.Group) -> None:
    """No bytes, half of the bytes, or a picture under this name, is refused by the file's name."""
    path = WRITERS[kind](tmp_path, X)
    if path.is_dir():
        path = path / "zarr.json"
    whole = path.read_bytes()
    faults = {
        "empty": b"",
        "other": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "cut": whole[: len(whole) // 2],
    }
    if kind == "csv":
        faults["cut"] = whole[: whole.rfind(b",")]
    for content in faults.values():
        path.write_bytes(content)
        named = path.parent if kind == "zarr" else path
        error, message = message_of(named, store)
        assert error is DataError
        assert path.name in message or str(named) in message
        assert any(word in message for word in ("write it again", "expected", "name the array", "convert"))
        assert "\n" not in message


@pytest.mark.parametrize("kind", WRITERS)
def test_a_folder_where_a_file_is_meant(kind: str, tmp_path: Path, store: zarr.Group) -> None:
    """A folder inside a folder of files, and a file where a Zarr folder is meant, is called that."""
    folder = tmp_path / "parts"
    folder.mkdir()
    inner = folder / WRITERS[kind](tmp_path, X).name
    inner.touch() if kind == "zarr" else inner.mkdir()
    found = "file" if kind == "zarr" else "folder"
    parts = (f"{inner}: got a {found}", f"expected {kind if kind != 'feather' else 'arrow'} data there")
    tell_all(DataError, parts, message_of(folder, store))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_pipe_or_a_dangling_link(kind: str, tmp_path: Path, store: zarr.Group) -> None:
    """What is neither file nor folder is not waited for."""
    path = tmp_path / WRITERS[kind](tmp_path, X).name
    path = path.with_stem("y")
    os.mkfifo(path)
    tell_all(DataError, (f"{path}: got a thing that is neither",), message_of(path, store))
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    parts = (f"{path}: no such file or folder", "correct the path")
    tell_all(ConfigError, parts, message_of(path, store))


@pytest.mark.parametrize(
    ("make", "kind", "parts"), faults.TABLE, ids=[row[0].__name__ for row in faults.TABLE]
)
def test_what_is_wrong_is_said(
    make: faults.Maker, kind: type[KpcaStreamError], parts: tuple[str, ...], tmp_path: Path, store: zarr.Group
) -> None:
    """The line names the file, and where there are some the row and the column; and what to do."""
    tell_all(kind, parts, message_of(make(tmp_path), store))


@pytest.mark.parametrize("codec", [GzipCodec(), ZstdCodec(), BloscCodec(), Crc32cCodec()])
def test_cut_chunks_of_any_codec(codec: Any, tmp_path: Path, store: zarr.Group) -> None:
    """A chunk that was cut short is an error that names the rows, whatever packed it."""
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(20, 3), compressors=[codec])
    del array
    chunk = tmp_path / "x.zarr" / "c" / "0" / "0"
    for n_bytes in (chunk.stat().st_size - 1, 30, 5, 1, 0):
        chunk.write_bytes(chunk.read_bytes()[:n_bytes])
        tell_all(DataError, ("x.zarr, rows 0 to 19: cannot",), message_of(tmp_path / "x.zarr", store))


@pytest.mark.parametrize("codec", [numcodecs.Zlib(), numcodecs.BZ2(), numcodecs.LZMA(), numcodecs.LZ4()])
def test_cut_chunks_of_version_2(codec: Any, tmp_path: Path, store: zarr.Group) -> None:
    """The same for the codecs of Zarr's version 2."""
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(20, 3), compressors=[codec], zarr_format=2)
    chunk = tmp_path / "x.zarr" / "0.0"
    for n_bytes in (chunk.stat().st_size - 1, 30, 5, 0):
        chunk.write_bytes(chunk.read_bytes()[:n_bytes])
        tell_all(DataError, ("x.zarr, rows 0 to 19: cannot",), message_of(tmp_path / "x.zarr", store))


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("nowhere/x.npy", ("no such file or folder", "correct the path")),
        ("x" * 300 + ".npy", ("cannot be opened (File name too long)", "correct the path")),
        ("x\0.npy", ("no such file or folder",)),
        ("x.h5::", ("no such file or folder",)),
        ("x.xlsx", ("no such file or folder",)),
        ("", ("unknown kind of file",)),
    ],
)
def test_paths_that_lead_nowhere(
    path: str, parts: tuple[str, ...], tmp_path: Path, store: zarr.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that cannot be one, or has nothing at its end, is a wrong setting."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "x").touch()
    monkeypatch.chdir(tmp_path / "empty")
    tell_all(ConfigError, parts, message_of(path, store))


def test_hdf5_without_its_extra(tmp_path: Path, store: zarr.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where h5py is not installed, the error names the extra that brings it."""
    path = WRITERS["hdf5"](tmp_path, X)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    tell_all(ConfigError, (str(path), "h5py", "pip install 'kpca-stream[hdf5]'"), message_of(path, store))


def test_values_that_are_damaged_after_the_sweep(tmp_path: Path, store: zarr.Group) -> None:
    """Rows that a fit wrote and that were damaged since are named with their store and the remedy."""
    rows = sweep(open_source(WRITERS["csv"](tmp_path, X)), seed=0, store=store).rows
    chunk = tmp_path / "store" / "rows" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(DataError) as caught:
        rows.load()
    parts = (f"{tmp_path}/store/rows are damaged", "remove the store or fit with --restart")
    tell_all(DataError, parts, (type(caught.value), str(caught.value)))
    chunk.unlink()
    with pytest.raises(DataError, match="a chunk is missing"):
        rows.load()
