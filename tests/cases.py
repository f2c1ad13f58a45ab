"""Hard cases: small inputs on which kernel PCA is known to go wrong, with right answers.

Each names the public report that it goes back to. Eigenvalues are those of the centred kernel matrix in exact
or float64 arithmetic, to ten digits; signs of scores are such that the largest training score is positive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """Training rows, the parameters of `KernelPCA`, the leading eigenvalues, and what else is known."""

    X: Array
    parameters: dict[str, Any]
    eigenvalues: Array
    known: dict[str, Any] = field(default_factory=dict)


def indefinite() -> Case:
    """A sigmoid kernel whose most negative eigenvalue has 0.488 of the size of the largest.

    scikit-learn #8368: the root of a negative eigenvalue is NaN, and so are the scores.
    """
    X = np.random.default_rng(8368).random((6, 5))
    values = [0.07578422474, 0.001116612826, 0.0001457285217]
    parameters = {"kernel": "sigmoid", "gamma": 4.0, "coef0": 0.0}
    return Case(X, parameters, np.array(values), {"ratio": 0.4881})


def on_a_line() -> Case:
    """Three rows on one line: a single positive eigenvalue, 84/9.

    scikit-learn #12141: what is divided by the root of a zero eigenvalue is not finite.
    """
    X = np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    known = {"scores": 2**0.5 * np.array([-4, -1, 5]) / 3, "new": [[3.0, 3.0]], "new_score": 2**0.5 * 2 / 3}
    return Case(X, {}, np.array([84 / 9]), known)


def far_from_the_origin() -> Case:
    """Float32 rows at 4096 that differ by 0.05: ‖x‖² + ‖y‖² − 2xy has no digit left.

    scikit-learn #9354. The kernel of the first two rows comes from 50 digits.
    """
    X = (4096.0 + 0.05 * np.random.default_rng(9354).standard_normal((40, 3))).astype(np.float32)
    values = [5.306753965, 4.351507579, 3.217743729, 1.555024469]
    return Case(X, {"kernel": "rbf", "gamma": 50.0}, np.array(values), {"first_two": 0.9118063976})


def nearly_constant() -> Case:
    """A kernel matrix of ones but for 1e-7, given as float32.

    numpy #22956, which is about sums of float32: what they lose is all that there is here.
    """
    X = np.random.default_rng(22956).standard_normal((1500, 4)).astype(np.float32)
    values = [3.116232089e-05, 2.960877662e-05, 2.867778929e-05]
    return Case(X, {"kernel": "rbf", "gamma": 1e-8}, np.array(values))


def default_gamma() -> Case:
    """Iris, where γ = None is 1/4.

    scikit-learn #26280: γ taken anew from the width of whatever array comes. The kept components' shares of
    the whole trace, which are not their shares of each other: a question on Stack Overflow, "Scikit-learn
    kernel PCA explained variance".
    """
    known = {"gamma": 0.25, "trace": 91.91305689, "ratios": [0.5234350512, 0.2077430012]}
    return Case(load_iris().data, {"kernel": "rbf"}, np.array([48.11051564, 19.09429428]), known)


def new_rows_of_any_number() -> Case:
    """As many new rows as training rows: a square block that must not be centred by its own means.

    MultivariateStats.jl #44.
    """
    rng = np.random.default_rng(44)
    X, X_new = rng.standard_normal((30, 3)), rng.standard_normal((30, 3)) + 1.5
    scores = [
        [-0.07532326637, -0.06160876077],
        [-0.02288397213, -0.007918502084],
        [-0.3977153041, -0.3772936662],
    ]
    known = {"new": X_new, "first_scores": scores}
    return Case(X, {"kernel": "rbf", "gamma": 0.3}, np.array([4.892732474, 3.244549887]), known)


def polynomial() -> Case:
    """Scores are projections on unit vectors of feature space: K̃a would be √μ too large.

    Cross Validated question 126014, on projecting a new row.
    """
    X = np.random.default_rng(126014).standard_normal((50, 3))
    known = {
        "new": [[0.5, -1.0, 0.25]],
        "new_scores": [-0.9189298496, 0.1346489025, 0.1694104483],
        "first_scores": [-1.464104024, -0.415041129, 0.874396699],
    }
    parameters = {"kernel": "poly", "degree": 2, "gamma": 1 / 3, "coef0": 1.0}
    return Case(X, parameters, np.array([38.65566166, 33.56210638, 28.8181041]), known)


def signs() -> Case:
    """Rows whose components some solvers turn round from call to call: scikit-learn #8798."""
    X = np.random.default_rng(8798).random((60, 3))
    values = [7.799363814, 5.58993658, 4.629122721, 1.159941685, 0.7908609146]
    first = [-0.5146690821, -0.08926606764, 0.03662821617, 0.1126101559, -0.0008748783219]
    return Case(X, {"kernel": "rbf", "gamma": 1.0}, np.array(values), {"first_scores": first})


def ring() -> Case:
    """200 rows on a circle: a circulant matrix whose eigenvalues, 200 e⁻² I_j(2), come in pairs.

    spectra #144: of a repeated eigenvalue one copy is found.
    """
    t = 2 * np.pi * np.arange(200) / 200
    values = [43.05385785, 43.05385785, 18.64780666, 18.64780666, 5.758244528]
    X = np.column_stack([np.cos(t), np.sin(t)])
    return Case(X, {"kernel": "rbf", "gamma": 1.0}, np.array(values), {"angles": t})


def nearly_identity() -> Case:
    """Wine as it is measured: a γ that is right for scaled columns sees no two rows alike.

    tensorly #342, PyPortfolioOpt #375: an iteration that ends with fewer vectors than asked for.
    """
    values = [1.592484431, 1.574846596, 1.507115665, 1.437207977, 1.408234167]
    standardised = [23.45867519, 15.83568841, 6.420819898, 5.788449135, 5.029017557]
    return Case(
        load_wine().data,
        {"kernel": "rbf", "gamma": 1 / 13},
        np.array(values),
        {"standardised": standardised},
    )


def flat_spectrum() -> Case:
    """Isotropic rows, whose eigenvalues decay slowly.

    xeofs #120, dask-ml #440: a random projection without power iterations is off by a half here.
    """
    X = np.random.default_rng(120).standard_normal((600, 8))
    values = [6.896077345, 6.450914062, 5.99484612, 5.750051686, 5.424451351]
    return Case(X, {"kernel": "rbf", "gamma": 0.5}, np.array(values))


def repeated_rows() -> Case:
    """Five distinct rows, 500 in all: four positive eigenvalues. scikit-learn #1860."""
    rng = np.random.default_rng(1860)
    P = rng.standard_normal((5, 2))
    X = P[rng.permutation(np.repeat(np.arange(5), [200, 120, 90, 60, 30]))]
    values = [186.7579385, 74.0701, 62.79654373, 1.10470496]
    return Case(X, {"kernel": "rbf", "gamma": 0.7}, np.array(values))


def precomputed() -> Case:
    """A kernel matrix of five rows, and matrices of other shapes: scikit-learn #14240, umap #157.

    A row of equal kernel values has the same scores whatever the value is.
    """
    rng = np.random.default_rng(14240)
    X = rng.standard_normal((5, 2))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    known = {
        "rows_not_kernel": rng.standard_normal((100, 7)),
        "constant_row_scores": [0.02909793686, 0.004602650842],
    }
    return Case(K, {"kernel": "precomputed"}, np.array([1.149612698, 0.986361966]), known)


def constant_column() -> Case:
    """Three columns and a constant one, which changes nothing at a given γ.

    scikit-learn #17794: 14.62 a thousand times has a computed deviation of 1e-15, and standardises to −1.
    """
    A = np.random.default_rng(17794).standard_normal((1000, 3))[:400]
    X = np.column_stack([A, np.full(400, 14.62)])
    values = [44.86995765, 43.5480903, 40.16053197]
    known = {
        "default_gamma_with": [44.45778461, 43.59172532, 39.62736993],
        "default_gamma_without": [42.37604862, 42.27117016, 37.53960318],
    }
    return Case(X, {"kernel": "rbf", "gamma": 0.2}, np.array(values), known)


def not_finite() -> Case:
    """600 rows, three of them with a value that is missing or infinite; the eigenvalues without these.

    vaex #805.
    """
    X = np.random.default_rng(805).standard_normal((600, 4))
    X[17, 1] = X[256, 3] = np.nan
    X[300, 0] = np.inf
    values = [49.41650207, 44.43427646, 43.85723845]
    return Case(X, {"kernel": "rbf", "gamma": 0.25}, np.array(values), {"bad_rows": [17, 256, 300]})


def filtered() -> tuple[Case, Array, Array]:
    """491 rows; and the 1,000 that they were picked from, with what picks them.

    sgkit #296, dask #11713: picked rows have chunks of uneven or unknown size.
    """
    rng = np.random.default_rng(296)
    X = rng.standard_normal((1000, 3))
    keep = rng.random(1000) > 0.5
    values = [48.18408416, 44.59339743, 41.93819284]
    return Case(X[keep], {"kernel": "rbf", "gamma": 0.5}, np.array(values)), X, keep


def in_four_tiles() -> Case:
    """256 rows, of which a lost tile that reads as zeros leaves a plausible spectrum.

    zarr-python #486, xarray #9701 and #10117. ``two_groups``: the second half moved so far away that the
    tiles between the halves truly are zeros.
    """
    X = np.random.default_rng(486).standard_normal((256, 3))
    known = {
        "two_groups": np.concatenate([X[:128], X[128:] + 1000.0]),
        "two_groups_eigenvalues": [29.81589064, 13.61523429, 13.09753594],
        "with_zeros_instead": [22.03918479, 21.3617817, 19.18781589],
    }
    values = [24.90823336, 23.66485929, 20.86065913]
    return Case(X, {"kernel": "rbf", "gamma": 0.5}, np.array(values), known)


TOO_MANY_ROWS: dict[int, tuple[int, int, int]] = {
    80_000: (51_200_000_000, 820, 1_600),
    113_270: (102_640_743_200, 1_596, 3_136),
    368_104: (1_084_004_438_528, 16_290, 32_400),
}
"""Rows → bytes of the whole matrix in float64, and its tiles of 2,048 rows: the upper triangle's, and all.

scikit-learn #19479 and two projects in which such a matrix was asked of one allocation.
"""
