"""A basis at work: rows in, scores out, for Python callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.stages.scoring import Scores, score_block, score_rows
from kpca_stream.storage.basis import Basis, open_basis, save_basis
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]

IN_MEMORY_BYTES = 2**30


class FittedBasis:
    """A fitted basis that scores rows; made by `load_basis`.

    Parameters
    ----------
    basis : Basis
    """

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self.columns = basis.columns
        self.n_samples = basis.n_samples
        self.n_components = basis.n_components
        self.eigenvalues = basis.eigenvalues
        self.explained_variance = basis.explained_variance
        self.explained_variance_ratio = basis.explained_variance_ratio
        self.row_means = basis.row_means
        self.grand_mean = basis.grand_mean
        self.thresholds = basis.thresholds
        self.facts = basis.facts
        self.precision = basis.precision

    def transform(self, X: Any) -> Any:
        """Scores z(x) = αᵀ(k(x) − m_row) of rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            NumPy array, pandas frame, Zarr or Dask array; for a precomputed kernel (n_rows, n_samples), the
            kernel between new and training rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows, n_components)
            Lazy for a Dask array.
        """
        if isinstance(X, da.Array):
            return self._lazily(X, lambda block: score_block(self._basis, ArrayRows(block)).scores, self.n_components)
        return self.score(X).scores

    def reconstruction_error(self, X: Any, *, diagonal: Array | None = None) -> Any:
        """e(x) = k(x, x) − 2·mean_i k(x, x_i) + m − ‖z(x)‖²: squared distance to the model in feature space.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        diagonal : ndarray of shape (n_rows,), optional
            k(x, x), needed for a precomputed kernel.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows,)
        """
        if isinstance(X, da.Array):
            return self._lazily(X, lambda block: self._errors(score_block(self._basis, ArrayRows(block))), None)
        return self._errors(self.score(X, diagonal=diagonal))

    def score(self, X: Any, *, diagonal: Array | None = None) -> Scores:
        """Scores, reconstruction error, T² and novelty of rows in memory or on disk."""
        rows = self._rows(X)
        with single_threaded_blas():
            return score_rows(self._basis, rows, diagonal=diagonal)

    def save(self, path: str | Path) -> None:
        """Write the basis to a new folder `path`."""
        save_basis(self._basis, Path(path))

    def _errors(self, scores: Scores) -> Array:
        if scores.reconstruction_error is None:
            raise DataError("reconstruction_error: a precomputed kernel needs diagonal=, k(x, x) of the rows; got none")
        return scores.reconstruction_error

    def _lazily(self, X: da.Array, function: Any, n_columns: int | None) -> da.Array:
        self._check_width(X.shape[1])
        blocks = X.rechunk({1: -1})
        if n_columns is None:
            return blocks.map_blocks(function, dtype=np.float64, drop_axis=1, meta=np.empty((0,)))
        chunks = (blocks.chunks[0], (n_columns,))
        return blocks.map_blocks(function, dtype=np.float64, chunks=chunks, meta=np.empty((0, n_columns)))

    def _rows(self, X: Any) -> Rows:
        if not hasattr(X, "store_path"):
            X = np.asarray(X)
        source = open_source(X)
        self._check_width(source.n_features)
        rows = source.rows()
        if rows is None:
            rows = ArrayRows(np.concatenate(list(source.blocks(0, source.n_samples))))
        return rows

    def _check_width(self, n_features: int) -> None:
        expected = self.n_samples if self._basis.rows is None else len(self.columns)
        if n_features != expected:
            raise DataError(f"X: got {n_features} columns, expected the {expected} that the basis was fitted on")


def load_basis(path: str | Path) -> FittedBasis:
    """Open a stored basis.

    Parameters
    ----------
    path : str or Path
        The folder that `save`, ``kpca-stream fit`` or ``run`` wrote.

    Raises
    ------
    ConfigError, DataError
        If there is none, or it is damaged or of another format.
    """
    basis = open_basis(Path(path))
    n_bytes = 8 * basis.n_samples * (len(basis.columns) + basis.n_components)
    return FittedBasis(basis.in_memory() if n_bytes <= IN_MEMORY_BYTES else basis)
