"""A kernel that is given as a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from kpca_stream.numerics.kernels.base import Array, Kernel, Loadable, Operand


@dataclass(frozen=True, eq=False)
class MatrixOperand(Operand):
    """Rows ``start`` to ``stop`` of a given matrix; `rows` is None where only the columns matter.

    `positions` are those of columns that do not stand side by side.
    """

    rows: Loadable | None = None
    start: int = 0
    stop: int = 0
    positions: Array | None = None

    @classmethod
    def columns(cls, positions: Array) -> Self:
        """The operand of the columns at `positions`, (m,)."""
        nothing = np.empty((len(positions), 0))
        return cls(nothing, nothing, nothing, positions=positions)

    @classmethod
    def of(cls, rows: Loadable | None, start: int, stop: int) -> Self:
        """The operand of rows `start` to `stop`; `rows` holds just these."""
        nothing = np.empty((stop - start, 0))
        return cls(nothing, nothing, nothing, 0.0, rows, start, stop)

    def strip(self, start: int, stop: int) -> Self:
        """The same for rows ``start`` to ``stop`` of this block."""
        rows = None if self.rows is None else self.rows.part(start, stop)
        return type(self).of(rows, self.start + start, self.start + stop)

    def columns_of(self, other: MatrixOperand) -> Array:
        """The values in these rows and the columns of `other`."""
        if self.rows is None:
            raise TypeError("this operand stands for columns only")
        if other.positions is not None:
            return self.rows.load()[:, other.positions]
        return self.rows.load(slice(other.start, other.stop))


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """k(x_i, x_j) given as a matrix; training values are symmetrized, (K + Kᵀ)/2."""

    name = "precomputed"

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """Values of the matrix; where both sides have rows, averaged with the mirrored ones."""
        if not isinstance(A, MatrixOperand) or not isinstance(B, MatrixOperand):
            raise TypeError("a precomputed kernel takes operands of a matrix")
        values = A.columns_of(B).astype(np.float64)
        if B.rows is not None:
            values = (values + B.columns_of(A).T) / 2
        out[...] = values

    def diagonal(self, A: Operand) -> Array:
        """K_ii."""
        if not isinstance(A, MatrixOperand):
            raise TypeError("a precomputed kernel takes operands of a matrix")
        step = 1024
        strips = (A.strip(i, min(i + step, len(A))) for i in range(0, len(A), step))
        return np.concatenate([np.diagonal(s.columns_of(s)) for s in strips]).astype(np.float64)


def as_operand(kernel: Kernel, rows: Loadable, address: tuple[int, int], dtype: DTypeLike) -> Operand:
    """The side of a tile that stands at `address` (first row, end) of the matrix."""
    if isinstance(kernel, Precomputed):
        return MatrixOperand.of(rows, *address)
    return kernel.operand(rows.load(), dtype)


def as_landmarks(kernel: Kernel, landmarks: Array, dtype: DTypeLike) -> Operand:
    """Landmarks (m, n_features), of a given matrix their positions (m, 1), as the second side of a tile."""
    if isinstance(kernel, Precomputed):
        return MatrixOperand.columns(np.ravel(landmarks).astype(np.int64))
    return kernel.operand(landmarks, dtype)
