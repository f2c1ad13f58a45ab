"""One writer for each kind of file that rows are read from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

Array = NDArray[Any]
Writer = Callable[[Path, Array], Path]


def as_table(X: Array) -> pa.Table:
    return pa.table({str(j): X[:, j] for j in range(X.shape[1])})


def write_npy(folder: Path, X: Array) -> Path:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def write_zarr(folder: Path, X: Array) -> Path:
    zarr.create_array(folder / "x.zarr", data=X, chunks=(min(len(X), 2048), X.shape[1]), overwrite=True)
    return folder / "x.zarr"


def write_parquet(folder: Path, X: Array) -> Path:
    pq.write_table(as_table(X), folder / "x.parquet", row_group_size=30_000, write_page_checksum=True)
    return folder / "x.parquet"


def write_csv(folder: Path, X: Array) -> Path:
    pacsv.write_csv(as_table(X), folder / "x.csv")
    return folder / "x.csv"


def write_arrow(folder: Path, X: Array) -> Path:
    pa.feather.write_feather(as_table(X), folder / "x.arrow", compression="uncompressed", chunksize=len(X))
    return folder / "x.arrow"


def write_feather(folder: Path, X: Array) -> Path:
    pa.feather.write_feather(as_table(X), folder / "x.feather", compression="zstd", chunksize=30_000)
    return folder / "x.feather"


def write_hdf5(folder: Path, X: Array) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        chunks = min(len(X), 2048), X.shape[1]
        file.create_dataset("group/x", data=X, chunks=chunks, compression="gzip", fletcher32=True)
        file["weights"] = X[:, 0]
    return folder / "x.h5"


def place_of(name: str, row: int) -> str:
    """How messages name a row of a file: with its line, where it is text under one line of names."""
    return f"{name}, row {row}" + (f" (line {row + 2})" if name.endswith(".csv") else "")


WRITERS: dict[str, Writer] = {
    "npy": write_npy,
    "zarr": write_zarr,
    "parquet": write_parquet,
    "csv": write_csv,
    "arrow": write_arrow,
    "feather": write_feather,
    "hdf5": write_hdf5,
}
