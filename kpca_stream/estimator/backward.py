"""From scores back to rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kpca_stream.errors import ConfigError
from kpca_stream.model import CheckedRows, FittedBasis
from kpca_stream.numerics.preimage import Ridge, score_kernel
from kpca_stream.preimages import (
    EXACT_ROWS,
    PreImages,
    TrainingScores,
    checked_scores,
    fixed_point_pre_images,
    learn_ridge,
    ridge_pre_images,
)
from kpca_stream.storage.source import Source

Array = NDArray[Any]

METHODS = ("auto", "ridge", "fixed_point")


class Backward:
    """The part of an estimator that finds pre-images."""

    alpha: float
    fit_inverse_transform: bool
    n_landmarks: int
    n_features_in_: int
    eigenvalues_: Array
    X_transformed_fit_: Array
    dual_coef_: Array
    _model: FittedBasis
    _pre_image_type: np.dtype[Any]
    _scheduler: Callable[[], Any]

    def inverse_transform(self, Z: Any) -> Any:
        """Rows whose scores are near Z, by kernel ridge regression; lazy for a Dask array.

        Parameters
        ----------
        Z : array of shape (n_rows, n_components)
            Scores, as `transform` gives them.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows, n_features)
            x̂(z) = Σ_i k(z, z_i) d_i, z_i `X_transformed_fit_` and d_i `dual_coef_`.

        Raises
        ------
        NotFittedError
            If the estimator was not fitted with ``fit_inverse_transform=True``.
        """
        ridge, dtype = self._ridge(), self._pre_image_type
        if not isinstance(Z, da.Array):
            return ridge(checked_scores(Z, ridge.points.shape[1])).astype(dtype, copy=False)
        blocks, task = Z.rechunk({1: -1}), partial(_of_block, ridge, dtype)
        chunks, meta = (Z.chunks[0], (self.n_features_in_,)), np.empty((0, 0), dtype)
        return da.map_blocks(task, blocks, dtype=dtype, chunks=chunks, meta=meta)

    def pre_images(self, Z: Any, *, method: Literal["auto", "ridge", "fixed_point"] = "auto") -> PreImages:
        """Rows whose images in feature space are near what scores stand for, and how near.

        Parameters
        ----------
        Z : array of shape (n_rows, n_components)
        method : {"auto", "ridge", "fixed_point"}
            "ridge" is `inverse_transform`. "fixed_point" is that of Mika et al. (1998), for the kernel rbf,
            and needs no ``fit_inverse_transform``: a climb from the nearest training row, or from the
            ridge's pre-image where that is nearer. "auto": "fixed_point" for rbf, else "ridge".

        Returns
        -------
        PreImages
            ``rows`` (n_rows, n_features), ``feature_error`` (n_rows,), the squared distance in feature space
            between a row's image and what its scores stand for, and ``converged`` (n_rows,).
        """
        check_is_fitted(self)
        if method not in METHODS:
            raise ConfigError(f"method: got {method!r}, expected one of {', '.join(METHODS)}")
        if method == "auto":
            method = "fixed_point" if self._model.basis.kernel.name == "rbf" else "ridge"
        n_positive = self._model.n_components
        positive = checked_scores(Z, len(self.eigenvalues_))[:, :n_positive]
        with self._scheduler():
            if method == "ridge":
                return ridge_pre_images(self._model, self._ridge(n_positive), positive)
            ridge = self._ridge(n_positive) if self.fit_inverse_transform else None
            return fixed_point_pre_images(self._model, positive, ridge=ridge)

    def _learn_backward(
        self, source: Source, scores: Array | None, weights: Array | None, *, limit: int, seed: int
    ) -> None:
        """Learn the ridge from the training rows, all of them landmarks where these are few."""
        given = TrainingScores(CheckedRows(source), scores, weights)
        n_samples, width = source.n_samples, source.n_features + len(self.eigenvalues_)
        exact = n_samples <= EXACT_ROWS and 16 * n_samples * (n_samples + 2 * width) <= limit
        ridge = learn_ridge(
            self._model, given, alpha=self.alpha, n_landmarks=self.n_landmarks, exact=exact, seed=seed
        )
        is_single = self._model.basis.facts["precision"] == "float32"
        self._pre_image_type = np.dtype(np.float32 if is_single else np.float64)
        # In float64 whatever the rows are: with a small alpha large terms cancel.
        self.X_transformed_fit_, self.dual_coef_ = ridge.points, ridge.dual

    def _ridge(self, n_components: int | None = None) -> Ridge:
        """What was learned, of the first components; those of eigenvalue 0 tell no rows apart."""
        if not self.fit_inverse_transform or not hasattr(self, "dual_coef_"):
            raise NotFittedError(
                "inverse_transform: got an estimator that was not fitted with fit_inverse_transform=True, "
                "expected one that was; set it and fit again"
            )
        points = self.X_transformed_fit_[:, :n_components]
        return Ridge(score_kernel(self._model.basis.kernel), points, self.dual_coef_)


def _of_block(ridge: Ridge, dtype: np.dtype[Any], Z: Array) -> Array:
    """The task of a Dask chunk."""
    if not len(Z):
        return np.empty((0, ridge.dual.shape[1]), dtype)
    return ridge(checked_scores(Z, ridge.points.shape[1])).astype(dtype, copy=False)
