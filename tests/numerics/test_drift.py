"""New rows beside those of a basis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from kpca_stream.errors import DataError
from kpca_stream.numerics.drift import (
    distance,
    drift,
    ratio_of_means,
    residual_trace_share,
    sampling_bound,
)
from kpca_stream.numerics.kernels import Laplacian, Linear, Preparation, Rbf
from kpca_stream.numerics.novelty import N_QUANTILES, Thresholds, thresholds
from kpca_stream.numerics.nystrom import FeatureMap, Statistics, embed

Array = NDArray[Any]

GRID = np.linspace(0, 1, N_QUANTILES)


def quantiles(values: Array) -> Array:
    return np.quantile(values, GRID)


def trained(error: Array, t2: Array) -> Thresholds:
    return Thresholds(0.99, np.inf, np.inf, quantiles(error), quantiles(t2))


@pytest.mark.parametrize("seed", range(20))
def test_the_same_source_stays_within_its_sampling_bound(seed: int) -> None:
    """Fresh rows of the same distribution pass the bound hardly ever, and have a ratio near one."""
    rng = np.random.default_rng(seed)
    before, now = rng.gamma(2, size=(2, 20_000)), rng.gamma(2, size=(2, 1_500))
    found = drift(trained(*before), *now, n_training=20_000)
    assert found.distance <= found.sampling_bound + 1 / N_QUANTILES
    assert found.error_ratio == pytest.approx(1, abs=0.1)
    assert found.t2_ratio == pytest.approx(1, abs=0.1)


def test_the_bound_is_passed_as_seldom_as_it_says() -> None:
    """At a chance of 5 % no more than that share of unchanged samples passes it."""
    rng = np.random.default_rng(0)
    bound = sampling_bound(200, 10_000, chance=0.05)
    told = [
        float(distance(quantiles(rng.exponential(size=10_000)), rng.exponential(size=200)) or 0)
        for _ in range(200)
    ]
    assert np.mean(np.array(told) > bound) <= 0.08
    assert max(told) > 0.7 * bound


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 3.0, 1000.0])
def test_a_scaled_source_has_its_scale_as_ratio(factor: float) -> None:
    """Values times a factor have that ratio of means, whatever their tail."""
    values = np.random.default_rng(1).pareto(1.5, 5000)
    found = drift(trained(values, values), factor * values, factor * values, n_training=5000)
    assert found.error_ratio == pytest.approx(factor)
    assert found.t2_ratio == pytest.approx(factor)
    assert found.is_certain == (factor != 1)


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0, 20.0])
def test_the_distance_is_that_of_kolmogorov_and_smirnov(shift: float) -> None:
    """To the step of the quantiles it is the distance of the two samples."""
    rng = np.random.default_rng(2)
    before, now = rng.gamma(3, size=8000), rng.gamma(3, size=900) + shift
    expected = stats.ks_2samp(before, now).statistic
    assert distance(quantiles(before), now) == pytest.approx(expected, abs=2 / N_QUANTILES)


@pytest.mark.parametrize("law", ["discrete", "few", "constant"])
def test_equal_values_are_one_jump(law: str) -> None:
    """Where many rows have the same value, up to rounding, the same rows have no distance."""
    rng = np.random.default_rng(3)
    levels = {"discrete": rng.poisson(3, 4000), "few": rng.integers(0, 2, 4000), "constant": np.full(10, 7)}
    before = levels[law] * 0.1
    assert distance(quantiles(before), before * (1 + 1e-12)) <= 1.5 / N_QUANTILES
    moved = distance(quantiles(before), before + 0.05)
    assert moved == pytest.approx(stats.ks_2samp(before, before + 0.05).statistic, abs=2 / N_QUANTILES)


def test_rows_beyond_all_training_rows_are_as_far_as_can_be() -> None:
    """A source that has nothing in common with the training rows has distance one."""
    values = np.random.default_rng(4).uniform(size=500)
    assert distance(quantiles(values), values + 2) == 1
    assert distance(quantiles(values), values - 2) == 1
    assert distance(quantiles(np.zeros(5)), np.array([1.0])) == 1


def test_a_complete_model_does_not_drift_by_rounding() -> None:
    """Where all training errors are rounding, new ones of that size are none, and larger ones are told."""
    t2 = np.random.default_rng(5).exponential(size=300)
    limits = thresholds(np.full(300, 1e-14), t2, 300, quantile=0.99, rounding=1e-12)
    found = drift(limits, np.full(50, 5e-13), t2[:50], n_training=300)
    assert (found.error_distance, found.error_ratio) == (0, None)
    assert drift(limits, np.full(50, 1e-3), t2[:50], n_training=300).error_distance == 1


def test_what_is_not_known_is_none() -> None:
    """Without errors, or without quantiles, nothing is told of them."""
    values = np.ones(10)
    found = drift(trained(values, values), None, values, n_training=10)
    assert (found.error_ratio, found.error_distance) == (None, None)
    unknown = drift(Thresholds.unknown(), values, values, n_training=10)
    assert (unknown.error_ratio, unknown.t2_distance, unknown.distance) == (None, None, 0)
    assert ratio_of_means(np.zeros(5), values) is None


@pytest.mark.parametrize("values", [np.empty(0), np.array([1.0, np.nan]), np.array([np.inf])])
def test_no_rows_and_values_that_are_none_are_refused(values: Array) -> None:
    """Nothing is told from no rows, or from values that are not finite."""
    limits = trained(np.ones(3), np.ones(3))
    with pytest.raises(DataError, match="drift: hotelling_t2"):
        drift(limits, None, values, n_training=3)
    with pytest.raises(DataError, match="drift: reconstruction_error"):
        drift(limits, values, np.ones(1), n_training=3)


@pytest.mark.parametrize(
    "kernel",
    [
        Rbf(Preparation(np.ones(3)), 0.3),
        Rbf(Preparation(np.ones(3)), 1e-4, 1.0),
        Laplacian(Preparation(), 0.2),
        Linear(Preparation(np.full(3, 0.5))),
    ],
)
def test_the_share_beyond_landmarks_is_that_of_a_fit(kernel: Any) -> None:
    """Of the rows that were added up, it is the residual trace that the statistics tell."""
    rng = np.random.default_rng(6)
    X, Z = rng.standard_normal((3000, 3)), rng.standard_normal((12, 3))
    features = FeatureMap.of(kernel, Z, np.float64)
    A = kernel.operand(X, np.float64)
    block = kernel.matrix(X, Z) - features.centre, None, kernel.diagonal(A), kernel.offset(A)
    statistics = Statistics.of([block], features.centre)
    expected = embed(features, statistics).residual_trace / (statistics.tau + 2 * statistics.offset)
    assert residual_trace_share(features, X) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_landmarks_tell_themselves_and_nothing_far_away() -> None:
    """Nothing of the landmarks is beyond them, and all of rows that are like none."""
    Z = np.random.default_rng(7).standard_normal((20, 3))
    features = FeatureMap.of(Rbf(Preparation(), 0.5), Z, np.float64)
    assert residual_trace_share(features, Z) == pytest.approx(0, abs=1e-10)
    assert residual_trace_share(features, Z + 100) == pytest.approx(1)
    assert residual_trace_share(features, Z[:0]) == 0
