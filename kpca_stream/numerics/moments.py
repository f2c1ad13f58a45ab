"""Number, mean, variance and range of the columns of rows that are seen block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the columns of n rows.

    Parameters
    ----------
    n : int
        Number of rows.
    mean : ndarray of shape (d,)
        Means, float64.
    m2 : ndarray of shape (d,)
        Sums of squared deviations from the mean, float64.
    minimum, maximum : ndarray of shape (d,)
        Smallest and largest values, float64.
    """

    n: int
    mean: NDArray[np.float64]
    m2: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[Any]) -> Moments:
        """Moments of the rows of X, (n, d) with n > 0, in two passes over them."""
        X = np.asarray(X, np.float64)
        mean = X.mean(axis=0)
        deviations = X - mean
        np.square(deviations, out=deviations)
        return cls(X.shape[0], mean, deviations.sum(axis=0), X.min(axis=0), X.max(axis=0))

    @property
    def variance(self) -> NDArray[np.float64]:
        """Mean squared deviation of each column, (d,): ``X.var(axis=0)``."""
        return self.m2 / self.n

    @property
    def total_variance(self) -> float:
        """Variance of all entries around their one mean: ``X.var()``."""
        between = np.square(self.mean - self.mean.mean()).mean()
        return float(self.variance.mean() + between)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns hold one value only, (d,)."""
        constant: NDArray[np.bool_] = self.minimum == self.maximum
        return constant


def merge(a: Moments, b: Moments) -> Moments:
    """Moments of the rows of both (Chan, Golub and LeVeque 1979).

    With δ the mean of b less that of a: mean = mean_a + δ n_b/n and m2 = m2_a + m2_b + δ² n_a n_b/n.
    """
    n = a.n + b.n
    delta = b.mean - a.mean
    return Moments(
        n,
        a.mean + delta * (b.n / n),
        a.m2 + b.m2 + delta * delta * (a.n * b.n / n),
        np.minimum(a.minimum, b.minimum),
        np.maximum(a.maximum, b.maximum),
    )
