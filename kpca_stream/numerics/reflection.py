"""A symmetric matrix without one of its null directions, by a Householder reflection.

Eigenvectors of small eigenvalues would else mix with the null direction by rounding, and a coefficient
vector that does not sum to zero makes scores of a kernel with a large mean worthless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Reflection:
    """R = I − 2vvᵀ with R·u = ∓e_1, so that rows and columns from the second on are the complement of u.

    Parameters
    ----------
    v : ndarray of shape (n,)
        Of unit length.
    """

    v: Array

    @classmethod
    def of(cls, u: Array) -> Self:
        """The reflection for a direction u (n,) of unit length, u_1 ≥ 0."""
        v = np.array(u, dtype=np.float64)
        v[0] += 1.0
        return cls(v / np.linalg.norm(v))

    def compress(self, A: Array) -> Array:
        """R·A·R without its first row and column, (n − 1, n − 1), for symmetric A (n, n)."""
        v = self.v
        Av = A @ v
        Av -= v * (v @ Av)
        compressed = A - np.outer(2 * v, Av)
        compressed -= np.outer(Av, 2 * v)
        return np.asarray(compressed[1:, 1:])

    def expand(self, Y: Array) -> Array:
        """R·[0; Y], (n, k): vectors of the complement (n − 1, k) in the whole space, orthogonal to u."""
        expanded = np.outer(-2 * self.v, self.v[1:] @ Y)
        expanded[1:] += Y
        return expanded
