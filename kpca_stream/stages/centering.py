"""Row means, grand mean, trace; the centred operator. H is applied to vectors, never to the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Product = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Means:
    """What centring needs to know of a Gram matrix.

    Parameters
    ----------
    row_means : ndarray of shape (n,)
        m = K w / N, N = Σ w; w = 1 without weights.
    grand_mean : float
        wᵀm / N.
    """

    row_means: Array
    grand_mean: float

    @classmethod
    def of(cls, row_sums: Array, weights: Array) -> Means:
        """From K·w (n,) and w (n,)."""
        total = weights.sum()
        row_means = row_sums / total
        return cls(row_means, float(weights @ row_means / total))

    def trace(self, diagonal: Array, weights: Array) -> float:
        """Tr K̃ = Σ w_i K_ii − N·m, given K_ii (n,) and w (n,)."""
        return float(weights @ diagonal - weights.sum() * self.grand_mean)

    def unreduced(self, offset: Array, weights: Array) -> Means:
        """The means of K from those of K', k = k' + a(x) + a(y), given a(x_i) (n,)."""
        mean = float(weights @ offset / weights.sum())
        return Means(self.row_means + offset + mean, self.grand_mean + 2 * mean)


class CentredGram:
    """K̃_w = S H K Hᵀ S as an operator, S = diag(√w), H = I − 1wᵀ/N (without weights: H K H).

    The first product multiplies [w | V] in one sweep, so that the means cost no pass.

    Parameters
    ----------
    multiply : callable
        K·V for V (n, w).
    diagonal : ndarray of shape (n,)
        K_ii.
    weights : ndarray of shape (n,)
    epsilon : float
        Of the precision in which products are taken.
    """

    def __init__(self, multiply: Product, diagonal: Array, weights: Array, *, epsilon: float) -> None:
        self.multiply = multiply
        self.diagonal = diagonal
        self.weights = weights
        self.root = np.sqrt(weights)
        self.total = float(weights.sum())
        self.epsilon = epsilon
        self.row_sums: Array | None = None

    @property
    def rounding(self) -> float:
        """Rounding error of a product with a unit vector, where entries are at most the diagonal's.

        Squared, it is Σ_i w_i Σ_j w_j v_j² roundings, at most N · max w.
        """
        largest = float(np.abs(self.diagonal).max(initial=0.0))
        n_roundings = self.total * float(self.weights.max(initial=0.0))
        return 4 * self.epsilon * float(np.sqrt(n_roundings)) * largest

    @property
    def means(self) -> Means:
        """The means of K, once something was multiplied."""
        if self.row_sums is None:
            self.row_sums = self.multiply(self.weights[:, None])[:, 0]
        return Means.of(self.row_sums, self.weights)

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues, tr K̃ = Σ w_i K_ii − N·m."""
        return self.means.trace(self.diagonal, self.weights)

    def __call__(self, V: Array) -> Array:
        """K̃·V for V (n, w)."""
        U = self.root[:, None] * V
        product = self._product(U)
        product -= np.outer(self.means.row_means, U.sum(axis=0, dtype=np.float64))
        product -= self.weights @ product / self.total
        product *= self.root[:, None]
        return product

    def centred(self, V: Array) -> Array:
        """V without its component along √w, the direction that centring removes."""
        unit = self.root / np.sqrt(self.total)
        return np.asarray(V - np.outer(unit, unit @ V))

    def _product(self, U: Array) -> Array:
        if self.row_sums is not None:
            return np.array(self.multiply(U))
        product = self.multiply(np.column_stack([self.weights, U]))
        self.row_sums = product[:, 0].copy()
        return product[:, 1:].copy()


def centre(K: Array, weights: Array) -> Array:
    """K̃_w of a small matrix K (n, n) as a whole."""
    root, total = np.sqrt(weights), weights.sum()
    means = Means.of(K @ weights, weights)
    centred = K - means.row_means[:, None] - means.row_means + means.grand_mean
    # Both means are known to rounding only; a second round leaves rows that sum to zero.
    centred -= (centred @ weights / total)[:, None]
    centred -= weights @ centred / total
    return np.asarray(np.outer(root, root) * (centred + centred.T) / 2)
