"""Pre-images of scores against a basis: learned by kernel ridge regression, or found by a fixed point."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream.approximation import DEFAULT_LANDMARKS
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.inputs import array_source
from kpca_stream.model import CheckedRows, FittedBasis
from kpca_stream.numerics.kernels import Rbf
from kpca_stream.numerics.landmarks import distinct, uniform_indices
from kpca_stream.numerics.preimage import EPSILON, MOST_ITERATIONS, Ridge, feature_error, score_kernel
from kpca_stream.stages.preimages import ScoredRows, climbed, ridge_sums, scores_at
from kpca_stream.stages.scoring import score_block
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.rows import Rows

Array = NDArray[Any]

EXACT_ROWS = 5000
"""Up to so many, all training scores are landmarks, as in scikit-learn."""
NEAR_ROWS = 1000
"""Rows of the basis among which the nearest is sought, from which a fixed point starts."""


class PreImages(NamedTuple):
    """Rows of the input space, one for each row of scores.

    ``rows`` (n_rows, n_features); ``feature_error`` (n_rows,), ‖φ(x̂) − (φ̄ + Σ_j z_j v_j)‖², the squared
    distance in feature space to what the scores stand for; ``converged`` (n_rows,), of a fixed point whether
    it came to rest, True of a ridge.
    """

    rows: Array
    feature_error: Array
    converged: Array


@dataclass(frozen=True, eq=False)
class TrainingScores:
    """The rows that a ridge is learned from.

    Parameters
    ----------
    rows : Rows
        (n, n_features), in memory or not.
    scores : ndarray of shape (n, n_components), optional
        Computed where they are not given.
    weights : ndarray of shape (n,), optional
    """

    rows: Rows
    scores: Array | None = None
    weights: Array | None = None


def learn_ridge(
    model: FittedBasis,
    X: Any,
    *,
    alpha: float = 1.0,
    n_landmarks: int = DEFAULT_LANDMARKS,
    exact: bool | None = None,
    seed: int = 0,
) -> Ridge:
    """Learn the way from scores to rows by kernel ridge regression, with the kernel of the basis.

    Parameters
    ----------
    model : FittedBasis
    X : array of shape (n, n_features) or TrainingScores
        NumPy or Zarr array; the training rows, or others.
    alpha : float
        Weight of ‖x̂(·)‖² against the squared distances.
    n_landmarks : int
        Where rows are too many for all to be landmarks: how many are, drawn evenly. Then one pass over the
        rows suffices.
    exact : bool, optional
        Whether all rows are landmarks; default: up to 5,000.
    seed : int
        Of the drawing.

    Returns
    -------
    Ridge
        Called with scores (n_rows, n_components), gives rows (n_rows, n_features).

    Raises
    ------
    ConfigError
        For a precomputed kernel, and if the regression has no solution with this `alpha`.
    """
    basis = model.basis
    if basis.rows is None:
        raise ConfigError(
            "pre-images: got a precomputed kernel, expected one of rows, which alone can be told from it"
        )
    given = X if isinstance(X, TrainingScores) else TrainingScores(CheckedRows(array_source(X)))
    scored = ScoredRows(given.rows, given.scores, partial(_scores, basis), given.weights)
    n_samples = given.rows.shape[0]
    kernel = score_kernel(basis.kernel)
    with single_threaded_blas():
        if exact is None:
            exact = n_samples <= EXACT_ROWS
        positions = np.arange(n_samples) if exact else np.sort(uniform_indices(n_samples, n_landmarks, seed))
        points = scores_at(scored, positions)
        if exact:
            learned, condition = Ridge.exact(kernel, points, given.rows.load(), alpha, given.weights)
        else:
            points = distinct(points)
            learned, condition = Ridge.of_sums(kernel, points, ridge_sums(scored, kernel, points), alpha)
    if condition < EPSILON:
        warnings.warn(
            f"alpha={alpha:g}: the kernel matrix of the scores is singular to rounding (reciprocal condition "
            f"{condition:.1e}), and so are pre-images; a larger alpha would help",
            KpcaStreamWarning,
            stacklevel=2,
        )
    return learned


def ridge_pre_images(model: FittedBasis, ridge: Ridge, Z: Any) -> PreImages:
    """Rows for scores Z (n_rows, n_components) by a ridge, and how far from them in feature space."""
    Z = checked_scores(Z, ridge.points.shape[1])
    rows = ridge(Z)
    return PreImages(rows, _errors(model, rows, Z), np.ones(len(Z), bool))


def fixed_point_pre_images(
    model: FittedBasis, Z: Any, *, ridge: Ridge | None = None, max_iter: int = MOST_ITERATIONS
) -> PreImages:
    """Rows for scores Z by the fixed point of Mika et al. (1998), for the kernel rbf.

    Each starts from the nearest, in feature space, of at most 1,000 rows of the basis and of the ridge's
    pre-image where there is a `ridge`; no step leads away from what the scores stand for. Where no row of the
    basis is near enough to tell a direction, so that the quotient would be of rounding, the start is what is
    returned, with a warning.

    Parameters
    ----------
    model : FittedBasis
    Z : array of shape (n_rows, n_components)
    ridge : Ridge, optional
    max_iter : int
        Passes over the rows of the basis, at most.

    Raises
    ------
    ConfigError
        For another kernel.
    """
    basis = model.basis
    if not isinstance(basis.kernel, Rbf) or basis.rows is None:
        raise ConfigError(
            f"pre-images: got the kernel {basis.kernel.name}, expected rbf, to which alone the fixed point "
            "belongs; learn a ridge instead"
        )
    Z = checked_scores(Z, model.n_components)
    with single_threaded_blas():
        start = _nearest(model, Z)
        if ridge is not None:
            learned = ridge_pre_images(model, ridge, Z)
            better = learned.feature_error < _errors(model, start, Z)
            start[better] = learned.rows[better]
        found = climbed(basis, Z, start, max_iter=max_iter)
    if not found.converged.all():
        warnings.warn(
            f"{np.count_nonzero(~found.converged)} of {len(Z)} pre-images did not come to rest: no row of "
            f"the basis is near, or {max_iter} iterations were too few; they are the best that was found",
            KpcaStreamWarning,
            stacklevel=2,
        )
    return PreImages(found.points, _errors(model, found.points, Z), found.converged)


def checked_scores(Z: Any, n_components: int) -> Array:
    """Scores as float64.

    Raises
    ------
    DataError
        If they are not finite, or of another width.
    """
    values = np.asarray(Z, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != n_components or not np.isfinite(values).all():
        raise DataError(
            f"Z: got shape {values.shape}, expected finite scores of shape (n_rows, {n_components}), as "
            "transform gives them"
        )
    return values


def _errors(model: FittedBasis, rows: Array, Z: Array) -> Array:
    found = model.score(rows)
    if found.reconstruction_error is None:
        raise TypeError("no reconstruction error without k(x, x)")
    return feature_error(found.reconstruction_error, found.scores, Z)


def _nearest(model: FittedBasis, Z: Array) -> Array:
    """The row of the basis whose image is nearest to what each row of scores stands for."""
    rows = _some_rows(model.basis)
    found = model.score(rows)
    error = found.reconstruction_error
    # ‖z_i − z‖² + e_i but for ‖z‖², which all share.
    own = np.einsum("ij,ij->i", found.scores, found.scores) + (0.0 if error is None else error)
    return np.array(rows[np.argmin(own - 2 * Z @ found.scores.T, axis=1)], np.float64)


def _some_rows(basis: Basis) -> Array:
    """Rows of the basis, evenly, (≤ NEAR_ROWS, n_features)."""
    chosen = np.unique(np.linspace(0, basis.n_rows - 1, NEAR_ROWS).astype(int))
    found = []
    for (a, b), rows, _, _ in basis.blocks():
        inside = chosen[(chosen >= a) & (chosen < b)] - a
        if rows is not None and inside.size:
            found.append(rows.load()[inside])
    return np.concatenate(found)


def _scores(basis: Basis, rows: Rows) -> Array:
    return score_block(basis, rows).scores
