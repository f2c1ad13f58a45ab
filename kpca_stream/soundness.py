"""What can be checked of a Nyström basis from the sums that it keeps, without a pass over any rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.nystrom import FeatureMap, Statistics
from kpca_stream.results import Check
from kpca_stream.storage.frozen import Basis
from kpca_stream.storage.layout import TOLERANCE

Array = NDArray[Any]


def landmark_checks(basis: Basis) -> list[Check]:
    """The laws that bind the sums, the coefficients and the eigenvalues; none of a precomputed kernel.

    With K_mm = Z-similarities, B the coefficients and m their mean: Bᵀ(G − s sᵀ/N)B = diag(λ̂), the centring
    is Bᵀm, and the centre in feature space is that of the rows, projected.
    """
    if basis.accumulated is None or basis.rows is None:
        return []
    statistics, B = basis.accumulated.statistics(), basis.coefficients.load()
    limit = TOLERANCE[basis.precision]
    products = B.T @ statistics.scatter @ B / np.sqrt(np.outer(basis.eigenvalues, basis.eigenvalues))
    overlap = float(np.abs(products - np.eye(basis.n_components)).max())
    return [
        _check("orthogonality", overlap, limit),
        _check("centring", _off(B.T @ statistics.mean, basis.centring, basis), limit),
        *_centre_checks(basis, statistics, limit),
    ]


def _centre_checks(basis: Basis, statistics: Statistics, limit: float) -> list[Check]:
    landmarks = basis.rows.load() if basis.rows is not None else np.empty((0, 0))
    features = FeatureMap.of(basis.kernel, landmarks, np.dtype(basis.precision))
    f_mean = features.P.T @ (statistics.mean - features.origin_similarities)
    expected = features.origin + features.P @ f_mean
    weights = np.zeros(len(landmarks)) if basis.weights is None else basis.weights / basis.total_weight
    K = basis.kernel.matrix(landmarks, landmarks)
    difference = weights - expected
    size = max(float(expected @ K @ expected), float(np.abs(np.diagonal(K)).mean()), np.finfo(float).tiny)
    apart = float(np.sqrt(max(float(difference @ K @ difference), 0.0) / size))
    sums = [statistics.total, basis.total_weight]
    return [
        _check("centre", apart, limit),
        _check("rows counted", abs(sums[0] - sums[1]) / max(sums[1], 1.0), limit),
        Check(
            name="trace",
            ok=bool(basis.eigenvalues.sum() <= basis.trace * (1 + limit)),
            detail=f"{basis.eigenvalues.sum():.6g} of at most {basis.trace:.6g}",
        ),
    ]


def _off(found: Array, stored: Array, basis: Basis) -> float:
    """Relative to the spread of the scores, which the centring moves."""
    spread = np.sqrt(basis.eigenvalues / basis.total_weight)
    return float(np.abs((found - stored) / spread).max(initial=0.0))


def _check(name: str, off: float, limit: float) -> Check:
    return Check(name=name, ok=off <= limit, detail=f"off by {off:.1e} (limit {limit:.0e})")
