"""Kernels: a kernel is its formula, its tile, its diagonal.

Centring removes any term that depends on one of the two rows alone, so that ``K`` and the *reduced*
kernel ``k'(x, y) = k(x, y) − a(x) − a(y)`` have the same centred Gram matrix. Every kernel here computes
``k'`` and names ``a``: a linear kernel of centred rows, and ``expm1`` in place of ``exp`` where the
matrix is nearly constant, keep the digits that float32 would otherwise lose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.spatial.distance import cdist

from kpca_stream.errors import DataError

Array = NDArray[Any]
BlockFunction = Callable[[Array, Array], Array]

# Largest error of the exponent that a float32 product may leave; beyond it the product is in float64.
EXPONENT_ERROR = 1e-6
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
        return _squared_norms(A.points)

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
        norms = np.sqrt(_squared_norms(points))[:, None]
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
        return np.asarray((self.gamma * _squared_norms(A.points) + self.coef0) ** self.degree)


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
        return np.asarray(np.tanh(self.gamma * _squared_norms(A.points) + self.coef0))


@dataclass(frozen=True, eq=False)
class _Exponential(Kernel):
    """Kernels of the form exp(−γ · distance); reduced by `shift`, 1 where K is nearly constant."""

    gamma: float
    shift: float = 0.0

    centred = True

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
        bound = self.gamma * float(_squared_norms(points).max(initial=0.0))
        return Operand(points, left, right, bound)

    def cancellation(self, X: Array) -> float:
        """Those of the exponent, which is the difference of terms of the size γ‖x‖²."""
        largest = np.abs(self.preparation(X)).max(axis=0)
        return 1.0 + self.gamma * float(largest @ largest)

    def _left(self, points: Array, dtype: DTypeLike) -> Array:
        """[2γX, −γ‖x‖², 1], (n_rows, n_features + 2)."""
        left = np.ones((len(points), points.shape[1] + 2), dtype)
        np.multiply(points, 2 * self.gamma, out=left[:, :-2], casting="same_kind")
        left[:, -2] = -self.gamma * _squared_norms(points)
        return left

    def _right(self, points: Array, dtype: DTypeLike) -> Array:
        """[Y, 1, −γ‖y‖²], (n_rows, n_features + 2)."""
        right = np.ones((len(points), points.shape[1] + 2), dtype)
        right[:, :-2] = points
        right[:, -1] = -self.gamma * _squared_norms(points)
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


@dataclass(frozen=True, eq=False)
class RowPairs:
    """A function of two single rows, as scikit-learn takes it, made one of two row blocks."""

    function: Callable[..., float]

    def __call__(self, X: Array, Y: Array) -> Array:
        """f(x_i, y_j), shape (n_x, n_y)."""
        return np.array([[self.function(x, y) for y in Y] for x in X], dtype=np.float64).reshape(
            len(X), len(Y)
        )


@dataclass(frozen=True, eq=False)
class Own(Kernel):
    """A function of two row blocks: k(X, Y) of shape (n_x, n_y)."""

    function: BlockFunction
    label: str

    name = "own"

    def fill(self, A: Operand, B: Operand, out: Array) -> None:
        """The function's values, checked for shape, type and finiteness."""
        out[...] = self._evaluate(A.points, B.points)

    def diagonal(self, A: Operand) -> Array:
        """k(x_i, x_i), from blocks of a few rows."""
        step = 1 if isinstance(self.function, RowPairs) else 16
        blocks = (A.points[i : i + step] for i in range(0, len(A), step))
        return np.concatenate([np.zeros(0), *(np.diagonal(self._evaluate(x, x)) for x in blocks)])

    def _evaluate(self, X: Array, Y: Array) -> Array:
        shape = (len(X), len(Y))
        try:
            values = np.asarray(self.function(X, Y))
        except Exception as error:
            raise DataError(
                f"kernel {self.label} raised {type(error).__name__} on blocks of shapes {X.shape} and "
                f"{Y.shape}: {error}; expected an array of shape {shape}"
            ) from error
        if values.shape != shape or values.dtype.kind not in "fiub":
            raise DataError(
                f"kernel {self.label} returned shape {values.shape} of type {values.dtype}; expected real "
                f"numbers of shape {shape} for blocks of shapes {X.shape} and {Y.shape}"
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"kernel {self.label} returned NaN or infinity; expected finite values for finite rows"
            )
        return values


@dataclass(frozen=True, eq=False)
class MatrixOperand(Operand):
    """Rows ``start`` to ``stop`` of a given matrix; `rows` is None where only the columns matter."""

    rows: Loadable | None = None
    start: int = 0
    stop: int = 0

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


def _squared_norms(points: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", points, points))
