"""Data with one fault each, written into a folder by a function that returns their path; kernels likewise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from kpca_stream.errors import ConfigError, DataError, KpcaStreamError
from tests.tables import WRITERS

Maker = Callable[[Path], Any]
X = np.arange(60.0).reshape(20, 3)
REPAIR = "repair the data, or leave such rows out (in a configuration: data.on_missing: drop)"

KERNELS = """
import numpy as np

def raises(X, Y):
    return np.linalg.cholesky(X @ X.T - np.eye(len(X)) * 1e9)

def shape(X, Y):
    return X @ X.T if len(X) != len(Y) else (X @ Y.T)[:, :-1]

def nan(X, Y):
    return np.full((len(X), len(Y)), np.nan)

def words(X, Y):
    return np.full((len(X), len(Y)), "a")

def complex(X, Y):
    return 1j * (X @ Y.T)

def rows(X, Y):
    return [[1.0] * len(Y), *[[2.0]] * (len(X) - 1)]
"""


def ragged(path: Path) -> Path:
    path = path / "x.csv"
    path.write_text("a,b\n1,2\n3,4\n5\n")
    return path


def late_text(path: Path) -> Path:
    path = path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 150_000 + "3,four\n")
    return path


def header_only(path: Path) -> Path:
    path = path / "x.csv"
    path.write_text("a,b\n")
    return path


def no_columns(path: Path) -> Path:
    pq.write_table(pa.table({}), path / "x.parquet")
    return path / "x.parquet"


def no_rows(path: Path) -> Path:
    pa.feather.write_feather(pa.table({"a": pa.array([], pa.float64())}), path / "x.arrow")
    return path / "x.arrow"


def feather_of_before(path: Path) -> Path:
    (path / "x.feather").write_bytes(b"FEA1" + bytes(40) + b"FEA1")
    return path / "x.feather"


def stream(path: Path) -> Path:
    table = pa.table({"a": [1.0]})
    with pa.ipc.new_stream(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


def many_datasets(path: Path) -> Path:
    with h5py.File(path / "x.h5", "w") as file:
        file["left"], file["right"] = X, X
    return path / "x.h5"


def no_datasets(path: Path) -> Path:
    with h5py.File(path / "x.h5", "w") as file:
        file["one"] = X[0]
        file["words"] = [["a", "b"]]
        file["cube"] = X.reshape(5, 4, 3)
    return path / "x.h5"


def misspelt_dataset(path: Path) -> str:
    return f"{many_datasets(path)}::lefd"


def missing_link(path: Path) -> str:
    with h5py.File(path / "x.h5", "w") as file:
        file["x"] = X
        file["y"] = h5py.ExternalLink("nowhere.h5", "y")
    return f"{path / 'x.h5'}::y"


def dataset_of_one_dimension(path: Path) -> str:
    return f"{no_datasets(path)}::one"


def dataset_of_words(path: Path) -> str:
    return f"{no_datasets(path)}::words"


def dataset_without_shape(path: Path) -> str:
    with h5py.File(path / "x.h5", "w") as file:
        file["x"] = h5py.Empty("f8")
    return f"{path / 'x.h5'}::x"


def virtual_dataset(path: Path) -> Path:
    layout = h5py.VirtualLayout(shape=(20, 3), dtype="f8")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(20, 3))
    with h5py.File(path / "x.h5", "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=0)
    return path / "x.h5"


def dataset_of_a_csv(path: Path) -> str:
    return f"{WRITERS['csv'](path, X)}::x"


def flipped_hdf5(path: Path) -> Path:
    return flipped(WRITERS["hdf5"](path, np.random.default_rng(0).standard_normal((2048, 8))))


def flipped_parquet(path: Path) -> Path:
    pq.write_table(
        pa.table({"a": np.random.default_rng(0).standard_normal(4096)}),
        path / "x.parquet",
        write_page_checksum=True,
    )
    return flipped(path / "x.parquet")


def flipped(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def cut_chunk(path: Path) -> Path:
    path = WRITERS["zarr"](path, X)
    chunk = path / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    return path


def unwritten_chunks(path: Path) -> Path:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("x", shape=(20, 3), chunks=(5, 2), dtype="f8")[:10] = X[:10]
    return path / "x.h5"


def unwritten_dataset(path: Path) -> Path:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("x", shape=(20, 3), dtype="f8")
    return path / "x.h5"


def long_ragged_line(path: Path) -> Path:
    (path / "x.csv").write_text("a,b\n1,2\n" + "3" * 200_000 + "\n")
    return path / "x.csv"


def header_with_an_open_quote(path: Path) -> Path:
    (path / "x.csv").write_text('a,"b\n' + "1,2\n" * 100)
    return path / "x.csv"


def huge(path: Path) -> Path:
    return WRITERS["npy"](path, np.array([[1.0, 1e300], [0.0, 1.0]]))


def all_missing(path: Path) -> Path:
    return WRITERS["npy"](path, np.full((3, 2), np.nan))


TABLE: list[tuple[Maker, type[KpcaStreamError], tuple[str, ...]]] = [
    (ragged, DataError, ("x.csv, row 2 (line 4): got 1 fields, expected 2; repair the row",)),
    (
        late_text,
        DataError,
        ("x.csv, row 150000 (line 150002), column 'b': got text 'four', expected a number; repair it",),
    ),
    (header_only, DataError, ("x.csv: got 0 rows and 2 columns", "fill it")),
    (no_columns, DataError, ("x.parquet: got 0 rows and 0 columns", "fill it")),
    (no_rows, DataError, ("x.arrow: got 0 rows and 1 columns", "fill it")),
    (
        feather_of_before,
        DataError,
        ("x.feather: not a whole", "Feather file of version 2", "write it again"),
    ),
    (stream, DataError, ("x.arrow: not a whole Arrow IPC file", "write it again")),
    (
        many_datasets,
        DataError,
        ("got 2 two-dimensional", "(left, right)", "exactly one", "x.h5::dataset'"),
    ),
    (
        no_datasets,
        DataError,
        ("x.h5: got 0 two-dimensional datasets of numbers, expected exactly one",),
    ),
    (misspelt_dataset, ConfigError, ("x.h5: the file has no dataset 'lefd', did you mean 'left'?",)),
    (missing_link, ConfigError, ("x.h5: the file has no dataset 'y', expected one of x",)),
    (dataset_of_one_dimension, DataError, ("x.h5::one: got an array of shape (3,)", "reshape")),
    (
        dataset_of_words,
        DataError,
        ("x.h5::words: got values of type object", "real numbers", "convert"),
    ),
    (dataset_without_shape, DataError, ("x.h5::x: got a dataset without a shape", "rows and columns")),
    (virtual_dataset, DataError, ("x.h5: got a dataset whose values lie in other files", "copy it")),
    (dataset_of_a_csv, ConfigError, ("x.csv: got 'x' behind ::", "for HDF5 files only")),
    (flipped_hdf5, DataError, ("x.h5, rows 0 to 2047: cannot be read", "restore the file")),
    (flipped_parquet, DataError, ("x.parquet, rows 0 to 4095: cannot be read", "restore the file")),
    (cut_chunk, DataError, ("x.zarr, rows 0 to 19: cannot be read", "restore these chunks")),
    (
        unwritten_chunks,
        DataError,
        ("x.h5: got a dataset of which 4 of 8 chunks are written", "cut the data"),
    ),
    (unwritten_dataset, DataError, ("x.h5: got a dataset of which 0 of 480 bytes", "write the rest")),
    (long_ragged_line, DataError, ("x.csv, row 1 (line 3): cannot be parsed (field larger", "repair")),
    (
        header_with_an_open_quote,
        DataError,
        ("x.csv: got a quote in the first line that is not closed", "close it"),
    ),
    (huge, DataError, ("x.npy, column '1': got values up to 1e+300", "finite in float64", "rescale")),
    (all_missing, DataError, ("x.npy: 3 rows have missing", "x.npy, row 0, column '0'", REPAIR)),
]
"""Each fault, the kind of its error, and what its message says."""
