"""Labels of training rows, from a file or from a caller's array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.source import open_source

Array = NDArray[Any]


def read_labels(path: str, rows: str | None = None, column: str | int | None = None) -> Array:
    """Labels in a file, (n,): a one-dimensional ``.npy``, a column of numbers, or a data set's targets.

    Parameters
    ----------
    path : str
        Also ``sklearn:NAME``.
    rows : str, optional
        A slice as of rows to train on.
    column : str or int, optional
        Which one, where there are several.

    Raises
    ------
    ConfigError, DataError
        If there are none.
    """
    if path.startswith("sklearn:"):
        return _sliced(_targets(path), rows)
    if Path(path).suffix == ".npy" and Path(path).is_file():
        values = np.load(path, allow_pickle=False)
        if values.ndim == 1:
            return _sliced(values, rows)
    source = open_source(path, rows=rows, columns=None if column is None else [column])
    if source.n_features != 1:
        raise ConfigError(
            f"labels: got {source.n_features} columns of numbers in {path}, expected one; name it with "
            "tune.labels.column"
        )
    values = np.concatenate(list(source.blocks(0, source.n_samples)))[:, 0]
    return values if source.original_dtype.kind == "f" else values.astype(np.int64)


def checked_labels(y: Any, n_samples: int, estimator: str) -> Array:
    """One label a row: text as numbers, classes as whole numbers.

    Raises
    ------
    DataError
        If they are not one for each row, or not what the estimator takes.
    """
    values = np.asarray(y)
    if values.shape != (n_samples,):
        raise DataError(f"labels: got shape {values.shape}, expected one for each of {n_samples} rows")
    if values.dtype.kind not in "biuf":
        return np.unique(values.astype(str), return_inverse=True)[1]
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(f"labels: got {values[row]} for row {row}, expected finite values; leave the row out")
    if estimator != "logistic" or values.dtype.kind != "f":
        return values
    if (values != np.floor(values)).any():
        raise DataError(
            f"labels: got {values[values != np.floor(values)][0]:g}, expected classes; use estimator: ridge "
            "for measures"
        )
    return values.astype(np.int64)


def _targets(path: str) -> Array:
    open_source(path)  # refuses other names
    from sklearn import datasets

    values = np.asarray(getattr(datasets, f"load_{path.removeprefix('sklearn:')}")().target)
    if values.ndim != 1:
        raise ConfigError(f"labels: got {values.shape[1]} targets in {path}, expected one; use a file")
    return values


def _sliced(values: Array, rows: str | None) -> Array:
    span = open_source(np.arange(len(values))[:, None], rows=rows)
    return values[span.start : span.stop]
