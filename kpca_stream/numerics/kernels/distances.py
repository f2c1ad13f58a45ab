"""Kernels of a distance: exp(−γ · distance)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist

from kpca_stream.numerics.kernels.base import Array, Kernel, Operand, squared_norms

# Largest error of the exponent that a float32 product may leave; beyond it the product is in float64.
EXPONENT_ERROR = 1e-6


@dataclass(frozen=True, eq=False)
class _Exponential(Kernel):
    """Kernels of the form exp(−γ · distance); reduced by `shift`, 1 where K is nearly constant."""

    gamma: float
    shift: float = 0.0

    centred = True

    @property
    def is_definite(self) -> bool:
        """Not once a constant is taken off."""
        return not self.shift

    def _exponential(self, out: Array) -> None:
        # Rounding leaves few exponents above 0; looking for them costs a tenth of clipping all.
        if out.max(initial=0.0) > 0:
            np.minimum(out, 0, out=out)
        (np.expm1 if self.shift else np.exp)(out, out=out)

    def diagonal(self, A: Operand) -> Array:
        """exp(0) − shift."""
        return np.full(len(A), 1.0 - self.shift)

    def offset(self, A: Operand) -> Array:
        """Half the shift."""
        return np.full(len(A), self.shift / 2)


@dataclass(frozen=True, eq=False)
class Rbf(_Exponential):
    """k(x, y) = exp(−γ ‖x − y‖²).

    One product gives the exponent: [2γX, −γ‖x‖², 1]·[Y, 1, −γ‖y‖²]ᵀ = −γ‖x − y‖². Its float32 rounding grows
    with γ·max‖x‖², which is why rows are centred and the product is taken in float64 beyond a bound.
    """

    name = "rbf"

    def _operand(self, points: Array, dtype: np.dtype[Any]) -> Operand:
        left, right = self._left(points, dtype), self._right(points, dtype)
        bound = self.gamma * float(squared_norms(points).max(initial=0.0))
        return Operand(points, left, right, bound)

    def cancellation(self, X: Array) -> float:
        """Those of the exponent, which is the difference of terms of the size γ‖x‖²."""
        largest = np.abs(self.preparation(X)).max(axis=0)
        return 1.0 + self.gamma * float(largest @ largest)

    def _left(self, points: Array, dtype: DTypeLike) -> Array:
        """[2γX, −γ‖x‖², 1], (n_rows, n_features + 2)."""
        left = np.ones((len(points), points.shape[1] + 2), dtype)
        np.multiply(points, 2 * self.gamma, out=left[:, :-2], casting="same_kind")
        left[:, -2] = -self.gamma * squared_norms(points)
        return left

    def _right(self, points: Array, dtype: DTypeLike) -> Array:
        """[Y, 1, −γ‖y‖²], (n_rows, n_features + 2)."""
        right = np.ones((len(points), points.shape[1] + 2), dtype)
        right[:, :-2] = points
        right[:, -1] = -self.gamma * squared_norms(points)
        return right

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """exp(−γ‖x − y‖²) − shift, in place."""
        if max(A.bound, B.bound) * np.finfo(out.dtype).eps > EXPONENT_ERROR and out.dtype == np.float32:
            out[...] = self._left(A.points, np.float64) @ self._right(B.points, np.float64).T
        else:
            np.matmul(A.left, B.right.T, out=out)
        self._exponential(out)


@dataclass(frozen=True, eq=False)
class Laplacian(_Exponential):
    """k(x, y) = exp(−γ ‖x − y‖₁)."""

    name = "laplacian"

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """exp(−γ‖x − y‖₁) − shift; distances by direct differences, in float64."""
        np.multiply(cdist(A.points, B.points, "cityblock"), -self.gamma, out=out, casting="same_kind")
        self._exponential(out)
