"""How far new rows have come from those that a basis was fitted on, by what it keeps of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics.novelty import TIE, Thresholds
from kpca_stream.numerics.nystrom import FeatureMap

Array = NDArray[Any]

CHANCE = 1e-3
BLOCK_ROWS = 2048


@dataclass(frozen=True, kw_only=True)
class Drift:
    """New rows beside the training rows of a basis.

    Parameters
    ----------
    n_rows : int
        New rows.
    error_ratio, t2_ratio : float or None
        Mean of the new values over that of the training values, both without the highest 0.1 %; None where
        there are none or those of training are all 0.
    error_distance, t2_distance : float or None
        Kolmogorov-Smirnov distance max_x |F_new(x) − F_training(x)|, 0 … 1.
    sampling_bound : float
        Distance that as many rows of an unchanged source pass with a chance of at most 1e-3.
    residual_trace_share : float or None
        Σ (k(x, x) − ‖f(x)‖²)/Σ k(x, x) of new rows: what is beyond the landmarks; None of an exact basis.
    """

    n_rows: int
    error_ratio: float | None
    error_distance: float | None
    t2_ratio: float | None
    t2_distance: float | None
    sampling_bound: float
    residual_trace_share: float | None = None

    @property
    def distance(self) -> float:
        """The larger of the two distances."""
        return max(self.error_distance or 0.0, self.t2_distance or 0.0)

    @property
    def is_certain(self) -> bool:
        """Whether an unchanged source would hardly show this distance."""
        return self.distance > self.sampling_bound


def drift(
    trained: Thresholds,
    reconstruction_error: Array | None,
    hotelling_t2: Array,
    *,
    n_training: float,
    residual_trace_share: float | None = None,
) -> Drift:
    """Compare scored rows with the quantiles that the basis keeps of its training rows.

    Those are leverage-corrected, so that fresh rows of the same source are distributed alike.

    Parameters
    ----------
    trained : Thresholds
    reconstruction_error, hotelling_t2 : ndarray of shape (n_rows,)
        Of new rows; None where k(x, x) is not known.
    n_training : float
        From how many rows the quantiles were taken.
    residual_trace_share : float, optional
        As `residual_trace_share` tells it.

    Raises
    ------
    DataError
        If there are no rows, or a value is not finite.
    """
    for name, values in (("reconstruction_error", reconstruction_error), ("hotelling_t2", hotelling_t2)):
        if values is not None and not (len(values) and np.isfinite(values).all()):
            raise DataError(
                f"drift: {name} has {len(values)} values, {int((~np.isfinite(values)).sum())} of them not "
                "finite; expected some, all finite: score the rows anew"
            )
    error = None if reconstruction_error is None else _without_rounding(reconstruction_error, trained)
    return Drift(
        n_rows=len(hotelling_t2),
        error_ratio=ratio_of_means(trained.error_quantiles, error),
        error_distance=distance(trained.error_quantiles, error),
        t2_ratio=ratio_of_means(trained.t2_quantiles, hotelling_t2),
        t2_distance=distance(trained.t2_quantiles, hotelling_t2),
        sampling_bound=sampling_bound(len(hotelling_t2), n_training),
        residual_trace_share=residual_trace_share,
    )


def ratio_of_means(quantiles: Array, values: Array | None) -> float | None:
    """Mean of `values` (n,) over that of a distribution with these evenly spaced quantiles.

    Both without the highest step, 0.1 % of 1,001 quantiles, in which one row may hold most of a mean.
    """
    if values is None or np.isnan(quantiles).any():
        return None
    levels = np.linspace(0.0, 1.0, len(quantiles))[:-1]
    before, now = (np.trapezoid(q, levels) for q in (quantiles[:-1], np.quantile(values, levels)))
    return float(now / before) if before > 0 else None


def distance(quantiles: Array, values: Array | None) -> float | None:
    """Kolmogorov-Smirnov distance of `values` (n,) to a distribution with these evenly spaced quantiles.

    Between its quantiles the distribution is taken as even: off by at most their step, 0.001 of 1,001.
    """
    if values is None or np.isnan(quantiles).any():
        return None
    ordered = np.sort(_tied(values, quantiles))
    places = np.concatenate([ordered, quantiles])
    gaps = [
        np.abs(_below(quantiles, places, inclusive) - _share(ordered, places, inclusive))
        for inclusive in (False, True)
    ]
    return float(np.max(gaps))


def sampling_bound(n_rows: int, n_training: float, chance: float = CHANCE) -> float:
    """√(ln(2/p)/2 · (1/n + 1/N)), which the distance of equal sources passes with chance p (Massart 1990)."""
    return float(np.sqrt(np.log(2 / chance) / 2 * (1 / n_rows + 1 / n_training)))


def residual_trace_share(features: FeatureMap, X: Array) -> float:
    """Σ (k(x, x) − ‖f(x)‖²)/Σ k(x, x) of rows X (n_rows, d): what the landmarks do not tell of them."""
    kernel, u, Ku = features.kernel, features.origin, features.origin_similarities
    beyond = whole = 0.0
    for start in range(0, len(X), BLOCK_ROWS):
        A = kernel.operand(X[start : start + BLOCK_ROWS], np.float64)
        K = kernel.matrix(X[start : start + BLOCK_ROWS], features.landmarks)  # (b, m)
        own, f = kernel.diagonal(A), (K - Ku) @ features.P
        beyond += float((own - 2 * K @ u + u @ Ku).sum() - np.sum(f**2))
        whole += float((own + 2 * kernel.offset(A)).sum())
    return max(beyond, 0.0) / whole if whole > 0 else 0.0


def _without_rounding(error: Array, trained: Thresholds) -> Array:
    """Errors up to the limit are 0 where those of all training rows were no more than rounding."""
    complete = trained.error_quantiles[-1] == 0
    return np.where(error <= trained.reconstruction_error, 0.0, error) if complete else error


def _tied(values: Array, quantiles: Array) -> Array:
    """Values that differ from a quantile by rounding are that quantile: a jump of both is at one place."""
    after = np.minimum(np.searchsorted(quantiles, values), len(quantiles) - 1)
    for near in (quantiles[after], quantiles[np.maximum(after - 1, 0)]):
        values = np.where(np.abs(values - near) <= TIE * np.abs(near), near, values)
    return values


def _share(ordered: Array, places: Array, inclusive: bool) -> Array:  # noqa: FBT001  of this module
    """The share of values below each place, or at it."""
    return np.searchsorted(ordered, places, side="right" if inclusive else "left") / len(ordered)


def _below(quantiles: Array, places: Array, inclusive: bool) -> Array:  # noqa: FBT001  of this module
    """The same of the distribution, linear between quantiles; equal ones are a jump."""
    levels = np.linspace(0.0, 1.0, len(quantiles))
    steps, first, counts = np.unique(quantiles, return_index=True, return_counts=True)
    before = np.searchsorted(steps, places, side="right" if inclusive else "left") - 1
    low = np.clip(before, 0, len(steps) - 1)
    high = np.minimum(low + 1, len(steps) - 1)
    start, end = levels[first + counts - 1][low], levels[first][high]
    width = steps[high] - steps[low]
    part = np.divide(places - steps[low], width, out=np.zeros(len(places)), where=width > 0)
    inside = start + np.clip(part, 0.0, 1.0) * (end - start)
    return np.where(before < 0, 0.0, np.where(before >= len(steps) - 1, 1.0, inside))
