"""How unusual a row is: reconstruction error, Hotelling's T², and thresholds that need no rows held back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

N_QUANTILES = 1001


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Limits that the asked share of fresh rows passes together, and the distributions they come from.

    Parameters
    ----------
    quantile : float
        Share of rows that pass neither limit.
    reconstruction_error, hotelling_t2 : float
        The limits.
    error_quantiles, t2_quantiles : ndarray of shape (1001,)
        Quantiles 0, 0.001, …, 1 of the leverage-corrected training values.
    """

    quantile: float
    reconstruction_error: float
    hotelling_t2: float
    error_quantiles: Array
    t2_quantiles: Array

    def passed(self, reconstruction_error: Array | None, hotelling_t2: Array) -> Array:
        """Whether each row passes either limit; by T² alone where there is no reconstruction error."""
        novel = np.asarray(hotelling_t2 > self.hotelling_t2)
        return (
            novel
            if reconstruction_error is None
            else novel | (reconstruction_error > self.reconstruction_error)
        )


def hotelling_t2(scores: Array, eigenvalues: Array, n_samples: float) -> Array:
    """T² = Σ_j z_j² (n − 1)/μ_j, shape (n_rows,); zero eigenvalues are left out."""
    kept = eigenvalues > 0
    return np.asarray((scores[:, kept] ** 2 / eigenvalues[kept]).sum(axis=1) * (n_samples - 1))


def reconstruction_error(self_similarity: Array, scores: Array) -> Array:
    """Distances e = k̃(x, x) − ‖z‖² ≥ 0, (n_rows,); k̃(x, x) = k(x, x) − 2·mean_i k(x, x_i) + m."""
    return np.asarray(np.maximum(self_similarity - np.einsum("ij,ij->i", scores, scores), 0.0))


def thresholds(error: Array, t2: Array, n_samples: float, *, quantile: float) -> Thresholds:
    """Thresholds from training values.

    Every row was fitted, and pulls the model towards itself by its leverage h_i = 1/n + T²_i/(n − 1); what an
    unseen row would show is close to e_i/(1 − h_i)² and T²_i/(1 − h_i)², as for the prediction residuals of a
    least-squares fit (Allen 1974, The relationship between variable selection and data augmentation).
    """
    slack = np.maximum(1.0 - (1.0 / n_samples + t2 / max(n_samples - 1, 1)), 1e-6) ** 2
    error, t2 = error / slack, t2 / slack
    level = _joint_level(error, t2, 1.0 - quantile)
    grid = np.linspace(0.0, 1.0, N_QUANTILES)
    limit_e, limit_t2 = (float(np.quantile(values, 1.0 - level)) for values in (error, t2))
    return Thresholds(quantile, limit_e, limit_t2, np.quantile(error, grid), np.quantile(t2, grid))


def _joint_level(error: Array, t2: Array, share: float) -> float:
    """The tail level, the same for both, at which `share` of the rows pass either limit (bisection)."""
    low, high = share / 2, share
    for _ in range(30):
        level = (low + high) / 2
        passed = (error > np.quantile(error, 1 - level)) | (t2 > np.quantile(t2, 1 - level))
        low, high = (level, high) if passed.mean() < share else (low, level)
    return (low + high) / 2
