"""Back to the input space: rows whose images in feature space are near what scores stand for.

Scores z stand for the point φ̄ + Σ_j z_j v_j, which in general is no row's image. Two ways to a row near it:
kernel ridge regression from scores to rows (Bakir, Weston and Schölkopf 2004, Learning to find pre-images),
and, for the kernel rbf, the fixed point of Mika et al. (1998, Kernel PCA and de-noising in feature spaces).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpocon

from kpca_stream.errors import ConfigError
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Kernel, Laplacian, Operand, Preparation, Rbf
from kpca_stream.numerics.multiply import strip_slices
from kpca_stream.numerics.nystrom import ROUNDINGS

Array = NDArray[Any]
Blocks = Callable[[], Iterable[tuple[Array, Array, Array]]]

EPSILON = float(np.finfo(np.float64).eps)
MOST_ITERATIONS = 200
SMALLEST_MOVE = 1e-12
"""‖Δ‖² of a step over 1/γ, or the mean squared length of the rows: a millionth of what is less."""
SMALLEST_STEP = 2.0**-20
CANCELLED = 1e-12
"""A sum that is smaller relative to its terms has no digits to divide by."""


def score_kernel(kernel: Kernel) -> Kernel:
    """The same kernel of scores: nothing is taken off the rows, nor off the values."""
    plain = replace(kernel, preparation=Preparation())
    return replace(plain, shift=0.0) if isinstance(plain, Rbf | Laplacian) else plain


@dataclass(frozen=True, eq=False)
class Ridge:
    """x̂(z) = Σ_i k(z, z_i) d_i, learned from scores to rows.

    Parameters
    ----------
    kernel : Kernel
        Of scores; see `score_kernel`.
    points : ndarray of shape (m, n_components)
        z_i: the training scores, or some of them.
    dual : ndarray of shape (m, n_features)
        d_i.
    """

    kernel: Kernel
    points: Array
    dual: Array

    @classmethod
    def exact(
        cls, kernel: Kernel, Z: Array, X: Array, alpha: float, weights: Array | None = None
    ) -> tuple[Self, float]:
        """(K + α W⁻¹) D = X, K of all training scores: scikit-learn's pre-images; n³/3 operations.

        Parameters
        ----------
        kernel : Kernel
            Of scores.
        Z, X : ndarray of shape (n, n_components), (n, n_features)
            Training scores and their rows.
        alpha : float
            α ≥ 0.
        weights : ndarray of shape (n,), optional
            A row of weight w acts as w copies.

        Returns
        -------
        Ridge
        reciprocal_condition : float
            Of the matrix that was solved for; below 2e-16 the result is rounding.

        Raises
        ------
        ConfigError
            If the matrix is not positive definite.
        """
        A = kernel.operand(Z, np.float64)
        K = np.empty((len(Z), len(Z)))
        for rows in strip_slices(len(Z)):
            kernel.fill(A.strip(rows.start, rows.stop), A, K[rows])
        np.fill_diagonal(K, kernel.diagonal(A) + (alpha if weights is None else alpha / weights))
        dual, condition = _solved(K, X, alpha)
        return cls(kernel, np.asarray(Z, np.float64), dual), condition

    @classmethod
    def of_sums(cls, kernel: Kernel, points: Array, sums: RidgeSums, alpha: float) -> tuple[Self, float]:
        """(PᵀGP + αI) w = PᵀR, D = P w, P Pᵀ the inverse of the landmarks' K: least squares on landmarks.

        With all training scores as landmarks this is `exact`. Directions whose part of G is less than the
        rounding of all of it are left out.
        """
        P = FeatureMap.of(kernel, points, np.float64).P
        C = P.T @ sums.G @ P
        kept = np.diagonal(C) + alpha > sums.rounding * np.einsum("ij,ij->j", P, P)
        P, C = P[:, kept], C[np.ix_(kept, kept)]
        theta, V = np.linalg.eigh((C + C.T) / 2)
        theta = np.maximum(theta, 0.0) + alpha  # C is semidefinite but for rounding
        if not (theta.size and theta[0] > 0):
            raise _singular(alpha)
        w = V @ ((V.T @ (P.T @ sums.R)) / theta[:, None])
        return cls(kernel, np.asarray(points, np.float64), P @ w), float(theta[0] / theta[-1])

    def __call__(self, Z: Array) -> Array:
        """x̂ of scores Z (n_rows, n_components): rows (n_rows, n_features), float64."""
        out = np.empty((len(Z), self.dual.shape[1]))
        for rows, K in _similarities(self.kernel, Z, self.kernel.operand(self.points, np.float64)):
            np.matmul(K, self.dual, out=out[rows])
        return out


@dataclass(eq=False)
class RidgeSums:
    """What a ridge on landmarks is made of; additive over rows.

    Parameters
    ----------
    G : ndarray of shape (m, m)
        Σ w k(z) k(z)ᵀ, k(z) the similarities of a row's scores with the landmarks'.
    R : ndarray of shape (m, n_features)
        Σ w k(z) xᵀ.
    """

    G: Array
    R: Array

    @classmethod
    def nothing(cls, m: int, n_features: int) -> Self:
        """Of no rows."""
        return cls(np.zeros((m, m)), np.zeros((m, n_features)))

    @property
    def rounding(self) -> float:
        """Of G in the direction of a unit vector, as `Embedding.rounding` has it."""
        return ROUNDINGS * EPSILON * float(np.linalg.norm(self.G)) / float(np.sqrt(len(self.G)))

    def take(self, kernel: Kernel, landmarks: Operand, Z: Array, X: Array, weights: Array | None) -> None:
        """Add rows X (n_rows, n_features) with scores Z, in place."""
        root = None if weights is None else np.sqrt(weights)[:, None]
        for rows, K in _similarities(kernel, Z, landmarks):
            near = np.asarray(X[rows], np.float64)
            if root is not None:
                K *= root[rows]  # noqa: PLW2901  a buffer
                near = near * root[rows]
            self.G += K.T @ K
            self.R += K.T @ near

    def add(self, other: RidgeSums) -> None:
        """Take in the sums over other rows."""
        self.G += other.G
        self.R += other.R


def _similarities(kernel: Kernel, Z: Array, B: Operand) -> Iterable[tuple[slice, Array]]:
    """k(z_i, b_j) strip by strip; the next one overwrites each."""
    A = kernel.operand(Z, np.float64)
    for rows in strip_slices(len(A)):
        K = np.empty((rows.stop - rows.start, len(B)))
        kernel.fill(A.strip(rows.start, rows.stop), B, K)
        yield rows, K


def _solved(K: Array, X: Array, alpha: float) -> tuple[Array, float]:
    """K⁻¹X for positive definite K, which is overwritten, and the reciprocal of its condition number."""
    norm = float(np.abs(K).sum(axis=0).max(initial=0.0))
    try:
        factor, lower = cho_factor(K, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        raise _singular(alpha) from error
    condition, _ = dpocon(factor, norm, uplo="L" if lower else "U")
    return np.asarray(cho_solve((factor, lower), np.asarray(X, np.float64))), float(condition)


def _singular(alpha: float) -> ConfigError:
    return ConfigError(
        f"alpha: got {alpha:g}, with which the kernel matrix of the scores is not positive definite, "
        "expected a larger one: raise it, or take another kernel"
    )


class FixedPoint(NamedTuple):
    """Where the iteration came to rest.

    ``points`` (n_rows, n_features), as the kernel sees rows; ``converged`` (n_rows,): not where it
    had nowhere to go, or was ended; ``n_iterations``.
    """

    points: Array
    converged: Array
    n_iterations: int


def fixed_point(
    kernel: Rbf,
    blocks: Blocks,
    total_weight: float,
    Z: Array,
    start: Array,
    *,
    max_iter: int = MOST_ITERATIONS,
) -> FixedPoint:
    """Climb ⟨φ(x), φ̄ + Σ_j z_j v_j⟩ = Σ_i γ_i k(x, x_i), γ = α z + w/N, by steps to the mean of the x_i.

    Each counts γ_i k(x, x_i) in it. A step that leads down is halved until it leads up: γ_i may be negative,
    and then the plain iteration may circle. Where the denominator Σ γ_i k(x, x_i) underflows, cancels or is
    negative (no training row is near, or only such as the scores speak against) the quotient means nothing:
    such a point stays where it is, and has not converged.

    Parameters
    ----------
    kernel : Rbf
    blocks : callable
        Gives the rows of the basis in blocks, as often as it is called: points (b, n_features) as the kernel
        sees them, coefficients (b, n_components) and weights (b,).
    total_weight : float
        N.
    Z : ndarray of shape (n_rows, n_components)
        Scores.
    start : ndarray of shape (n_rows, n_features)
        As the kernel sees rows.
    max_iter : int
        Passes over the rows of the basis.
    """
    hill = _Hill(Rbf(Preparation(), kernel.gamma), blocks, total_weight, Z)
    point = np.array(start, np.float64)
    value, target, usable = hill(point, np.arange(len(Z)))
    least = SMALLEST_MOVE * min(1 / kernel.gamma, _mean_square(blocks))
    step, converged, n_iterations = np.ones(len(Z)), np.zeros(len(Z), bool), 0
    active = np.flatnonzero(usable)
    while active.size and n_iterations < max_iter:
        n_iterations += 1
        move = step[active, None] * (target[active] - point[active])
        height, further, firm = hill(point[active] + move, active)
        up = firm & (height >= value[active])
        risen, fallen = active[up], active[~up]
        point[risen] += move[up]
        value[risen], target[risen], step[risen] = height[up], further[up], 1.0
        step[fallen] /= 2
        converged[active] = np.einsum("ij,ij->i", move, move) <= least
        converged[fallen] |= step[fallen] < SMALLEST_STEP
        active = active[~converged[active]]
    return FixedPoint(point, converged, n_iterations)


@dataclass(frozen=True, eq=False)
class _Hill:
    """Σ_i γ_i k(x, x_i), the weighted mean of the x_i, and whether that can be told."""

    kernel: Rbf
    blocks: Blocks
    total_weight: float
    Z: Array

    def __call__(self, points: Array, which: Array) -> tuple[Array, Array, Array]:
        """At `points` (q, n_features), for the scores at positions `which` (q,)."""
        total, size, mean = np.zeros(len(points)), np.zeros(len(points)), np.zeros(points.shape)
        Z = self.Z[which]
        for X, coefficients, weights in self.blocks():
            for rows, K in _similarities(self.kernel, points, self.kernel.operand(X, np.float64)):
                K *= Z[rows] @ coefficients.T + weights / self.total_weight  # noqa: PLW2901  a buffer
                total[rows] += K.sum(axis=1)
                mean[rows] += K @ X
                size[rows] += np.abs(K, out=K).sum(axis=1)
        usable = total > np.maximum(CANCELLED * size, np.finfo(np.float64).tiny)
        mean[usable] /= total[usable, None]
        return total, mean, usable


def _mean_square(blocks: Blocks) -> float:
    """Mean squared length of the rows as the kernel sees them, which is about their mean."""
    sums = [(float(np.einsum("ij,ij->", X, X)), len(X)) for X, _, _ in blocks()]
    return sum(total for total, _ in sums) / sum(n_rows for _, n_rows in sums)


def feature_error(reconstruction_error: Array, found: Array, asked: Array) -> Array:
    """‖φ(x̂) − (φ̄ + Σ z_j v_j)‖² = e(x̂) + ‖z(x̂) − z‖², (n_rows,): the two parts are orthogonal.

    Parameters
    ----------
    reconstruction_error : ndarray of shape (n_rows,)
        e(x̂).
    found, asked : ndarray of shape (n_rows, n_components)
        z(x̂) and z.
    """
    difference = found - asked
    return np.asarray(reconstruction_error + np.einsum("ij,ij->i", difference, difference))
