"""Laws of kernel PCA on generated fits, against the formulas written out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import reference
from examples import few_and_many, for_all
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference import Solution
from strategies import SEMIDEFINITE, Problem, problems

from kpca_stream import KernelPCA
from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.fitting import Fit, fit
from kpca_stream.stages.scoring import Scores, score_block
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]


def fitted(problem: Problem, X: Array | None = None, weights: Array | None = None, **more: Any) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KpcaStreamWarning)  # generated kernels may well be near the identity
        source = open_source(problem.fit_rows if X is None else X)
        return fit(source, replace(problem.settings, **more), weights=weights)


def scored(found: Fit, problem: Problem, X: Array) -> Scores:
    diagonal = problem.true_kernel()[2] if problem.kernel == "precomputed" else None
    return score_block(found.basis, ArrayRows(X.astype(float)), diagonal)


def noise(problem: Problem, K: Array, weights: Array) -> float:
    """What rounding in the working precision, and the tolerance of a mixed fit, may change of K̃."""
    largest = float((weights * np.abs(np.diagonal(K))).max())
    rounding = 16 * problem.epsilon * problem.condition * len(K) * largest
    return rounding + (1e-9 * len(K) * largest if problem.precision == "mixed" else 0.0)


def of(problem: Problem) -> tuple[Fit, Array, Array, Solution]:
    """A fit, the true kernel, the weights and the true solution."""
    found = fitted(problem, weights=problem.weights)
    weights = np.ones(problem.traits.n_samples) if problem.weights is None else problem.weights
    K = problem.true_kernel()[0]
    with np.errstate(divide="ignore", invalid="ignore"):  # of eigenvalues that are 0
        truth = reference.solve(K, len(K), problem.weights)
    return found, K, weights, truth


def n_distinguished(truth: Solution, kept: int, floor: float) -> int:
    """The most leading components, at most `kept`, that are large and apart from the following ones."""
    mu = np.append(truth.eigenvalues, 0.0)
    sound = [k for k in range(1, kept + 1) if mu[k - 1] - mu[k] > floor and mu[k - 1] > floor]
    return max(sound, default=0)


# The definitions


@few_and_many
def test_eigenvalues_means_and_trace(n_examples: int) -> None:
    """Eigenvalues, row means, grand mean and trace are those of the formulas, by any method in any tiles."""

    def law(problem: Problem) -> None:
        found, K, weights, truth = of(problem)
        rounding = noise(problem, K, weights)
        expected = np.maximum(truth.eigenvalues[: problem.n_components], 0)
        np.testing.assert_allclose(found.pairs.eigenvalues, expected, rtol=0, atol=rounding)
        assert (np.diff(found.pairs.eigenvalues) <= 0).all()
        assert found.basis.n_components <= len(K) - 1
        assert found.basis.trace == pytest.approx(truth.trace, abs=len(K) * rounding)
        raw = problem.matrix(problem.traits.rows(), problem.traits.rows())
        means = raw @ weights / weights.sum()
        size = 16 * problem.epsilon * problem.condition * float(np.abs(raw).max())
        np.testing.assert_allclose(found.basis.row_means, means, rtol=0, atol=size)
        assert found.basis.grand_mean == pytest.approx(weights @ means / weights.sum(), abs=size)

    for_all(n_examples, law, problems())


@few_and_many
def test_scores_and_errors_of_new_rows(n_examples: int) -> None:
    """Scores, up to rotations among equal eigenvalues, and errors are those of the formulas."""

    def law(problem: Problem) -> None:
        found, K, weights, truth = of(problem)
        result = scored(found, problem, problem.new_rows)
        assert np.isfinite(result.scores).all()
        kept, tolerance = distinguished(problem, truth, found.basis.n_components, noise(problem, K, weights))
        k_new, k_self = problem.true_kernel()[1:]
        expected = (k_new - truth.row_means) @ truth.coefficients[:, :kept]
        scores = result.scores[:, :kept]
        # Products of scores with each other know no signs and no rotations.
        np.testing.assert_allclose(scores @ scores.T, expected @ expected.T, rtol=0, atol=tolerance)
        if kept == found.basis.n_components:
            error = k_self - 2 * k_new @ weights / weights.sum() + truth.grand_mean
            error -= (expected**2).sum(axis=1)
            np.testing.assert_allclose(result.reconstruction_error, error, rtol=0, atol=4 * tolerance)

    for_all(n_examples, law, problems())


def distinguished(problem: Problem, truth: Solution, n_found: int, rounding: float) -> tuple[int, float]:
    """The most leading components that are large and apart from the rest, and how exact their scores are."""
    mu = np.append(truth.eigenvalues, 0.0)
    floor = max(1e-4 * mu[0], 1e3 * rounding, 1e-300)
    kept = max((k for k in range(1, n_found + 1) if mu[k - 1] - mu[k] > floor), default=0)
    K, k_new, k_self = problem.true_kernel()
    size = max(float(np.abs(k).max()) for k in (K, k_new, k_self))
    relative = 4 * problem.epsilon * problem.condition + (1e-9 if problem.precision == "mixed" else 0.0)
    return kept, relative * (len(K) * size) ** 2 / max(float(mu[kept - 1] - mu[kept]), floor)


@few_and_many
def test_kernels_that_may_be_indefinite(n_examples: int) -> None:
    """Of a sigmoid the positive ones of the leading eigenvalues are kept, and all scores are numbers."""

    def law(problem: Problem) -> None:
        K, weights = problem.true_kernel()[0], weights_of(problem)
        expected = reference.spectrum(K, weights)
        rounding = noise(problem, K, weights)
        limit = max(1e-5 * expected[0], 4 * rounding)
        try:
            found = fitted(problem, weights=problem.weights)
        except DataError as error:
            assert "negative eigenvalues" in str(error)  # noqa: PT017  both ends are right
            assert expected[0] < limit
            assert expected[-1] < -problem.epsilon * len(K)
            return
        positive = np.maximum(expected[: found.basis.n_components], 0)
        np.testing.assert_allclose(found.basis.eigenvalues, positive, rtol=0, atol=rounding)
        missing = expected[found.basis.n_components : problem.n_components]
        assert (missing <= limit).all()
        assert np.isfinite(scored(found, problem, problem.new_rows).scores).all()

    for_all(n_examples, law, problems(("sigmoid",)))


# What is true of all scores


@few_and_many
def test_training_scores(n_examples: int) -> None:
    """Columns have mean 0, are orthogonal, have variance μ/(N − 1), and transform gives them again."""

    def law(problem: Problem) -> None:
        found, K, weights, truth = of(problem)
        basis = found.basis
        mu, root = basis.eigenvalues, np.sqrt(basis.eigenvalues)
        scores = training_scores(found, weights)
        loose = 1e-5 if problem.precision == "float32" else 1e-11
        largest = root.max(initial=0.0)
        np.testing.assert_allclose(weights @ scores, 0, atol=loose * largest * len(K))
        product = (scores * weights[:, None]).T @ scores
        np.testing.assert_allclose(product, np.diag(mu), rtol=0, atol=loose * largest**2)
        np.testing.assert_allclose(basis.explained_variance, mu / (weights.sum() - 1), rtol=1e-12)
        kept, tolerance = distinguished(problem, truth, len(mu), noise(problem, K, weights))
        again = rescored(found, problem).scores
        assert again.shape == scores.shape
        tolerance = max(tolerance, 1e-6 * truth.trace if problem.precision == "mixed" else 0.0)
        error = tolerance / root[kept - 1] if kept else 0.0
        np.testing.assert_allclose(again[:, :kept], scores[:, :kept], rtol=0, atol=error)

    for_all(n_examples, law, problems())


@few_and_many
def test_signs_follow_the_training_rows(n_examples: int) -> None:
    """Where one training score is the largest in size beyond doubt, it is positive."""

    def law(problem: Problem) -> None:
        found, _, weights, _ = of(problem)
        scores = training_scores(found, weights)
        largest, lowest = scores.max(axis=0, initial=-np.inf), scores.min(axis=0, initial=np.inf)
        assert (largest >= -lowest * (1 - 2e-3)).all()

    for_all(n_examples, law, problems())


@few_and_many
def test_what_is_left_adds_up(n_examples: int) -> None:
    """Σ e = tr K̃ − Σ μ; with all components nothing is left, and scores are as far apart as rows are."""

    def law(problem: Problem) -> None:
        found, K, weights, _ = of(problem)
        rounding, mu = noise(problem, K, weights), found.basis.eigenvalues
        # A score divides by √μ: at the edge of rounding it has no digits.
        if (mu < 1e3 * rounding).any():
            return
        result = rescored(found, problem)
        errors = np.asarray(result.reconstruction_error)
        left = found.basis.trace - mu.sum()
        slack = 4 * len(K) * rounding * (1 + mu[:1].sum() / mu[-1:].sum() if len(mu) else 1)
        assert float(weights @ errors) == pytest.approx(left, abs=slack)
        if problem.n_components >= len(K) and left < rounding:
            np.testing.assert_allclose(errors, 0, rtol=0, atol=slack)
            d = np.diagonal(K)
            apart = reference.squared_distances(result.scores, result.scores)
            np.testing.assert_allclose(apart, d[:, None] + d - 2 * K, rtol=0, atol=4 * slack)

    for_all(n_examples, law, problems())


def weights_of(problem: Problem) -> Array:
    return np.ones(problem.traits.n_samples) if problem.weights is None else problem.weights


def training_scores(found: Fit, weights: Array) -> Array:
    """z_ij = √μ_j a_ij/√w_i of the positive components, (n, k)."""
    positive = found.pairs.eigenvectors[:, found.pairs.eigenvalues > 0]
    return np.asarray(positive * np.sqrt(found.basis.eigenvalues) / np.sqrt(weights)[:, None])


def rescored(found: Fit, problem: Problem) -> Scores:
    """The training rows, scored as new ones."""
    diagonal = np.diagonal(problem.fit_rows).copy() if problem.kernel == "precomputed" else None
    return score_block(found.basis, ArrayRows(problem.fit_rows.astype(float)), diagonal)


# What changes nothing


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
    return float(weights.max()) * n * d * steepest


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
