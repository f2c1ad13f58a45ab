"""Real data of which the eigenvalues are known without a Gram matrix."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.data import altitude, indian_pines, letter

Array = NDArray[Any]


@dataclass(frozen=True)
class Known:
    """Rows, a kernel's name and numbers, and all its positive eigenvalues."""

    load: Callable[[], Array]
    kernel: dict[str, Any]
    exact: Callable[[Array], Array]


def scatter_eigenvalues(X: Array) -> Array:
    """Of a linear kernel: the eigenvalues of the scatter matrix of the columns."""
    centred = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    return np.asarray(np.linalg.eigvalsh(centred.T @ centred)[::-1])


def distinct_eigenvalues(X: Array, gamma: float) -> Array:
    """Of an rbf kernel: those of the distinct values, each as many times as it occurs."""
    values, counts = np.unique(X.astype(np.float64), return_counts=True)
    K = np.exp(-gamma * (values[:, None] - values) ** 2)
    centring = np.eye(len(values)) - counts / counts.sum()
    root = np.sqrt(counts)
    return np.asarray(np.linalg.eigvalsh(root[:, None] * (centring @ K @ centring.T) * root)[::-1])


def square_eigenvalues(X: Array, gamma: float) -> Array:
    """Of the kernel (γ x·y + 1)²: those of the scatter matrix of its monomials."""
    scaled = np.column_stack([np.sqrt(gamma) * X.astype(np.float64), np.ones(len(X))])
    pairs = itertools.combinations_with_replacement(range(scaled.shape[1]), 2)
    monomials = [(1.0 if i == j else np.sqrt(2)) * scaled[:, i] * scaled[:, j] for i, j in pairs]
    return scatter_eigenvalues(np.column_stack(monomials))


KNOWN = {
    "Indian Pines, linear": Known(indian_pines, {"name": "linear"}, scatter_eigenvalues),
    "altitude, rbf": Known(
        altitude, {"name": "rbf", "gamma": 1e-4}, partial(distinct_eigenvalues, gamma=1e-4)
    ),
    "letter, poly": Known(
        letter, {"name": "poly", "gamma": 1 / 16, "degree": 2}, partial(square_eigenvalues, gamma=1 / 16)
    ),
}
