"""Kernels of the product x·y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpca_stream.numerics.kernels.base import Array, Kernel, Operand, squared_norms


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """k(x, y) = x·y; reduced: (x − c)·(y − c), c the column means."""

    name = "linear"
    centred = True

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """(x − c)·(y − c)."""
        np.matmul(A.left, B.right.T, out=out)

    def diagonal(self, A: Operand) -> Array:
        """‖x − c‖²."""
        return squared_norms(A.points)

    def offset(self, A: Operand) -> Array:
        """c·(x − c) + ‖c‖²/2; 0 for standardised rows, of which the kernel is that of x − c itself."""
        c = self.preparation.centre
        if c is None or self.preparation.multiplier is not None:
            return np.zeros(len(A))
        return np.asarray(A.points @ c + c @ c / 2)


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """k(x, y) = x·y / (‖x‖ ‖y‖); 0 where either is the zero row."""

    name = "cosine"

    def _operand(self, points: Array, dtype: np.dtype[Any]) -> Operand:
        norms = np.sqrt(squared_norms(points))[:, None]
        unit = np.divide(points, norms, out=np.zeros_like(points), where=norms > 0)
        return super()._operand(unit, dtype)

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """The product of unit rows."""
        np.matmul(A.left, B.right.T, out=out)

    def diagonal(self, A: Operand) -> Array:
        """1, or 0 for a zero row."""
        return np.asarray(np.any(A.points != 0, axis=1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Polynomial(Kernel):
    """k(x, y) = (γ x·y + coef0)^degree, degree a positive integer."""

    gamma: float
    degree: int
    coef0: float

    name = "poly"

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """(γ x·y + coef0)^degree by repeated products, in place."""
        np.matmul(A.left, B.right.T, out=out)
        out *= out.dtype.type(self.gamma)
        out += out.dtype.type(self.coef0)
        base = out.copy() if self.degree > 1 else out
        for _ in range(self.degree - 1):
            out *= base

    def diagonal(self, A: Operand) -> Array:
        """(γ ‖x‖² + coef0)^degree."""
        return np.asarray((self.gamma * squared_norms(A.points) + self.coef0) ** self.degree)


@dataclass(frozen=True, eq=False)
class Sigmoid(Kernel):
    """k(x, y) = tanh(γ x·y + coef0); not positive semidefinite in general."""

    gamma: float
    coef0: float

    name = "sigmoid"

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """tanh(γ x·y + coef0), in place."""
        np.matmul(A.left, B.right.T, out=out)
        out *= out.dtype.type(self.gamma)
        out += out.dtype.type(self.coef0)
        np.tanh(out, out=out)

    def diagonal(self, A: Operand) -> Array:
        """tanh(γ ‖x‖² + coef0)."""
        return np.asarray(np.tanh(self.gamma * squared_norms(A.points) + self.coef0))
