"""Laws of kernel PCA on generated fits, against the formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from compared import distinguished, fitted, noise, of, rescored, scored, training_scores, weights_of
from examples import few_and_many, for_all
from numpy.typing import NDArray
from reference import Solution
from strategies import Precision, Problem, Traits, problems

from kpca_stream.errors import DataError

Array = NDArray[Any]


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
            errors = np.asarray(result.reconstruction_error)
            np.testing.assert_allclose(errors, error, rtol=0, atol=4 * tolerance)

    for_all(n_examples, law, problems())


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


def at_the_edge(kernel: str, precision: Precision, *, gamma: float, tile_rows: int, **more: Any) -> Problem:
    """A Lanczos fit of few rows of rank 1, changed in some traits."""
    plain: dict[str, Any] = {"seed": 0, "scale": 1.0, "offset": 0.0, "rank": 1, "n_distinct": 60}
    plain |= {"decimals": None, "dtype": "float64", "constant_column": False}
    weighted, n_components = more.pop("weighted", False), more.pop("n_components", 1)
    traits = Traits(**{**plain, **more})
    return Problem(traits, kernel, gamma, 1, 0.0, n_components, weighted, tile_rows, "lanczos", precision)


EDGES = {
    "exponents that cancel": [
        at_the_edge("rbf", "float64", gamma=g, tile_rows=5, n_samples=11, n_features=6, n_distinct=2)
        for g in (1e3, 2.5e3, 1e4, 1e5)
    ],
    "little but rounding": [
        at_the_edge(
            "cosine",
            "float32",
            gamma=1.0,
            tile_rows=1,
            n_samples=23,
            n_features=3,
            offset=30.0,
            rank=rank,
            decimals=1,
            n_components=3,
            weighted=True,
        )
        for rank in (2, 3, 4)
    ],
}


@pytest.mark.parametrize("edge", EDGES)
def test_a_solve_at_the_edge_of_rounding_ends(edge: str) -> None:
    """Where rounding leaves no more digits, Lanczos ends with what can be known, and nothing is refused."""
    for problem in EDGES[edge]:
        found, K, weights, truth = of(problem)
        mu = found.pairs.eigenvalues
        atol = noise(problem, K, weights)
        np.testing.assert_allclose(mu, np.maximum(truth.eigenvalues[: len(mu)], 0), rtol=0, atol=atol)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_any_number_of_copies_of_one_row(kernel: str, precision: Precision) -> None:
    """Of a row and its copies, whose computed mean is not quite that row, nothing is left to explain."""
    rng = np.random.default_rng(0)
    for n_copies in range(2, 30):
        X = np.tile(rng.standard_normal(4), (n_copies, 1))
        one = at_the_edge(kernel, precision, gamma=1e-7, tile_rows=1, n_samples=2, n_features=4, n_distinct=1)
        np.testing.assert_array_equal(fitted(one, X=X).pairs.eigenvalues, 0)
