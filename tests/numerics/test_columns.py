"""Linear predictions of a column by the others tell what a kernel of all columns does not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.numerics.columns import Columns

Array = NDArray[np.float64]


def rows(n_rows: int, seed: int, d: int = 6) -> Array:
    rng, mixing = np.random.default_rng(seed), np.random.default_rng(99).standard_normal((2, d))
    return np.asarray(rng.standard_normal((n_rows, 2)) @ mixing + 0.2 * rng.standard_normal((n_rows, d)))


def ratios(X: Array, new: Array) -> Array:
    columns = Columns.of(X)
    assert columns is not None
    found = columns.ratios(new)
    assert found is not None
    return found


@pytest.mark.parametrize("n_rows", [60, 2000])
def test_like_rows_fit_as_well(n_rows: int) -> None:
    """Fresh rows of the same source are off as far as trained ones, even where these are few."""
    found = np.mean([ratios(rows(n_rows, seed), rows(500, 1000 + seed)) for seed in range(20)], axis=0)
    np.testing.assert_allclose(found, 1.0, atol=0.15)


@pytest.mark.parametrize("column", [0, 4])
def test_worst_column_is_the_poisoned_one(column: int) -> None:
    """A shuffled, a stuck and a rescaled column each stand out, and are named."""
    X, new = rows(1000, 0), rows(300, 1)
    shuffled, stuck, rescaled = new.copy(), new.copy(), new.copy()
    np.random.default_rng(0).shuffle(shuffled[:, column])
    stuck[:, column] = stuck[0, column]
    rescaled[:, column] *= 1000
    for poisoned in (shuffled, stuck, rescaled):
        found = ratios(X, poisoned)
        assert int(np.argmax(found)) == column
        assert found[column] > 5


def test_units_do_not_matter() -> None:
    """Columns in other units, in trained rows and new ones alike, give the same ratios."""
    units, offset = np.array([1e-6, 1.0, 1e6, 10.0, 1.0, 3.0]), np.arange(6.0)
    X, new = rows(1000, 0), rows(300, 1)
    np.testing.assert_allclose(ratios(X * units + offset, new * units + offset), ratios(X, new), rtol=1e-6)


def test_copied_and_constant_columns_are_no_trouble() -> None:
    """A column that is a copy of another one, or never changes, has a ratio near that of training."""
    X, new = rows(1000, 0), rows(300, 1)
    X, new = (np.column_stack([Z, Z[:, 0], np.ones(len(Z))]) for Z in (X, new))
    found = ratios(X, new)
    assert np.isfinite(found).all()
    assert found.max() < 2


def test_a_constant_is_one_for_its_rounding() -> None:
    """A constant whose mean is rounded, read in another precision, is no column that fits badly."""
    X, new = rows(1000, 0), rows(300, 1)
    X, new = (np.column_stack([Z, np.full(len(Z), value)]) for Z, value in ((X, 0.1), (new, np.float32(0.1))))
    assert X[:, -1].std() > 0
    assert ratios(X, new).max() < 2


def test_too_few_rows_tell_nothing() -> None:
    """Fewer than four trained rows for each column, a single column, or fewer than 30 new rows: nothing."""
    assert Columns.of(rows(23, 0)) is None
    assert Columns.of(rows(1000, 0)[:, :1]) is None
    columns = Columns.of(rows(1000, 0))
    assert columns is not None
    assert columns.ratios(rows(29, 1)) is None
