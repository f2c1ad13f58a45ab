"""What Python callers hand over as rows: lists, NumPy, SciPy sparse, pandas, Dask, Zarr and xarray."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.duplicates import Places
from kpca_stream.storage.chunked import create_array
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.arrays import ArrayTable, zarr_table
from kpca_stream.storage.sources.sparse import SparseTable, is_sparse
from kpca_stream.storage.sources.table import Table

Array = NDArray[Any]

CHUNK_ROWS = 2048
IN_MEMORY_SHARE = 0.25
"""Rows that have no address of their own are held in memory where they take no more of its limit."""


class TemporaryFolder:
    """A folder that is removed with the last object that holds this one, or before, when it is told to."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kpca-stream-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def is_out_of_core(X: Any) -> bool:
    """Whether X is a Dask or Zarr array, which is never loaded as a whole."""
    return isinstance(X, da.Array | zarr.Array)


def unwrapped(X: Any) -> Any:
    """What an xarray.DataArray holds: a frame where its columns have names, else its NumPy or Dask array.

    Raises
    ------
    DataError
        For a Dataset.
    """
    if type(X).__module__.partition(".")[0] != "xarray":
        return X
    if not hasattr(X, "dims") or not hasattr(X, "to_pandas") or hasattr(X, "data_vars"):
        raise DataError(f"X: got an xarray.{type(X).__name__}, expected a DataArray; use to_dataarray")
    check_matrix(X)
    columns = X.dims[1]
    has_names = columns in X.coords and X.coords[columns].dtype.kind in "OUT"
    return X.to_pandas() if has_names and not isinstance(X.data, da.Array) else X.data


def as_source(
    X: Any, memory_limit: int, columns: Sequence[str] | None = None
) -> tuple[Source, TemporaryFolder | None]:
    """The rows of X as a source, and the folder that they lie in where they had to be written.

    Parameters
    ----------
    X : ndarray, zarr.Array or dask.array.Array of shape (n, d)
        The chunks of a Dask array may be uneven, empty or of unknown size.
    memory_limit : int
        Rows of a Dask array, or of a Zarr array that must be cast, are held in memory up to a quarter of it.
    columns : sequence of str, optional
        Names of the columns of an array in memory.
    """
    held = IN_MEMORY_SHARE * memory_limit
    if isinstance(X, da.Array):
        check_matrix(X)
        if X.nbytes <= held:  # an unknown size is NaN
            return array_source(np.ascontiguousarray(X.compute())), None
        return _written(_dask_blocks(X), X.shape[1], _float_type(X.dtype))
    if not isinstance(X, zarr.Array):
        return array_source(X, columns), None
    source = array_source(X)
    if source.rows() is not None or source.n_samples * source.n_features * source.dtype.itemsize <= held:
        return source, None
    return _written(source.blocks(0, source.n_samples), source.n_features, source.dtype)


def array_source(X: Any, columns: Sequence[str] | None = None) -> Source:
    """A NumPy or Zarr array, or a sparse matrix in any format, as a source."""
    if isinstance(X, zarr.Array):
        return _whole(zarr_table("X", X))
    if is_sparse(X):
        return _whole(SparseTable.of("X", X))
    return _whole(ArrayTable("X", X, None if columns is None else tuple(columns)))


def _whole(table: Table) -> Source:
    return Source(table, 0, table.n_rows, tuple(range(len(table.columns))))


def own_copy(X: Any) -> Any:
    """The model's own: what the caller does to rows in memory later changes no score."""
    if isinstance(X, np.ndarray):
        return np.array(X, order="C")
    return X.copy() if is_sparse(X) else X


def check_matrix(X: Any) -> None:
    """Refuse an array that is no matrix."""
    if len(X.shape) != 2:
        raise DataError(f"X: got {len(X.shape)} dimensions, expected 2 (rows, columns); reshape it")


def without_zero_weights(
    X: Any, sample_weight: Any, *, square: bool
) -> tuple[Any, Array | None, Array | None]:
    """Rows with their weights, those of weight 0 left out; of a square matrix also their columns.

    Returns
    -------
    X : array of shape (n_kept, n_features)
    weights : ndarray of shape (n_kept,) or None
    kept : ndarray of bool of shape (n,) or None
        Which rows these are; None where all are.
    """
    if sample_weight is None:
        return X, None, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    kept = weights != 0
    is_wrong = weights.shape != (X.shape[0],) or not np.isfinite(weights).all() or (weights < 0).any()
    if is_wrong or kept.all():
        return X, weights, None  # what is wrong with weights is said once the rows are counted
    if not kept.any():
        raise ConfigError("sample_weight: got zeros only, expected some weight > 0")
    rows = da.from_array(X) if isinstance(X, zarr.Array) else X
    rows = rows[kept]
    return rows[:, kept] if square else rows, weights[kept], kept


def places_among(source: Source, distinct: Rows) -> Array:
    """The place of each row of `source` among its `distinct` ones, (n,)."""
    places = Places(distinct.load())
    return np.concatenate([places(block) for block in source.blocks(0, source.n_samples)])


def _written(
    blocks: Iterable[Array], n_features: int, dtype: np.dtype[Any]
) -> tuple[Source, TemporaryFolder]:
    folder = TemporaryFolder()
    group = zarr.open_group(folder.path / "rows.zarr", mode="w", zarr_format=3)
    chunks = (CHUNK_ROWS, n_features)
    array = create_array(group, "rows", (0, n_features), chunks, dtype, dimensions=("row", "column"))
    for block in blocks:
        n_before = array.shape[0]
        array.resize((n_before + len(block), n_features))
        array[n_before:] = block
    return array_source(array), folder


def _dask_blocks(X: da.Array) -> Iterator[Array]:
    blocks = X.rechunk({1: -1}).to_delayed()[:, 0]
    width = passes.n_workers()
    for start in range(0, len(blocks), width):
        yield from dask.compute(*blocks[start : start + width])  # type: ignore[attr-defined,no-untyped-call]


def _float_type(dtype: Any) -> np.dtype[Any]:
    return np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)
