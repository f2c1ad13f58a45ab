"""Landmarks that no kernel decides on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kpca_stream.errors import ConfigError
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.landmarks import (
    distinct,
    kmeans,
    own_indices,
    own_rows,
    uniform,
    uniform_indices,
)

Array = NDArray[Any]


def rows(n_samples: int = 500, n_features: int = 3) -> Array:
    return np.random.default_rng(0).standard_normal((n_samples, n_features))


def clusters() -> tuple[Array, Array]:
    """Rows around five centres of which the columns have sizes of their own, and the centres."""
    rng = np.random.default_rng(1)
    centres = rng.permuted(np.tile(np.linspace(-9, 9, 5)[:, None], (1, 3)), axis=0)
    X = np.repeat(centres, 200, axis=0) + 0.1 * rng.standard_normal((1000, 3))
    return X * [1.0, 1e3, 1e-3] + [5.0, -4e4, 2.0], centres * [1.0, 1e3, 1e-3] + [5.0, -4e4, 2.0]


def standardising(X: Array) -> Preparation:
    spread = X.std(axis=0)
    return Preparation(X.mean(axis=0), np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0))


def test_uniform_landmarks_are_rows_each_once() -> None:
    """So many distinct rows of the given ones, for each seed others."""
    X = rows()
    found, other = uniform(X, 40, 0), uniform(X, 40, 1)
    assert found.shape == (40, 3)
    assert len(np.unique(np.concatenate((X, found)), axis=0)) == 500
    assert len(np.unique(found, axis=0)) == 40
    assert not np.array_equal(found, other)


def test_fewer_uniform_landmarks_are_the_first_of_more() -> None:
    """A smaller set is the beginning of a larger one, of rows and of positions."""
    np.testing.assert_array_equal(uniform(rows(), 10, 3), uniform(rows(), 90, 3)[:10])
    np.testing.assert_array_equal(uniform_indices(500, 10, 3), uniform_indices(500, 600, 3)[:10])


def test_uniform_positions_are_even() -> None:
    """Over many seeds every position is drawn about as often."""
    counts = np.bincount(np.concatenate([uniform_indices(20, 5, seed) for seed in range(2000)]), minlength=20)
    assert abs(counts - 500).max() < 100


@pytest.mark.parametrize("choose", [uniform, lambda X, m, seed: kmeans(Preparation(), X, m, seed)])
def test_fewer_distinct_rows_than_landmarks_all_come_back(choose: Any) -> None:
    """Repetitions are left out, and fewer landmarks than asked for are harmless."""
    X = np.repeat(rows(7), 30, axis=0)
    found = choose(X, 10, 0)
    assert len(found) == 7
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(X, axis=0))
    assert choose(np.zeros((9, 3)), 4, 0).tolist() == [[0.0, 0.0, 0.0]]


def test_minus_zero_is_zero() -> None:
    """Rows that differ in the sign of a zero are the same."""
    assert len(distinct(np.array([[0.0, 1.0], [-0.0, 1.0]]))) == 1


def test_centres_are_found_as_raw_rows() -> None:
    """Clusters that only standardised rows show come back in the units of the data."""
    X, centres = clusters()
    found = kmeans(standardising(X), X, 5, 0)
    order, expected = np.argsort(found[:, 0]), np.argsort(centres[:, 0])
    assert (abs(found[order] - centres[expected]) < 0.05 * X.std(axis=0)).all()


def test_a_constant_column_keeps_its_value() -> None:
    """A column that the preparation multiplies by zero has the same value in every centre."""
    X = np.column_stack((rows(), np.full(500, 7.5)))
    assert (kmeans(standardising(X), X, 20, 0)[:, 3] == 7.5).all()


def test_centres_follow_the_seed_and_nothing_else() -> None:
    """The same to the bit again, for every number of threads and every order of the rows."""
    X = rows(6000)
    expected = kmeans(Preparation(), X, 50, 0)
    assert expected.shape == (50, 3)
    for n_threads in (1, 2):
        with threadpool_limits(limits=n_threads, user_api="openmp"):
            np.testing.assert_array_equal(kmeans(Preparation(), X, 50, 0), expected)
    np.testing.assert_array_equal(kmeans(Preparation(), X[::-1], 50, 0), expected)
    assert not np.array_equal(kmeans(Preparation(), X, 50, 1), expected)


def test_repeated_rows_weigh_as_much_as_they_are() -> None:
    """One centre lies near the mean of all rows, repetitions counted."""
    X = rows(3000)
    X[:1500] += 10.0
    X = np.concatenate((X, *[X[:1500]] * 8))
    np.testing.assert_allclose(kmeans(Preparation(), X, 1, 0)[0], X.mean(axis=0), atol=0.3)


def test_one_more_row_than_landmarks_gives_them_all() -> None:
    """Where landmarks are nearly as many as rows, none of them is lost."""
    assert len(kmeans(Preparation(), rows(61), 60, 0)) == 60


def test_own_rows_come_back_without_repetitions() -> None:
    """The user's rows, as float64, in their order."""
    found = own_rows([[2, 1], [0, 1], [2, 1]], 2)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[2, 1], [0, 1]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 4)), r"shape \(3, 4\).*\(m, 2\)"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.array([["a", "b"]]), "type <U1"),
        (np.array([[1j, 0]]), "type complex128"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "row 1 has NaN"),
        (np.array([[np.inf, 1.0]]), "row 0 has NaN or infinity"),
    ],
)
def test_own_rows_are_checked(values: Array, message: str) -> None:
    """Rows of another shape, type, or without finite values are refused, and the reason named."""
    with pytest.raises(ConfigError, match=message):
        own_rows(values, 2)


def test_own_positions_come_back_as_they_are() -> None:
    """Whole numbers, also where their type is a float's, in their order."""
    found = own_indices([4.0, 0.0, 2.0], 5)
    assert found.dtype == np.int64
    assert found.tolist() == [4, 0, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 5], "got 5, expected whole numbers from 0 to 4"),
        ([-1, 2], "got -1"),
        ([0.5], "got 0.5"),
        ([np.nan], "got nan"),
        ([1, 2, 1], "1 occurs 2 times"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
        ([True], "type bool"),
    ],
)
def test_own_positions_are_checked(values: Any, message: str) -> None:
    """Numbers that are not whole, not positions, or given twice are refused, and named."""
    with pytest.raises(ConfigError, match=message):
        own_indices(values, 5)
