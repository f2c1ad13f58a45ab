"""How well each column of new rows fits the others, by rows that were trained on.

A kernel's reconstruction error tells a row that is far from all others. A sensor that is stuck at a usual
value, or a column whose rows were shuffled, leaves every value usual, and only its relation to other columns
is lost: that a linear prediction tells, column by column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RIDGE = 1e-3
"""Share of a column's variance that is taken as noise: less cannot be told from it."""
ROWS_PER_COLUMN = 4
"""Fewer trained rows for each column predict nothing."""
ROUNDING = 1e-9
"""Share of its mean up to which a column's deviation is that of a constant, rounded."""
LEAST_ROWS = 30
"""Of new rows: a mean square of fewer is chance."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Linear predictions of each column by all others.

    With C the correlations of the training rows, P = (C + RIDGE·I)⁻¹ and z a row in units of their standard
    deviations, column j is off from what the others predict by (P z)_j/P_jj.

    Parameters
    ----------
    mean, scale : ndarray of shape (d,)
    P : ndarray of shape (d, d)
    usual : ndarray of shape (d,)
        Mean square of how far training rows are off, each left out of the prediction.
    """

    mean: Array
    scale: Array
    P: Array
    usual: Array

    @classmethod
    def of(cls, X: Array) -> Self | None:
        """From training rows (n, d); None where they are too few, or a single column has no others."""
        n_rows, d = X.shape
        if d < 2 or n_rows < ROWS_PER_COLUMN * d:
            return None
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > ROUNDING * np.abs(mean), scale, 1.0)
        Z = (X - mean) / scale
        P = np.linalg.inv(Z.T @ Z / n_rows + RIDGE * np.eye(d))
        leverage = np.einsum("ij,ij->i", Z @ P, Z) / n_rows
        off = Z @ P / np.diag(P) / np.maximum(1 - leverage, 0.5)[:, None]
        return cls(mean, scale, P, np.maximum((off**2).mean(axis=0), RIDGE))

    def ratios(self, X: Array) -> Array | None:
        """How much worse each column fits in new rows (n, d) than it did, (d,): a ratio of mean squares.

        None where there are fewer than 30 rows.
        """
        if len(X) < LEAST_ROWS:
            return None
        off = (X - self.mean) / self.scale @ self.P / np.diag(self.P)
        return np.asarray((off**2).mean(axis=0) / self.usual)
