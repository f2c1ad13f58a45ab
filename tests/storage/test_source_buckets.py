"""Rows of each kind of file in a bucket, against the same file on disk."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import zarr
from buckets import Buckets
from pyarrow import feather

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage import objects
from kpca_stream.storage.located import zarr_store
from kpca_stream.storage.object_stamp import ObjectFile, ObjectStamp
from kpca_stream.storage.source import Source, open_source
from tests.jobs import ROOT

CHANGED = """
import sys
from kpca_stream.addresses import Address
from kpca_stream.errors import DataError
from kpca_stream.storage import objects
from kpca_stream.storage.source import open_source

source, address = open_source(sys.argv[1]), Address.parse(sys.argv[1])
objects.put(address, objects.get(address).data + b" ")
try:
    next(source.blocks(0, 1))
except DataError as error:
    sys.kept = error
    print("refused")
"""
N_ROWS, N_COLUMNS = 3000, 3
X = np.random.default_rng(0).standard_normal((N_ROWS, N_COLUMNS)).astype(np.float32)


def table() -> pa.Table:
    return pa.table({name: X[:, j] for j, name in enumerate("abc")})


def write_npy(path: Path) -> None:
    np.save(path, X)


def write_columns(path: Path) -> None:
    np.save(path, np.asfortranarray(X))


def write_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("group/x", data=X, chunks=(500, N_COLUMNS))


def write_zarr(path: Path) -> None:
    zarr.create_array(path, data=X, chunks=(700, 2))


WRITERS: dict[str, Callable[[Path], None]] = {
    "x.npy": write_npy,
    "columns.npy": write_columns,
    "x.zarr": write_zarr,
    "x.parquet": lambda path: pq.write_table(table(), path, row_group_size=1000),
    "x.csv": lambda path: pacsv.write_csv(table(), path),
    "x.arrow": lambda path: feather.write_feather(table(), path, compression="uncompressed", chunksize=800),
    "x.feather": lambda path: feather.write_feather(table(), path, compression="lz4", chunksize=800),
    "x.h5": write_hdf5,
}


def send(path: Path, address: Address) -> None:
    """A file, or all of a folder."""
    if path.is_file():
        objects.put(address, path)
    for file in path.rglob("*"):
        if file.is_file():
            objects.put(address / file.relative_to(path).as_posix(), file)


def rows_of(source: Source) -> np.ndarray:
    return np.concatenate(list(source.blocks(0, source.n_samples)))


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_read_as_on_disk(name: str, tmp_path: Path, bucket: str, buckets: Buckets) -> None:
    """Rows, types, columns and names of messages are those of the same file on disk, also after a pickle."""
    WRITERS[name](tmp_path / name)
    root = Address.parse(bucket) / "data"
    send(tmp_path / name, root / name)
    buckets.fail(failing=0.1, seed=5)
    here, there = open_source(tmp_path / name), open_source(str(root / name))
    there = pickle.loads(pickle.dumps(there))  # noqa: S301
    assert np.array_equal(rows_of(here), rows_of(there))
    assert (here.columns, here.dtype, here.locate(7)) == (there.columns, there.dtype, there.locate(7))
    part = open_source(str(root / name), rows="1100:1900", columns=[here.columns[2], here.columns[0]])
    assert np.array_equal(rows_of(part), rows_of(here)[1100:1900, [2, 0]])
    assert there.rows() is None
    carried = there.carried(10, 20, [here.columns[1]])
    assert sum(batch.num_rows for batch in carried) == 10


def test_a_failure_is_told_once(bucket: str) -> None:
    """Of a request that failed a library's error is told as that, and a later one as what it is."""
    address = Address.parse(bucket) / "x"
    objects.put(address, b"123")
    file = ObjectFile(ObjectStamp.of("x", address))
    objects.delete(address)
    with pytest.raises(DataError, match="removed"), file.telling():  # noqa: PT012
        with suppress(DataError):
            file.read(1)
        raise ValueError("cut")
    objects.put(address, b"123")
    with pytest.raises(ValueError, match="cut"), file.telling():  # noqa: PT012
        assert file.read(1) == b"1"
        raise ValueError("cut")


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_written_again_is_refused(name: str, tmp_path: Path, bucket: str) -> None:
    """A file that changed since it was opened is named as changed, and has another identity."""
    WRITERS[name](tmp_path / name)
    address = Address.parse(bucket) / name
    send(tmp_path / name, address)
    source = open_source(str(address))
    again = open_source(str(address))
    assert source.parts() == again.parts()
    X[:] += 1
    try:
        WRITERS[name](tmp_path / f"other-{name}")
    finally:
        X[:] -= 1
    objects.delete_tree(address)
    send(tmp_path / f"other-{name}", address)
    with pytest.raises(DataError, match="changed since it was opened"):
        rows_of(source)
    assert open_source(str(address)).parts()[0].identity != source.parts()[0].identity


def test_a_folder_of_files_is_one_source(tmp_path: Path, bucket: str) -> None:
    """Files below an address are read in the order of their names, without hidden and unfinished ones."""
    pq.write_table(table().slice(0, 1000), tmp_path / "x.parquet")
    root = Address.parse(bucket) / "landing"
    for name in ("b.parquet", "a.parquet", "_log", ".c.parquet", "d.parquet.partial"):
        send(tmp_path / "x.parquet", root / name)
    source = open_source(f"{root}/")
    assert [part.name for part in source.parts()] == ["a.parquet", "b.parquet"]
    assert np.array_equal(rows_of(source), np.concatenate([X[:1000], X[:1000]]))
    send(tmp_path / "x.parquet", root / "e.csv")
    with pytest.raises(DataError, match="files of one kind"):
        open_source(str(root))


@pytest.mark.parametrize("name", ["a b", "é", "a%20b", "a#b", "a+b=c&d", "a[1]", "q?v", "back\\slash", "a:b"])
def test_a_key_may_hold_what_it_wants(name: str, bucket: str, buckets: Buckets) -> None:
    """Objects that another program put are found by their names, also beside a console's mark of a folder."""
    file = io.BytesIO()
    np.save(file, X)
    buckets.put(bucket, f"in/{name}.npy", file.getvalue())
    buckets.put(bucket, "in/", b"")
    source = open_source(f"{bucket}/in")
    assert [part.name for part in source.parts()] == [f"{name}.npy"]
    assert np.array_equal(rows_of(source), X)
    assert open_source(f"{bucket}/in/{name}.npy").n_samples == N_ROWS


@pytest.mark.parametrize(
    "layout",
    [
        {"zarr_format": 2},
        {"shards": (1400, N_COLUMNS)},
        {"chunk_key_encoding": {"name": "default", "separator": "."}},
    ],
)
def test_arrays_of_each_layout_are_watched(layout: dict[str, Any], bucket: str) -> None:
    """Whatever the keys of its chunks, an array of which one was written again is refused."""
    address = Address.parse(bucket) / "x.zarr"
    store = zarr_store(address, read_only=False)
    array = zarr.create_array(
        store, name="x.zarr", shape=X.shape, chunks=(700, N_COLUMNS), dtype="f4", **layout
    )
    array[:] = X
    source = open_source(str(address))
    assert np.array_equal(rows_of(source), X)
    array[2000] = 0
    assert open_source(str(address)).parts() != source.parts()
    with pytest.raises(DataError, match="changed since it was opened"):
        rows_of(source)


def test_a_dataset_is_chosen_in_a_file_in_a_bucket(tmp_path: Path, bucket: str) -> None:
    """What stands behind the address of an HDF5 file chooses one of its datasets."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["b"] = X, X + 1
    address = Address.parse(bucket) / "x.h5"
    send(tmp_path / "x.h5", address)
    assert np.array_equal(rows_of(open_source(f"{address}::b")), X + 1)
    with pytest.raises(DataError, match="expected exactly one"):
        open_source(str(address))


def test_what_is_not_there_is_named(bucket: str) -> None:
    """An address where nothing lies, of a kind that is unknown or in no bucket, is a mistake to correct."""
    with pytest.raises(ConfigError, match=r"nothing\.npy: no such file"):
        open_source(f"{bucket}/nothing.npy")
    objects.put(Address.parse(bucket) / "x.docx", b"1")
    with pytest.raises(ConfigError, match="unknown kind of file"):
        open_source(f"{bucket}/x.docx")
    with pytest.raises(ConfigError, match="there is no bucket"):
        open_source("s3://no-such-bucket/x.npy")
    objects.put(Address.parse(bucket) / "bad.npy", b"not an array")
    with pytest.raises(DataError, match="not a whole"):
        open_source(f"{bucket}/bad.npy")


def test_a_large_file_is_not_read_whole(tmp_path: Path, bucket: str, buckets: Buckets) -> None:
    """To read some rows of a large file, little more than these is fetched."""
    values = np.zeros((2**19, 8), dtype=np.float32)
    values[:, 0] = np.arange(2**19)
    np.save(tmp_path / "x.npy", values)
    address = Address.parse(bucket) / "x.npy"
    send(tmp_path / "x.npy", address)
    source = open_source(str(address))
    buckets.fail()
    assert np.array_equal(next(source.blocks(400_000, 400_100)), values[400_000:400_100])
    assert 0 < buckets.counts()["bytes"] < values.nbytes / 4


def test_a_process_ends_well_after_a_file_that_changed(tmp_path: Path, bucket: str) -> None:
    """An HDF5 file that is written again is an error, and nothing worse when Python ends."""
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["x"] = X
    address = Address.parse(bucket) / "x.hdf5"
    send(tmp_path / "x.hdf5", address)
    done = subprocess.run(
        [sys.executable, "-c", CHANGED, str(address)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
