"""Hard cases: small inputs on which kernel PCA is known to go wrong, with right answers.

Eigenvalues are those of the centred kernel matrix in exact or float64 arithmetic, to ten digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """Training rows, the parameters of `KernelPCA`, and the leading eigenvalues."""

    X: Array
    parameters: dict[str, Any]
    eigenvalues: Array


def indefinite() -> Case:
    """A sigmoid kernel whose most negative eigenvalue has 0.488 of the size of the largest."""
    X = np.random.default_rng(8368).random((6, 5))
    values = [0.07578422474, 0.001116612826, 0.0001457285217]
    return Case(X, {"kernel": "sigmoid", "gamma": 4.0, "coef0": 0.0}, np.array(values))


def on_a_line() -> Case:
    """Three rows on one line: a single positive eigenvalue, 84/9."""
    return Case(np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]), {}, np.array([84 / 9]))


def far_from_the_origin() -> Case:
    """Float32 rows at 4096 that differ by 0.05: ‖x‖² + ‖y‖² − 2xy has no digit left."""
    X = (4096.0 + 0.05 * np.random.default_rng(9354).standard_normal((40, 3))).astype(np.float32)
    values = [5.306753965, 4.351507579, 3.217743729, 1.555024469]
    return Case(X, {"kernel": "rbf", "gamma": 50.0}, np.array(values))


def nearly_constant() -> Case:
    """A kernel matrix of ones but for 1e-7, given as float32."""
    X = np.random.default_rng(22956).standard_normal((1500, 4)).astype(np.float32)
    values = [3.116232089e-05, 2.960877662e-05, 2.867778929e-05]
    return Case(X, {"kernel": "rbf", "gamma": 1e-8}, np.array(values))


def default_gamma() -> Case:
    """Iris, where γ = None is 1/4."""
    return Case(load_iris().data, {"kernel": "rbf"}, np.array([48.11051564, 19.09429428]))


def ring() -> Case:
    """200 rows on a circle: a circulant matrix whose eigenvalues, 200 e⁻² I_j(2), come in pairs."""
    t = 2 * np.pi * np.arange(200) / 200
    values = [43.05385785, 43.05385785, 18.64780666, 18.64780666, 5.758244528]
    return Case(np.column_stack([np.cos(t), np.sin(t)]), {"kernel": "rbf", "gamma": 1.0}, np.array(values))


def nearly_identity() -> Case:
    """Wine as it is measured: a γ that is right for scaled columns sees no two rows alike."""
    values = [1.592484431, 1.574846596, 1.507115665, 1.437207977, 1.408234167]
    return Case(load_wine().data, {"kernel": "rbf", "gamma": 1 / 13}, np.array(values))


def flat_spectrum() -> Case:
    """Isotropic rows, whose eigenvalues decay slowly."""
    X = np.random.default_rng(120).standard_normal((600, 8))
    values = [6.896077345, 6.450914062, 5.99484612, 5.750051686, 5.424451351]
    return Case(X, {"kernel": "rbf", "gamma": 0.5}, np.array(values))


def repeated_rows() -> Case:
    """Five distinct rows, 500 in all: four positive eigenvalues."""
    rng = np.random.default_rng(1860)
    P = rng.standard_normal((5, 2))
    X = P[rng.permutation(np.repeat(np.arange(5), [200, 120, 90, 60, 30]))]
    values = [186.7579385, 74.0701, 62.79654373, 1.10470496]
    return Case(X, {"kernel": "rbf", "gamma": 0.7}, np.array(values))


def constant_column() -> Case:
    """Three columns and a constant one, which changes nothing at a given γ."""
    A = np.random.default_rng(17794).standard_normal((1000, 3))[:400]
    X = np.column_stack([A, np.full(400, 14.62)])
    values = [44.86995765, 43.5480903, 40.16053197]
    return Case(X, {"kernel": "rbf", "gamma": 0.2}, np.array(values))


def filtered() -> tuple[Case, Array, Array]:
    """491 rows; and the 1,000 that they were picked from, with what picks them."""
    rng = np.random.default_rng(296)
    X = rng.standard_normal((1000, 3))
    keep = rng.random(1000) > 0.5
    values = [48.18408416, 44.59339743, 41.93819284]
    return Case(X[keep], {"kernel": "rbf", "gamma": 0.5}, np.array(values)), X, keep
