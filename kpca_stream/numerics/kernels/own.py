"""Kernels of one's own: any function of rows, its values checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kpca_stream.errors import DataError
from kpca_stream.numerics.kernels.base import Array, Kernel, Operand

BlockFunction = Callable[[Array, Array], Array]


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
