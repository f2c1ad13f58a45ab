"""Moments of rows that are seen block by block."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.numerics.moments import Moments, merge


def of_blocks(X: NDArray[Any], cuts: list[int]) -> Moments:
    blocks = [block for block in np.split(X, sorted(cuts)) if len(block)]
    return reduce(merge, map(Moments.of, blocks))


@given(seed=st.integers(0, 999), offset=st.sampled_from([0.0, 1e3, -1e8]), cuts=st.lists(st.integers(0, 50)))
def test_any_cut_gives_the_moments_of_the_whole(seed: int, offset: float, cuts: list[int]) -> None:
    """Merged moments are those of all rows, also where the mean is far larger than the spread."""
    X = np.random.default_rng(seed).standard_normal((50, 3)) + offset
    got = of_blocks(X, cuts)
    assert got.n == 50
    tolerance = 1e-12 * max(1.0, abs(offset))
    np.testing.assert_allclose(got.mean, X.mean(axis=0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(got.variance, X.var(axis=0), rtol=tolerance)
    np.testing.assert_allclose(got.total_variance, X.var(), rtol=tolerance)
    np.testing.assert_array_equal(got.minimum, X.min(axis=0))
    np.testing.assert_array_equal(got.maximum, X.max(axis=0))


def test_the_total_variance_is_around_one_mean() -> None:
    """The variance of all entries counts the distance between the columns' means."""
    X = np.array([[0.0, 10.0], [2.0, 12.0]])
    assert Moments.of(X).total_variance == pytest.approx(26.0)
    np.testing.assert_array_equal(Moments.of(X).variance, [1.0, 1.0])


def test_constant_columns_are_exact() -> None:
    """A column counts as constant only where all its values are equal to the last bit."""
    X = np.full((1000, 2), 0.1)
    X[7, 1] = np.nextafter(0.1, 1)
    np.testing.assert_array_equal(of_blocks(X, [1, 500]).constant, [True, False])


def test_float32_is_summed_in_float64() -> None:
    """Moments of float32 rows are those of the same values in float64."""
    X = (np.random.default_rng(0).standard_normal((1000, 2)) + 1e4).astype(np.float32)
    np.testing.assert_array_equal(Moments.of(X).m2, Moments.of(X.astype(np.float64)).m2)
