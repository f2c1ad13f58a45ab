"""How unusual a row is: reconstruction error, Hotelling's T², and thresholds that need no rows held back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

N_QUANTILES = 1001
TIE = 1e-9


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

    @classmethod
    def unknown(cls) -> Self:
        """Limits that no row passes, of a basis that none are known of yet."""
        nothing = np.full(N_QUANTILES, np.nan)
        return cls(1.0, np.inf, np.inf, nothing, nothing)

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


def thresholds(
    error: Array,
    t2: Array,
    n_samples: float,
    *,
    quantile: float,
    weights: Array | None = None,
    rounding: float = 0.0,
) -> Thresholds:
    """Thresholds from training values; a row of weight w counts as w copies.

    Every row was fitted, and pulls the model towards itself by its leverage h_i = 1/n + T²_i/(n − 1); what an
    unseen row would show is close to e_i/(1 − h_i)² and T²_i/(1 − h_i)², as for the prediction residuals of a
    least-squares fit (Allen 1974, The relationship between variable selection and data augmentation).
    Errors up to `rounding` are no more than that: a complete model tells no row by them.
    """
    error = np.where(error <= rounding, 0.0, error)
    slack = np.maximum(1.0 - (1.0 / n_samples + t2 / max(n_samples - 1, 1)), 1e-6) ** 2
    error, t2 = error / slack, t2 / slack
    errors, distances = _Distribution(error, weights), _Distribution(t2, weights)
    # The tail level, the same for both, at which 1 − quantile of the rows pass either limit: a row passes one
    # of them as soon as the level exceeds the smaller of its two tail ranks.
    ranks = np.minimum(errors.tail_ranks(), distances.tail_ranks())
    level = _Distribution(ranks, weights).quantiles(1.0 - quantile)
    grid = np.linspace(0.0, 1.0, N_QUANTILES)
    limit_e, limit_t2 = (float(values.quantiles(1.0 - level)) for values in (errors, distances))
    limit_e = max(limit_e, rounding)
    return Thresholds(quantile, limit_e, limit_t2, errors.quantiles(grid), distances.quantiles(grid))


class _Distribution:
    """Values of rows (n_rows,), each as often as its weight says."""

    def __init__(self, values: Array, weights: Array | None) -> None:
        order = np.argsort(values)
        self.values = values
        self.sorted = values[order]
        self.ends = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
        self.total = self.ends[-1]

    def quantiles(self, q: Any) -> Array:
        """Linear between neighbours, as `numpy.quantile` of the repeated values."""
        position = np.asarray(q) * max(self.total - 1, 0.0)
        below = np.floor(position)
        low, high = self._copy(below), self._copy(below + 1)
        return np.asarray(low + (position - below) * (high - low))

    def tail_ranks(self) -> Array:
        """The share of the other copies that are at least as large, for each value.

        Copies of a row, which differ by rounding, share theirs.
        """
        first = np.searchsorted(self.sorted, self.values * (1 - TIE), side="left")
        before = np.where(first > 0, self.ends[first - 1], 0.0)
        return np.asarray(np.maximum(self.total - before - 1, 0.0) / self.total)

    def _copy(self, position: Array) -> Array:
        found = np.searchsorted(self.ends, position, side="right")
        return np.asarray(self.sorted[np.minimum(found, len(self.sorted) - 1)])
