"""Data with one fault each: every function writes them into a folder and returns their path."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from tests.tables import WRITERS

X = np.arange(60.0).reshape(20, 3)


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
