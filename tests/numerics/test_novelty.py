"""How unusual a row is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.numerics.novelty import (
    N_QUANTILES,
    Thresholds,
    hotelling_t2,
    reconstruction_error,
    thresholds,
)

Array = NDArray[Any]


def test_t2_is_the_sum_of_standardised_scores() -> None:
    """T² = Σ z² (n − 1)/μ; a zero eigenvalue is left out and gives no NaN."""
    scores = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0]])
    found = hotelling_t2(scores, np.array([4.0, 2.0, 0.0]), 11)
    np.testing.assert_allclose(found, [10 * (1 + 0.5), 10 * 4.5])


def test_t2_of_training_rows_sums_to_its_degrees_of_freedom() -> None:
    """Over the training rows T² adds up to k·(n − 1)."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    solution = reference.solve(reference.kernel("rbf", X, X, gamma=0.3), 4)
    assert hotelling_t2(solution.scores, solution.eigenvalues, 30).sum() == pytest.approx(4 * 29)


def test_error_is_what_the_scores_leave() -> None:
    """The reconstruction error is that of the definition, and 0 where rounding would make it negative."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    K = reference.kernel("rbf", X, X, gamma=0.3)
    solution = reference.solve(K, 4)
    expected = reference.reconstruction_error(solution, K, np.diagonal(K))
    similarity = np.diagonal(K) - 2 * solution.row_means + solution.grand_mean
    np.testing.assert_allclose(reconstruction_error(similarity, solution.scores), expected, atol=1e-12)
    assert expected.sum() == pytest.approx(solution.trace - solution.eigenvalues.sum())
    assert reconstruction_error(np.array([1.0]), np.array([[1.0 + 1e-9]]))[0] == 0


def test_either_limit_makes_a_row_novel() -> None:
    """A row is novel if it is above one of the limits, and by T² alone where there is no error."""
    limits = Thresholds(0.99, 1.0, 10.0, np.zeros(1), np.zeros(1))
    error, t2 = np.array([0.5, 1.0, 1.5, 0.5]), np.array([5.0, 10.0, 5.0, 11.0])
    assert limits.passed(error, t2).tolist() == [False, False, True, True]
    assert limits.passed(None, t2).tolist() == [False, False, False, True]


@pytest.mark.parametrize("quantile", [0.9, 0.99])
@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_both_limits_together_are_passed_by_the_asked_share(quantile: float, correlation: float) -> None:
    """Whether error and T² agree or not, 1 − quantile of the corrected rows pass, at equal tail levels."""
    rng = np.random.default_rng(0)
    n = 5000
    error = rng.exponential(size=n)
    t2 = correlation * error + (1 - correlation) * rng.exponential(size=n)
    found = thresholds(error, t2, n, quantile=quantile)
    slack = (1 - 1 / n - t2 / (n - 1)) ** 2
    assert found.passed(error / slack, t2 / slack).mean() == pytest.approx(1 - quantile, abs=2 / n)
    tails = [
        (values > limit).mean()
        for values, limit in ((error / slack, found.reconstruction_error), (t2 / slack, found.hotelling_t2))
    ]
    assert tails[0] == pytest.approx(tails[1], abs=2 / n)


@pytest.mark.parametrize("quantile", [0.8, 0.95, 0.99])
def test_weights_are_copies(quantile: float) -> None:
    """A row of weight w counts as w copies, in limits and quantiles."""
    rng = np.random.default_rng(1)
    error, t2 = rng.exponential(size=(2, 150))
    counts = rng.integers(1, 6, 150)
    total = int(counts.sum())
    weighted = thresholds(error, t2, total, quantile=quantile, weights=counts.astype(float))
    copied = thresholds(np.repeat(error, counts), np.repeat(t2, counts), total, quantile=quantile)
    assert weighted.reconstruction_error == pytest.approx(copied.reconstruction_error, rel=1e-9)
    assert weighted.hotelling_t2 == pytest.approx(copied.hotelling_t2, rel=1e-9)
    np.testing.assert_allclose(weighted.error_quantiles, copied.error_quantiles, rtol=1e-9)
    np.testing.assert_allclose(weighted.t2_quantiles, copied.t2_quantiles, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_equal_values_are_not_novel(value: float) -> None:
    """Training rows that are all alike (all components kept: error 0) pass no limit."""
    found = thresholds(np.full(50, value), np.full(50, 1.0), 50, quantile=0.9)
    corrected = (1 - 1 / 50 - 1 / 49) ** 2
    assert not found.passed(np.full(50, value / corrected), np.full(50, 1.0 / corrected)).any()


def test_errors_that_are_rounding_count_as_none() -> None:
    """Errors up to the named rounding give the limits and quantiles of errors that are 0."""
    rng = np.random.default_rng(2)
    t2, noise = rng.exponential(size=100), 1e-12 * rng.uniform(size=100)
    found = thresholds(noise, t2, 100, quantile=0.95, rounding=1e-12)
    expected = thresholds(np.zeros(100), t2, 100, quantile=0.95)
    assert not found.error_quantiles.any()
    assert found.hotelling_t2 == expected.hotelling_t2
    assert thresholds(noise, t2, 100, quantile=0.95).error_quantiles.any()


def test_quantiles_are_of_the_corrected_values() -> None:
    """1,001 quantiles from the smallest to the largest corrected value, in order."""
    rng = np.random.default_rng(0)
    error, t2 = rng.exponential(size=(2, 400))
    found = thresholds(error, t2, 400, quantile=0.95)
    slack = (1 - 1 / 400 - t2 / 399) ** 2
    for quantiles, values in ((found.error_quantiles, error / slack), (found.t2_quantiles, t2 / slack)):
        assert quantiles.shape == (N_QUANTILES,)
        assert (np.diff(quantiles) >= 0).all()
        np.testing.assert_allclose(quantiles[[0, 500, -1]], np.quantile(values, [0, 0.5, 1]))


def test_false_alarms_on_fresh_rows_are_as_asked() -> None:
    """Thresholds of a small training set are passed by about the asked 5 % of fresh rows, not by 8 %."""
    alarms, naive = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scales = np.array([5.0, 4, 3, 2.5, 2, *np.ones(10)])
        X, fresh = (rng.standard_normal((n, 15)) * scales for n in (120, 4000))
        K = X @ X.T
        solution = reference.solve(K, 5)
        k_new = fresh @ X.T
        e_new = reference.reconstruction_error(solution, k_new, (fresh**2).sum(axis=1))
        t2_new = hotelling_t2(reference.new_scores(solution, k_new), solution.eigenvalues, 120)
        error = reference.reconstruction_error(solution, K, np.diagonal(K))
        t2 = hotelling_t2(solution.scores, solution.eigenvalues, 120)
        alarms.append(thresholds(error, t2, 120, quantile=0.95).passed(e_new, t2_new).mean())
        limit_e, limit_t2 = (float(np.quantile(values, 0.975)) for values in (error, t2))
        uncorrected = Thresholds(0.95, limit_e, limit_t2, error, t2)
        naive.append(uncorrected.passed(e_new, t2_new).mean())
    assert 0.035 < np.mean(alarms) < 0.065
    assert np.mean(naive) > 0.08


def test_two_rows_have_finite_thresholds() -> None:
    """Rows whose leverage is all of 1 do not divide by zero."""
    found = thresholds(np.zeros(2), np.array([0.5, 0.5]), 2, quantile=0.99)
    assert np.isfinite([found.reconstruction_error, found.hotelling_t2]).all()
