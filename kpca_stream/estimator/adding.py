"""Rows that come later, added to the sums of a model by landmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from kpca_stream.arguments import settings_of
from kpca_stream.errors import ConfigError
from kpca_stream.inputs import as_source, without_zero_weights
from kpca_stream.joining import with_rows
from kpca_stream.model import FittedBasis
from kpca_stream.storage.basis import Basis

SUMMED_BY = ("kernel", "gamma", "degree", "coef0", "kernel_params", "precision", "landmarks", "n_landmarks")
"""Parameters that sums over rows depend on."""


def _approximates(model: Any) -> bool:
    if model.eigen_solver != "nystrom":
        raise AttributeError(
            'partial_fit: only with eigen_solver="nystrom", whose sums more rows are added to'
        )
    return True


class Adding:
    """The part of an estimator that takes more rows."""

    eigen_solver: str
    fit_inverse_transform: bool
    landmarks: Any
    n_landmarks: int
    _begun: dict[str, Any]
    _model: FittedBasis
    _scheduler: Callable[[], Any]
    _take_approximate: Callable[[Basis], Self]
    _validated: Callable[..., Any]
    fit: Callable[..., Self]

    @available_if(_approximates)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Add rows to those that were fitted, without these: the result is that of all at once.

        The first call chooses the landmarks, and γ where that depends on the data.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : ignored
        sample_weight : array of shape (n_rows,), optional

        Raises
        ------
        ConfigError
            If the first call has fewer rows than there shall be landmarks, or what the sums depend on was
            changed since.
        DataError
            If the model is not one of sums: exact, or of a precomputed kernel.
        """
        self._refuse_backward()
        if not hasattr(self, "_model"):
            self._refuse_few(X)
            return self.fit(X, sample_weight=sample_weight)
        self._refuse_changes()
        settings = settings_of(self)
        X = self._validated(X, reset=False)
        X, weights, _ = without_zero_weights(X, sample_weight, square=False)
        with self._scheduler():
            source, _ = as_source(X, settings.memory_limit, getattr(self, "feature_names_in_", None))
            basis = with_rows(self._model.basis, source, settings, weights=weights)
        return self._take_approximate(basis)

    def _begin_sums(self) -> None:
        """Keep what the sums of a new fit depend on."""
        self._begun = {name: getattr(self, name) for name in SUMMED_BY}

    def _refuse_few(self, X: Any) -> None:
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if isinstance(self.landmarks, str) and n_rows < self.n_landmarks:
            raise ConfigError(
                f"partial_fit: got {n_rows} rows in the first call, expected at least n_landmarks="
                f"{self.n_landmarks}, which are chosen among them; give more rows, or ask for fewer landmarks"
            )

    def _refuse_backward(self) -> None:
        if self.fit_inverse_transform:
            raise ConfigError(
                "partial_fit: got fit_inverse_transform=True, expected False: the rows of before are "
                "no longer there to learn from; fit all at once, or use kpca_stream.preimages.learn_ridge"
            )

    def _refuse_changes(self) -> None:
        """The sums hold for the kernel and the landmarks with which they began."""
        for name, was in getattr(self, "_begun", {}).items():
            value = getattr(self, name)
            if value is not was and not np.array_equal(value, was):
                raise ConfigError(
                    f"partial_fit: got {name}={value!r}, expected {was!r}, with which the sums began that "
                    "rows are added to; set it back, or fit all rows anew"
                )
