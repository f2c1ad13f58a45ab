"""What Python callers hand over as rows: NumPy, pandas, Dask and Zarr arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.storage.layout import create_array
from kpca_stream.storage.source import Source, open_source

Array = NDArray[Any]

CHUNK_ROWS = 2048


def is_out_of_core(X: Any) -> bool:
    """Whether X is a Dask or Zarr array, which is never loaded as a whole."""
    return isinstance(X, da.Array | zarr.Array)


def as_source(X: Any, folder: Callable[[], Path], memory_limit: int) -> Source:
    """The rows of X as a source.

    Parameters
    ----------
    X : ndarray, zarr.Array or dask.array.Array of shape (n, d)
    folder : callable
        Gives a folder to keep the rows of a large Dask array in; called only for one.
    memory_limit : int
        A Dask array of at most a quarter of it is held in memory.
    """
    if not isinstance(X, da.Array):
        return open_source(X)
    if X.ndim != 2:
        raise DataError(f"X: got {X.ndim} dimensions, expected 2 (rows, columns); reshape it")
    if not np.isnan(X.nbytes) and X.nbytes <= memory_limit / 4:
        return open_source(np.ascontiguousarray(X.compute()))
    return open_source(_stored(X, folder()))


def _stored(X: da.Array, folder: Path) -> zarr.Array[Any]:
    """X written block of rows by block of rows; its chunks may be uneven, empty or of unknown size."""
    group = zarr.open_group(folder, mode="w", zarr_format=3)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    shape, chunks = (0, X.shape[1]), (CHUNK_ROWS, X.shape[1])
    array = create_array(group, "rows", shape, chunks, dtype, dimensions=("row", "column"))
    for block in _row_blocks(X):
        n_before = array.shape[0]
        array.resize((n_before + len(block), X.shape[1]))
        array[n_before:] = block
    return array


def _row_blocks(X: da.Array) -> Iterator[Array]:
    blocks = X.rechunk({1: -1}).to_delayed()[:, 0]
    width = passes.n_workers()
    for start in range(0, len(blocks), width):
        yield from dask.compute(*blocks[start : start + width])
