"""What changes nothing in generated fits: order, tiles, chunks, copies, units; and the limits of γ."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import reference
from compared import distinguished, fitted, noise, of, scored, weights_of
from examples import few_and_many, for_all
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import SEMIDEFINITE, Problem, problems

from kpca_stream import KernelPCA
from kpca_stream.errors import KpcaStreamWarning

Array = NDArray[Any]


@few_and_many
def test_order_tiles_and_method_change_nothing(n_examples: int) -> None:
    """The same rows in another order, in other tiles, by the other method: the same model to rounding."""

    def law(problem: Problem, tile_rows: int, order_seed: int) -> None:
        one, K, weights, truth = of(problem)
        order = np.random.default_rng(order_seed).permutation(len(K))
        X = problem.fit_rows[order]
        X = X[:, order] if problem.kernel == "precomputed" else X
        given = None if problem.weights is None else problem.weights[order]
        method = "lanczos" if problem.method == "dense" else "dense"
        other = fitted(problem, X=X, weights=given, tile_rows=tile_rows, method=method)
        rounding = noise(problem, K, weights)
        np.testing.assert_allclose(other.pairs.eigenvalues, one.pairs.eigenvalues, rtol=0, atol=rounding)
        n_found = min(one.basis.n_components, other.basis.n_components)
        kept, tolerance = distinguished(problem, truth, n_found, rounding)
        new = problem.new_rows
        scores, expected = (
            scored(fit_, problem, X_).scores[:, :kept]
            for fit_, X_ in ((other, new[:, order] if problem.kernel == "precomputed" else new), (one, new))
        )
        np.testing.assert_allclose(scores @ scores.T, expected @ expected.T, rtol=0, atol=2 * tolerance)

    for_all(n_examples, law, problems(), st.integers(1, 64), st.integers(0, 99))


@few_and_many
def test_chunks_change_no_bit(n_examples: int) -> None:
    """A Dask array in any chunks gives the bits of the array in memory."""

    def law(problem: Problem, cuts: list[int], width: int) -> None:
        X = problem.fit_rows
        edges = sorted({0, len(X), *(cut % len(X) for cut in cuts)})
        chunks = (*np.diff(edges).tolist(), 0), width
        model = KernelPCA(
            problem.n_components,
            kernel=problem.kernel,
            eigen_solver=problem.method,
            precision=problem.precision,
            **problem.parameters,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KpcaStreamWarning)
            eigenvectors = model.fit(X, sample_weight=problem.weights).eigenvectors_
            scores = model.transform(X)
            chunked = model.fit(da.from_array(X, chunks=chunks), sample_weight=problem.weights)
        np.testing.assert_array_equal(chunked.eigenvectors_, eigenvectors)
        np.testing.assert_array_equal(chunked.transform(X), scores)

    kernels = tuple(name for name in SEMIDEFINITE if name != "own")
    drawn = st.lists(st.integers(1, 60), max_size=5), st.integers(1, 8)
    for_all(n_examples // 2, law, problems(kernels), *drawn)


@few_and_many
def test_a_weight_is_a_number_of_copies(n_examples: int) -> None:
    """Weighted rows give the eigenvalues, trace, means and variances of rows that are repeated."""

    def law(problem: Problem) -> None:
        one, K, weights, _ = of(problem)
        copies = np.repeat(np.arange(len(K)), weights.astype(int))
        X = problem.fit_rows[copies]
        X = X[:, copies] if problem.kernel == "precomputed" else X
        other = fitted(problem, X=X)
        rounding = 4 * noise(problem, K, weights)
        n_found = min(one.basis.n_components, other.basis.n_components)
        for attribute in ("eigenvalues", "explained_variance"):
            found, expected = (getattr(each.basis, attribute)[:n_found] for each in (one, other))
            np.testing.assert_allclose(found, expected, rtol=0, atol=rounding)
        rest = [each.basis.eigenvalues[n_found:] for each in (one, other)]
        assert all((mu <= rounding).all() for mu in rest)
        assert one.basis.trace == pytest.approx(other.basis.trace, abs=len(K) * rounding)

    for_all(n_examples, law, problems(weighted=True, max_samples=30))


@few_and_many
def test_the_linear_kernel_is_ordinary_pca(n_examples: int) -> None:
    """Eigenvalues are the squared singular values of the centred rows, wherever these lie."""

    def law(problem: Problem) -> None:
        found = fitted(problem)
        X = problem.fit_rows.astype(float)
        expected = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
        K, n_found = problem.true_kernel()[0], min(found.basis.n_components, len(expected))
        rounding = noise(problem, K, np.ones(len(K)))
        rounding += len(K) * (1e-14 * float(np.abs(X).max())) ** 2  # what is left of a constant column here
        np.testing.assert_allclose(
            found.basis.eigenvalues[:n_found], expected[:n_found], rtol=0, atol=rounding
        )
        assert (found.basis.eigenvalues[n_found:] <= rounding).all()
        assert (expected[n_found : problem.n_components] <= rounding).all()

    for_all(n_examples // 2, law, problems(("linear",), weighted=False))


@few_and_many
def test_scaling_and_moving_rows(n_examples: int) -> None:
    """b·X with γ/b² (laplacian: γ/b) gives the same; so do all rows moved by one vector."""

    def law(problem: Problem, power: int, move: int) -> None:
        one = fitted(problem, weights=problem.weights)
        b = 2.0**power  # exact, as whole numbers are
        gamma = problem.parameters["gamma"] / b ** (1 if problem.kernel == "laplacian" else 2)
        X = b * (problem.fit_rows.astype(float) + (move if problem.kernel != "poly" else 0))
        spec = replace(problem.settings.kernel, gamma=gamma)
        other = fitted(problem, X=X, weights=problem.weights, kernel=spec)
        K, weights = problem.true_kernel()[0], weights_of(problem)
        rounding = 2 * noise(problem, K, weights)
        rounding += float(np.abs(problem.fit_rows.astype(float)).max() + abs(move)) * 1e-16 * slope(problem)
        np.testing.assert_allclose(other.pairs.eigenvalues, one.pairs.eigenvalues, rtol=0, atol=rounding)

    drawn = st.integers(-20, 20), st.integers(-100, 100)
    for_all(n_examples // 2, law, problems(("rbf", "laplacian", "poly")), *drawn)


def slope(problem: Problem) -> float:
    """What a change of the rows by 1 may change of K̃, at most."""
    weights, n, d = weights_of(problem), problem.traits.n_samples, problem.traits.n_features
    gamma = float(problem.parameters["gamma"])
    steepest = {"rbf": (2 * gamma) ** 0.5, "laplacian": gamma, "poly": 0.0}[problem.kernel]
    return float(weights.max() * n * d * steepest)


@few_and_many
def test_limits_of_gamma(n_examples: int) -> None:
    """As γ → 0 the kernel is 2γ times the linear one; as γ → ∞ that of rows of which none is like another."""

    def law(problem: Problem) -> None:
        X = problem.fit_rows.astype(float)
        squares = reference.squared_distances(X, X)
        largest = float(squares.max())
        linear = fitted(problem, kernel=replace(problem.settings.kernel, name="linear"))
        if largest > 0:
            gamma = 1e-6 / largest
            small = fitted(problem, kernel=replace(problem.settings.kernel, name="rbf", gamma=gamma))
            expected = 2 * gamma * linear.pairs.eigenvalues
            atol = len(X) * gamma * largest * (1e-6 if problem.precision != "float32" else 1e-4)
            np.testing.assert_allclose(small.pairs.eigenvalues, expected, rtol=0, atol=atol)
            gamma = 1e4 / float(squares[squares > 0].min())
            large = fitted(problem, kernel=replace(problem.settings.kernel, name="rbf", gamma=gamma))
            alike = reference.spectrum((squares == 0).astype(float))[: problem.n_components]
            atol = 1e-6 + 1e-15 * gamma * largest
            np.testing.assert_allclose(large.pairs.eigenvalues, alike.clip(0), rtol=0, atol=len(X) * atol)

    for_all(n_examples // 2, law, problems(("linear",), weighted=False))
