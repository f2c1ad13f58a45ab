"""What every kernel offers: rows prepared, either side of a tile, the tile, the diagonal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

FEW_ROWS = 256


class Loadable(Protocol):
    """A block of rows that loads some of its columns."""

    def load(self, columns: slice = ...) -> Array:
        """These columns as an array."""

    def part(self, start: int, stop: int) -> Loadable:
        """Some of the rows."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """Rows as kernels see them: ``(x − centre) · multiplier``, in float64.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
    multiplier : ndarray of shape (n_features,) or None
        None stands for ones.
    """

    centre: Array | None = None
    multiplier: Array | None = None

    def __call__(self, X: Array) -> Array:
        """Prepare rows X (n_rows, n_features)."""
        # A copy also of float64 rows: a product of one buffer with itself takes another path in BLAS.
        if self.centre is None:
            P = np.array(X, dtype=np.float64)
        else:
            P = np.subtract(X, self.centre, dtype=np.float64)
        if self.multiplier is not None:
            P *= self.multiplier
        return P

    def undone(self, points: Array) -> Array:
        """Rows that prepared are `points`; the centre's value in a column that is multiplied by 0."""
        rows = points
        if self.multiplier is not None:
            m = self.multiplier
            rows = np.divide(points, m, out=np.zeros_like(points), where=m != 0)
        return np.asarray(rows if self.centre is None else rows + self.centre)


@dataclass(frozen=True, eq=False)
class Operand:
    """One row block made ready to be either side of a tile.

    ``points`` (n_rows, n_features) are float64; ``left`` and ``right`` are what the product of a tile
    takes in the working precision; ``bound`` is the largest size of the terms that cancel in it.
    """

    points: Array
    left: Array
    right: Array
    bound: float = 0.0

    @property
    def nbytes(self) -> int:
        """Memory that its arrays take."""
        arrays = {id(array): array.nbytes for array in (self.points, self.left, self.right)}
        return sum(arrays.values())

    def strip(self, start: int, stop: int) -> Self:
        """The same for rows ``start`` to ``stop``."""
        return type(self)(self.points[start:stop], self.left[start:stop], self.right[start:stop], self.bound)

    def as_second(self) -> Self:
        """The same, to be the second side of tiles only, which takes less memory."""
        return replace(self, left=self.right[:0])

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """A kernel with all its parameters resolved.

    Parameters
    ----------
    preparation : Preparation
        What is done to rows first.
    """

    preparation: Preparation

    name: ClassVar[str]
    centred: ClassVar[bool] = False
    """Whether moving all rows by the same vector leaves the centred Gram matrix as it is."""

    @property
    def is_definite(self) -> bool:
        """Whether k' is positive semidefinite where k is, and not just once it is centred."""
        return True

    def operand(self, X: Array, dtype: DTypeLike) -> Operand:
        """Rows X (n_rows, n_features) made ready for tiles of type `dtype`."""
        points = self.preparation(X)
        return self._operand(points, np.dtype(dtype))

    def _operand(self, points: Array, dtype: np.dtype[Any]) -> Operand:
        cast = np.ascontiguousarray(points, dtype=dtype)
        return Operand(points, cast, cast)

    @abstractmethod
    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """Write k'(a_i, b_j) into `out` (n_a, n_b), in its precision."""

    @abstractmethod
    def diagonal(self, A: Operand) -> Array:
        """k'(x_i, x_i) in float64, shape (n_rows,), exact where the formula is."""

    def offset(self, A: Operand) -> Array:
        """a(x_i) in float64, shape (n_rows,): k = k' + a(x) + a(y)."""
        return np.zeros(len(A))

    def cancellation(self, X: Array) -> float:  # noqa: ARG002  most kernels have none
        """How many roundings of k(x, x) a value between rows as large as X (n_rows, n_features) is off."""
        return 1.0

    def matrix(self, X: Array, Y: Array) -> Array:
        """k'(x_i, y_j) in float64, shape (n_x, n_y), for a few rows."""
        out = np.empty((len(X), len(Y)))
        for i in range(0, len(X), FEW_ROWS):
            A = self.operand(X[i : i + FEW_ROWS], out.dtype)
            for j in range(0, len(Y), FEW_ROWS):
                B = self.operand(Y[j : j + FEW_ROWS], out.dtype)
                self.fill(A, B, out[i : i + FEW_ROWS, j : j + FEW_ROWS])
        return out


def squared_norms(points: Array) -> Array:
    """‖x_i‖², shape (n_rows,)."""
    return np.asarray(np.einsum("ij,ij->i", points, points))
