"""Whether a given kernel matrix is symmetric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kpca_stream.errors import DataError
from kpca_stream.stages import symmetry
from kpca_stream.stages.symmetry import check_symmetry
from kpca_stream.storage.rows import ArrayRows


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetry, "BLOCK_ROWS", 8)


def matrix(dtype: Any = np.float64) -> Any:
    A = np.random.default_rng(0).standard_normal((30, 4))
    K = A @ A.T
    return ((K + K.T) / 2).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_symmetric_matrix_passes(dtype: Any) -> None:
    """A matrix that equals its transpose, or but for rounding, is taken."""
    K = matrix(dtype)
    check_symmetry(ArrayRows(K))
    K[3, 20] *= 1 + (1e-8 if dtype is np.float32 else 1e-12)
    check_symmetry(ArrayRows(K))


@pytest.mark.parametrize("place", [(3, 20), (20, 3), (9, 10), (29, 0)])
def test_the_largest_asymmetry_is_named(place: tuple[int, int]) -> None:
    """The entry that differs most from its mirror image is named with the difference, wherever it lies."""
    K = matrix()
    K[1, 2] += 1e-7
    K[place] += 1e-3
    i, j = sorted(place)
    with pytest.raises(DataError, match=rf"K\[({i},{j}|{j},{i})\].* is 0\.001"):
        check_symmetry(ArrayRows(K))


def test_symmetry_is_judged_relative_to_the_largest_entry() -> None:
    """The same matrix in other units passes, or fails, alike."""
    K = matrix()
    K[3, 20] += 1e-12
    check_symmetry(ArrayRows(K * 1e12))
    K[3, 20] += 1e-6
    for unit in (1e12, 1.0, 1e-12):
        with pytest.raises(DataError, match="not symmetric"):
            check_symmetry(ArrayRows(K * unit))


def test_zeros_are_symmetric() -> None:
    """A matrix of zeros is no reason to divide by zero."""
    check_symmetry(ArrayRows(np.zeros((20, 20))))
