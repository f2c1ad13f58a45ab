"""A basis at work: rows in, scores out, for Python callers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import located
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.inputs import array_source, check_matrix, unwrapped
from kpca_stream.numerics.projection import held_bytes
from kpca_stream.stages.scoring import Scores, score_block, score_rows, training_scores
from kpca_stream.storage.basis import Basis, open_basis, save_basis
from kpca_stream.storage.published import basis_at
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.sparse import is_sparse

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]

IN_MEMORY_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Rows of a source, cast to floats when they are loaded, and refused where they are not finite."""

    source: Source

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.source.n_samples, self.source.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which they are loaded."""
        return self.source.dtype

    def part(self, start: int, stop: int) -> CheckedRows:
        """The handle of rows ``start`` to ``stop`` of this block."""
        return CheckedRows(self.source.part(start, stop))

    def load(self, columns: slice = slice(None)) -> Array:
        """These rows (or only their `columns`)."""
        values = self._values(columns)
        finite = np.isfinite(values)
        if not finite.all():
            row, column = (int(index) for index in np.argwhere(~finite)[0])
            raise DataError(
                f"{self.source.locate(row)}, column {self.source.columns[columns][column]!r}: got "
                f"{values[row, column]}, expected a finite number; repair missing (NaN) and infinite values, "
                "or leave their rows out"
            )
        return values

    def _values(self, columns: slice) -> Array:
        rows = self.source.rows()
        if rows is not None:
            return rows.load(columns)
        return np.asarray(np.concatenate(list(self.source.blocks(0, self.source.n_samples)))[:, columns])


class FittedBasis:
    """A fitted basis that scores rows; made by `load_basis`.

    Parameters
    ----------
    basis : Basis
    resource : object, optional
        Kept alive as long as this one: what the rows of the basis lie in.
    """

    def __init__(self, basis: Basis, resource: object = None) -> None:
        self._basis = basis
        self._resource = resource
        self.columns = basis.columns
        self.n_rows = basis.n_rows
        self.n_components = basis.n_components
        self.eigenvalues = basis.eigenvalues
        self.explained_variance = basis.explained_variance
        self.explained_variance_ratio = basis.explained_variance_ratio
        self.row_means = basis.row_means
        self.grand_mean = basis.grand_mean
        self.thresholds = basis.thresholds
        self.facts = basis.facts
        self.precision = basis.precision

    @property
    def frozen(self) -> Basis:
        """The stored values, all that scoring needs."""
        return self._basis

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds all that lies in a temporary folder."""
        state = dict(self.__dict__)
        if self._resource is not None:
            state.update(_basis=self._basis.in_memory(), _resource=None)
        return state

    def transform(self, X: Any) -> Any:
        """Scores z(x) = αᵀ(k(x) − m_row) of rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            NumPy array, pandas frame (columns are found by name), sparse, Zarr, Dask or xarray array; for a
            precomputed kernel (n_rows, n_samples), its values between new and training rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows, n_components)
            Lazy for a Dask array.
        """
        X = unwrapped(X)
        if isinstance(X, da.Array):
            return self._lazily(X, _scores_of_block, n_columns=self.n_components)
        return self.score(X).scores

    def reconstruction_error(self, X: Any, *, diagonal: Any = None) -> Any:
        """e(x) = k(x, x) − 2·mean_i k(x, x_i) + m − ‖z(x)‖²: squared distance to the model in feature space.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        diagonal : array of shape (n_rows,), optional
            k(x, x), needed for a precomputed kernel, and only there.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows,)
        """
        if self._is_precomputed and diagonal is None:
            raise DataError("diagonal: a precomputed kernel needs it, k(x, x) of the rows of X; got none")
        X = unwrapped(X)
        if not isinstance(X, da.Array):
            return self.score(X, diagonal=diagonal).reconstruction_error
        if diagonal is None:
            return self._lazily(X, _errors_of_block)
        values = self._checked_diagonal(diagonal, X.shape[0])
        return self._lazily(X, _errors_of_block, da.from_array(values, chunks=(X.chunks[0],))[:, None])

    def score(self, X: Any, *, diagonal: Any = None) -> Scores:
        """Scores, reconstruction error, T² and novelty of rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            As for `transform`.
        diagonal : array of shape (n_rows,), optional
            k(x, x), for a precomputed kernel; without it novelty goes by T² alone.

        Returns
        -------
        Scores
            Of arrays; of lazy ones, which one task a chunk computes together, for a Dask array.
        """
        X = unwrapped(X)
        if isinstance(X, da.Array) and diagonal is None:
            return self._lazy_scores(X)
        rows = self._rows(X)
        if diagonal is not None:
            diagonal = self._checked_diagonal(diagonal, rows.shape[0])
        with single_threaded_blas():
            return score_rows(self._basis, rows, diagonal=diagonal)

    def frame(self, X: Any, *, diagonal: Any = None) -> pd.DataFrame:
        """What `score` tells, as a data frame with the columns of scores on disk and the index of X.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            NumPy array, pandas frame or Zarr array.
        diagonal : array of shape (n_rows,), optional
            As for `score`.

        Returns
        -------
        pandas.DataFrame
            ``kpca_0`` …, ``reconstruction_error``, ``hotelling_t2``, ``novelty``.
        """
        import pandas as pd

        found = self.score(X, diagonal=diagonal)
        columns = {f"kpca_{j}": found.scores[:, j] for j in range(self.n_components)}
        columns["reconstruction_error"] = (
            np.full(len(found.scores), np.nan)
            if found.reconstruction_error is None
            else found.reconstruction_error
        )
        columns |= {"hotelling_t2": found.hotelling_t2, "novelty": found.novelty}
        return pd.DataFrame(columns, index=X.index if isinstance(X, pd.DataFrame) else None)

    def training_scores(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of scores (b, n_components) of the training rows, and the weights (b,) of these.

        Of landmarks: of the training rows that the basis keeps as a sample.
        """
        with single_threaded_blas():
            yield from training_scores(self._basis)

    @property
    def basis(self) -> Basis:
        """The stored value."""
        return self._basis

    def save(self, path: str | Path) -> None:
        """Write the basis to a new folder `path`, or to an address in a bucket."""
        save_basis(self._basis, located(path))

    @property
    def _is_precomputed(self) -> bool:
        return self._basis.rows is None

    def _checked_diagonal(self, diagonal: Any, n_rows: float) -> Array:
        if not self._is_precomputed:
            raise ConfigError("diagonal: only for a precomputed kernel, others know theirs; leave it out")
        values = np.asarray(diagonal, dtype=np.float64)
        if values.shape != (n_rows,) or not np.isfinite(values).all():
            raise DataError(
                f"diagonal: got shape {values.shape}, expected {n_rows} finite numbers, k(x, x) of each row"
            )
        return values

    def _lazy_scores(self, X: da.Array) -> Scores:
        k = self.n_components
        table = self._lazily(X, _table_of_block, n_columns=k + 3)
        error = None if self._is_precomputed else table[:, k]
        return Scores(table[:, :k], error, table[:, k + 1], table[:, k + 2].astype(bool))

    def _lazily(self, X: da.Array, function: Any, *more: da.Array, n_columns: int | None = None) -> Any:
        check_matrix(X)
        self._check_width(X.shape[1])
        blocks = X.rechunk({1: -1})
        shape: dict[str, Any] = {"drop_axis": 1, "meta": np.empty(0)}
        if n_columns is not None:
            shape = {"chunks": (blocks.chunks[0], (n_columns,)), "meta": np.empty((0, n_columns))}
        return da.map_blocks(partial(function, self), blocks, *more, dtype=np.float64, **shape)

    def _rows(self, X: Any) -> CheckedRows:
        if not isinstance(X, zarr.Array) and not is_sparse(X):
            X = np.asarray(self._selected(X))
        check_matrix(X)
        source = array_source(X)
        self._check_width(source.n_features)
        return CheckedRows(source)

    def _selected(self, X: Any) -> Any:
        """The columns of a frame in the order of the basis, where that knows their names."""
        names = [str(name) for name in getattr(X, "columns", ())]
        numbered = [str(position) for position in range(len(self.columns))]
        if not names or self._is_precomputed or list(self.columns) == numbered:
            return X
        missing = [name for name in self.columns if name not in names]
        if missing:
            raise DataError(
                f"X: got no column {missing[0]!r} ({len(missing)} missing), expected the {len(self.columns)} "
                "columns that the basis was fitted on; add or rename them"
            )
        return X[list(self.columns)]

    def _check_width(self, n_features: int) -> None:
        expected = self.n_rows if self._is_precomputed else len(self.columns)
        if n_features != expected:
            what = (
                "one for each training row" if self._is_precomputed else "those that the basis was fitted on"
            )
            raise DataError(f"X: got {n_features} columns, expected {expected}: {what}")


def load_basis(path: str | Path) -> FittedBasis:
    """Open a stored basis.

    Parameters
    ----------
    path : str or Path
        The folder that `save`, ``kpca-stream fit`` or ``run`` wrote, or its address in a bucket; that of a
        model, ``models/NAME``, means the version that its champion names now.

    Raises
    ------
    ConfigError, DataError
        If there is none, or it is damaged or of another format.
    """
    basis = open_basis(basis_at(located(path)))
    n_bytes = held_bytes(basis.n_rows, len(basis.columns), basis.n_components)
    return FittedBasis(basis.in_memory() if n_bytes <= IN_MEMORY_BYTES else basis)


def _scores_of_block(model: FittedBasis, block: Array) -> Array:
    """The task of a Dask chunk."""
    if not len(block):
        return np.empty((0, model.n_components))
    return score_block(model._basis, CheckedRows(array_source(block))).scores  # noqa: SLF001  of this module


def _table_of_block(model: FittedBasis, block: Array) -> Array:
    """The same with reconstruction error (NaN where it is not known), T² and novelty behind the scores."""
    if not len(block):
        return np.empty((0, model.n_components + 3))
    found = score_block(model._basis, CheckedRows(array_source(block)))  # noqa: SLF001  of this module
    error = np.full(len(block), np.nan) if found.reconstruction_error is None else found.reconstruction_error
    return np.column_stack([found.scores, error, found.hotelling_t2, found.novelty])


def _errors_of_block(model: FittedBasis, block: Array, diagonal: Array | None = None) -> Array | None:
    """The same for reconstruction errors; `diagonal` is (n_rows, 1)."""
    if not len(block):
        return np.empty(0)
    own = None if diagonal is None else diagonal[:, 0]
    return score_block(model._basis, CheckedRows(array_source(block)), own).reconstruction_error  # noqa: SLF001
