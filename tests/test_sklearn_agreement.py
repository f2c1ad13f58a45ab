"""The same answers as scikit-learn's `KernelPCA`, for every kernel that both have."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA as Reference

from kpca_stream import KernelPCA
from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.model import FittedBasis
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.storage.source import open_source

Array = NDArray[Any]
Solver = Literal["dense", "lanczos"]

N_COMPONENTS = 6
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"gamma": 0.05, "degree": 3, "coef0": 1.0},
    "rbf": {"gamma": 0.05},
    "sigmoid": {"gamma": 0.001, "coef0": 0.0},
    "cosine": {},
}


def rows(n_samples: int) -> Array:
    """Rows in clusters, scaled column by column so that leading eigenvalues are apart."""
    rng = np.random.default_rng(4)
    centres = rng.standard_normal((5, 7))
    noise = 0.6 * rng.standard_normal((n_samples, 7))
    return np.asarray((centres[rng.integers(0, 5, n_samples)] + noise) * np.linspace(2.0, 0.8, 7) + 0.3)


def groups(eigenvalues: Array) -> Iterator[slice]:
    """Slices of eigenvalues that are as good as equal, within which only the subspace is defined."""
    apart = np.flatnonzero(-np.diff(eigenvalues) > 1e-6 * eigenvalues[0]) + 1
    edges = [0, *apart, len(eigenvalues)]
    return (slice(a, b) for a, b in pairwise(edges))


def assert_same_scores(found: Array, expected: Array, eigenvalues: Array) -> None:
    """Equal to 1e-7 of the largest, up to the sign, or the rotation within a repeated eigenvalue."""
    for group in groups(eigenvalues):
        F, E = found[:, group], expected[:, group]
        U, _, Vt = np.linalg.svd(F.T @ E)
        np.testing.assert_allclose(F @ (U @ Vt), E, rtol=0, atol=1e-7 * np.abs(expected).max())


def fitted(X: Array, name: str, parameters: dict[str, Any], method: Solver, tile_rows: int | None) -> Fit:
    settings = FitSettings(
        kernel=KernelSpec(name, **parameters),
        n_components=N_COMPONENTS,
        method=method,
        tile_rows=tile_rows,
        on_indefinite="asked",
    )
    with warnings.catch_warnings():
        # tanh is not positive semidefinite; its negative eigenvalues lie beyond the leading ones.
        warnings.filterwarnings("ignore", "kernel sigmoid is not positive", category=KpcaStreamWarning)
        return fit(open_source(X), settings)


class Answers(NamedTuple):
    """Scikit-learn's eigenvalues, and the scores of training and new rows, one above the other."""

    eigenvalues: Array
    scores: Array

    @classmethod
    def of(cls, reference: Reference, X: Array, X_new: Array) -> Answers:
        scores = reference.fit_transform(X)
        return cls(reference.eigenvalues_, np.vstack([scores, reference.transform(X_new)]))


@cache
def answers(name: str) -> Answers:
    X = rows(430)
    reference = Reference(N_COMPONENTS, kernel=name, eigen_solver="dense", **KERNELS[name])
    return Answers.of(reference, X[:400], X[400:])


def assert_agreement(found: Fit, X_new: Array, expected: Answers) -> None:
    basis = found.basis
    np.testing.assert_allclose(basis.eigenvalues, expected.eigenvalues, rtol=1e-9)
    scores = found.pairs.eigenvectors * np.sqrt(basis.eigenvalues)
    both = np.vstack([scores, FittedBasis(basis).transform(X_new)])
    assert_same_scores(both, expected.scores, basis.eigenvalues)


@pytest.mark.parametrize("method", ["dense", "lanczos"])
@pytest.mark.parametrize("tile_rows", [61, 128, 317])
@pytest.mark.parametrize("name", KERNELS)
def test_every_shared_kernel(name: str, tile_rows: int, method: Solver) -> None:
    """Eigenvalues to 1e-9 and scores of old and new rows to 1e-7, in ragged tiles, by either solver."""
    X = rows(430)
    found = fitted(X[:400], name, KERNELS[name], method, tile_rows)
    assert_agreement(found, X[400:], answers(name))


@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_a_precomputed_matrix(method: Solver) -> None:
    """The same for a matrix of values in place of rows."""
    X = rows(330)
    K = np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    found = fitted(K[:300, :300].copy(), "precomputed", {}, method, 77)
    reference = Reference(N_COMPONENTS, kernel="precomputed", eigen_solver="dense")
    assert_agreement(found, K[300:, :300], Answers.of(reference, K[:300, :300], K[300:, :300]))


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
def test_a_function_of_two_rows(eigen_solver: str) -> None:
    """A callable gets two single rows and the keyword arguments of `kernel_params`."""

    def kernel(x: Array, y: Array, *, power: int) -> float:
        return float((1 + x @ y / 7) ** power)

    X = rows(110)
    parameters: dict[str, Any] = {"kernel": kernel, "kernel_params": {"power": 2}}
    ours = KernelPCA(N_COMPONENTS, eigen_solver=eigen_solver, **parameters)
    reference = Reference(N_COMPONENTS, eigen_solver="dense", **parameters)
    expected = reference.fit_transform(X[:90])
    scores = ours.fit_transform(X[:90])
    np.testing.assert_allclose(ours.eigenvalues_, reference.eigenvalues_, rtol=1e-9)
    both = np.vstack([scores, ours.transform(X[90:])])
    assert_same_scores(both, np.vstack([expected, reference.transform(X[90:])]), ours.eigenvalues_)


@pytest.mark.parametrize(
    ("tile_rows", "method"),
    [(513, "lanczos"), (1999, "lanczos"), pytest.param(700, "dense", marks=pytest.mark.slow)],
)
def test_two_thousand_rows(tile_rows: int, method: Solver) -> None:
    """The same at n = 2,000."""
    X = rows(2050)
    found = fitted(X[:2000], "rbf", {"gamma": 0.05}, method, tile_rows)
    reference = Reference(N_COMPONENTS, kernel="rbf", gamma=0.05, eigen_solver="arpack")
    assert_agreement(found, X[2000:], Answers.of(reference, X[:2000], X[2000:]))


def test_digits_with_all_defaults() -> None:
    """Same parameters, same meaning, on real data."""
    X = load_digits().data / 16
    ours = KernelPCA(N_COMPONENTS, kernel="rbf").fit(X[:600])
    reference = Reference(N_COMPONENTS, kernel="rbf").fit(X[:600])
    assert ours.gamma_ == reference.gamma_
    np.testing.assert_allclose(ours.eigenvalues_, reference.eigenvalues_, rtol=1e-9)
    assert_same_scores(ours.transform(X[600:800]), reference.transform(X[600:800]), ours.eigenvalues_)


@pytest.mark.parametrize("remove_zero_eig", [False, True])
@pytest.mark.parametrize("n_components", [None, 4])
@pytest.mark.filterwarnings("ignore:only 2 of 4 components")
def test_zero_eigenvalues_are_kept_or_removed_alike(
    *, n_components: int | None, remove_zero_eig: bool
) -> None:
    """Of a matrix of rank 2, as many components as scikit-learn keeps, zeros and all."""
    X = np.random.default_rng(0).standard_normal((30, 2)) @ np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 1.0]])
    parameters: dict[str, Any] = {"kernel": "linear", "remove_zero_eig": remove_zero_eig}
    ours = KernelPCA(n_components, **parameters)
    reference = Reference(n_components, **parameters)
    scores, expected = ours.fit_transform(X), reference.fit_transform(X)
    np.testing.assert_allclose(ours.eigenvalues_, reference.eigenvalues_, rtol=1e-12)
    assert_same_scores(scores, expected, ours.eigenvalues_)
    assert ours.transform(X).shape == reference.transform(X).shape


@pytest.mark.parametrize("eigen_solver", ["arpack", "randomized"])
def test_solver_names_of_scikit_learn_give_exact_answers(eigen_solver: str) -> None:
    """`arpack` and `randomized` are accepted, and neither approximates."""
    X = rows(300)
    ours = KernelPCA(N_COMPONENTS, kernel="rbf", gamma=0.05, eigen_solver=eigen_solver).fit(X)
    reference = Reference(N_COMPONENTS, kernel="rbf", gamma=0.05, eigen_solver="dense").fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, reference.eigenvalues_, rtol=1e-9)
    assert ours.n_passes_ > 1
