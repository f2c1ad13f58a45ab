"""Rows that occur more than once, merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.numerics import duplicates
from kpca_stream.numerics.duplicates import Distinct, Merger, Merging, Places, TooMuch
from kpca_stream.numerics.sample import position_hashes

Array = NDArray[Any]
ANY = Merging(2**30, gives_up=False)


def levels(n_samples: int, n_features: int, dtype: Any = np.float64, n_levels: int = 3) -> Array:
    rng = np.random.default_rng(n_features)
    return rng.integers(0, n_levels, (n_samples, n_features)).astype(dtype)


def expected(X: Array) -> tuple[Array, Array, Array]:
    """Distinct rows in the order of their first copy, their counts, and the place of each row among them."""
    values, firsts, inverse, counts = np.unique(
        X, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(firsts)
    return values[order], counts[order], np.argsort(order)[inverse.ravel()]


def colliding(salt: int) -> Array:
    """Two different rows (2, 2) whose hashes are equal, found by turning the hash around."""
    mask = 2**64 - 1
    factors = [int(c) | 1 for c in position_hashes(np.arange(2), salt)]

    def mixed(word: int, factor: int) -> int:
        product = (word ^ (word >> 32)) * factor & mask
        return product ^ (product >> 29)

    def unmixed(value: int, factor: int) -> int:
        product = value
        for _ in range(3):
            product = value ^ (product >> 29)
        word = product * pow(factor, -1, 2**64) & mask
        return word ^ (word >> 32)

    first = [int(np.float64(x).view(np.uint64)) for x in (1.0, 2.0)]
    total = sum(mixed(word, factor) for word, factor in zip(first, factors, strict=True))
    other = int(np.float64(3.0).view(np.uint64))
    last = unmixed((total - mixed(other, factors[0])) & mask, factors[1])
    return np.array([first, [other, last]], np.uint64).view(np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 2, 3, 8])
def test_merging_is_counting(n_features: int, dtype: Any) -> None:
    """Distinct rows come in the order of their first copies, with their counts; each row finds its place."""
    X = levels(1000, n_features, dtype)
    values, counts, places = expected(X)
    found = Distinct.of(X)
    np.testing.assert_array_equal(found.X, values)
    np.testing.assert_array_equal(found.weights, counts)
    np.testing.assert_array_equal(Places(found.X)(X), places)
    assert found.X.dtype == dtype


def test_weights_of_copies_add_up() -> None:
    """A merged row has the sum of the weights of its copies."""
    X, weights = levels(500, 3), np.random.default_rng(0).uniform(0.1, 2, 500)
    found = Distinct.of(X, weights)
    np.testing.assert_allclose(found.weights, np.bincount(expected(X)[2], weights), rtol=1e-14)


def test_both_zeros_are_one() -> None:
    """-0.0 and 0.0 are the same value, and X stays as it was."""
    X = np.array([[-0.0, 1.0], [0.0, 1.0], [0.0, -1.0]])
    found = Distinct.of(X)
    assert found.weights.tolist() == [2, 1]
    assert not np.signbit(found.X[0]).any()
    assert np.signbit(X[0, 0])
    assert Places(found.X)(X).tolist() == [0, 0, 1]


def test_one_bit_makes_another_row() -> None:
    """Rows that differ in the last bit are not merged."""
    X = np.ones((2, 5))
    X[1, 4] = np.nextafter(1, 2)
    assert len(Distinct.of(X).X) == 2


def test_equal_hashes_are_not_equal_rows() -> None:
    """Different rows whose hashes are equal stay apart, and are told apart when they are looked for."""
    X = colliding(salt=0)
    assert np.isfinite(X).all()
    keys = duplicates._keys(X.view(np.uint64), 0)
    assert keys[0] == keys[1]
    repeated = X[[0, 1, 1, 0, 1]]
    found = Distinct.of(repeated)
    np.testing.assert_array_equal(found.X, X)
    assert found.weights.tolist() == [2, 3]
    assert Places(found.X)(repeated).tolist() == [0, 1, 1, 0, 1]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.data())
def test_parts_change_nothing(values: list[int], data: st.DataObject) -> None:
    """Rows that come in parts are merged as all of them at once, wherever they are cut."""
    X = np.array(values, float)[:, None] * [1.0, -2.0]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=6)))
    merger = Merger(ANY)
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        merger.add(Distinct.of(X[a:b]), np.inf)
    found, whole = merger.result(np.inf), Distinct.of(X)
    assert isinstance(found, Distinct)
    assert (found.X.tobytes(), found.weights.tobytes()) == (whole.X.tobytes(), whole.weights.tobytes())


@pytest.mark.parametrize(
    ("merging", "most_rows", "reason"),
    [(ANY, 26, "many"), (Merging(26 * 24, gives_up=False), np.inf, "large")],
)
def test_too_many_rows_are_given_up(merging: Merging, most_rows: float, reason: Any) -> None:
    """Beyond so many distinct rows, or bytes of them, merging ends with its reason, for good."""
    X = levels(1000, 3)
    assert len(Distinct.of(X).X) == 27
    merger = Merger(merging)
    for block in np.split(X, 10):
        merger.add(Distinct.of(block), most_rows)
    assert merger.result(most_rows) == merger.failure == TooMuch(reason)
    allowed = Merger(Merging(27 * 24, gives_up=False))
    allowed.add(Distinct.of(X), 27)
    assert isinstance(allowed.result(27), Distinct)


def test_a_failure_of_a_part_is_that_of_all() -> None:
    """Where one part was given up, all are."""
    merger = Merger(ANY)
    merger.add(Distinct.of(levels(10, 1)), np.inf)
    merger.add(TooMuch("large"), np.inf)
    merger.add(Distinct.of(levels(10, 1)), np.inf)
    assert merger.result(np.inf) == TooMuch("large")


def test_nothing_seen_is_nothing_merged() -> None:
    """Without rows there is no result."""
    assert Merger(ANY).result(np.inf) is None
