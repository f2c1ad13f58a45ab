"""What a fit or a call is given: parameters and rows, checked; where it runs and works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from kpca_stream.cluster import connect
from kpca_stream.errors import ConfigError
from kpca_stream.inputs import TemporaryFolder, check_matrix, is_out_of_core, unwrapped
from kpca_stream.storage.sources.sparse import is_sparse

Array = NDArray[Any]


class Intake:
    """The part of an estimator that looks at what it is given."""

    kernel: Any
    fit_inverse_transform: bool
    n_jobs: int | None
    storage: str
    landmarks: Any
    n_landmarks: int
    n_features_in_: int
    _kept: Array | None

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _validated(self, X: Any, *, reset: bool) -> Any:
        X = unwrapped(X)
        if not is_out_of_core(X):
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_min_samples=2 if reset else 1,
                ensure_all_finite=False,  # looked at when rows are read: then row and column can be named
            )
        else:
            check_matrix(X)
            if reset:
                self.__dict__.pop("feature_names_in_", None)
                self.n_features_in_ = X.shape[1]
        if reset or self._kept is None or not self._is_precomputed:
            return X
        return da.from_array(X)[:, self._kept] if is_out_of_core(X) else X[:, self._kept]

    @contextmanager
    def _workspace(self) -> Iterator[TemporaryFolder | None]:
        """A folder for the time of a fit that keeps its tiles on disk."""
        if self.storage != "zarr":
            yield None
            return
        work = TemporaryFolder()
        try:
            yield work
        finally:
            work.remove()

    def _scheduler(self) -> Any:
        if self.n_jobs is None:
            return nullcontext()
        if self.n_jobs == 0:
            raise ConfigError("n_jobs: got 0, expected a number of threads, -1 for all processors, or None")
        return connect("threads", n_workers=None if self.n_jobs < 0 else self.n_jobs)

    def _refuse_sparse_backward(self, X: Any) -> None:
        if self.fit_inverse_transform and is_sparse(X):
            raise ConfigError(
                "fit_inverse_transform: got sparse rows, expected dense ones, as pre-images are; make them "
                "dense, or leave it out"
            )
