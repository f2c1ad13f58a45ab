"""The same rows as each of the kinds of input that `KernelPCA` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import zarr
from numpy.typing import NDArray

Array = NDArray[Any]


def rows(n_samples: int = 150, n_features: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n_samples, n_features))


def as_list(X: Array, _: Path) -> Any:
    return X.tolist()


def as_frame(X: Array, _: Path) -> Any:
    return pd.DataFrame(X, columns=["a", "b", "c", "d"])


def as_fortran(X: Array, _: Path) -> Any:
    return np.asfortranarray(X)


def as_zarr(X: Array, path: Path) -> Any:
    array = zarr.create_array(path / "x.zarr", shape=X.shape, chunks=(40, 3), dtype=X.dtype)
    array[:] = X
    return array


def as_dask(X: Array, _: Path) -> Any:
    return da.from_array(X, chunks=(37, 3))
