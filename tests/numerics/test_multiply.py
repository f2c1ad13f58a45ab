"""Tiles times blocks of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.numerics.kernels import Preparation, Rbf
from kpca_stream.numerics.multiply import (
    STRIP_ROWS,
    computed_strips,
    multiply_tile,
    stored_strips,
    strip_slices,
)

Array = NDArray[Any]
N_I, N_J = 2 * STRIP_ROWS + 77, 130


def sides(n_i: int = N_I, n_j: int = N_J) -> tuple[Rbf, Array, Array]:
    rng = np.random.default_rng(0)
    return Rbf(Preparation(), 0.1), rng.standard_normal((n_i, 3)), rng.standard_normal((n_j, 3))


def product(strips: Any, V_i: Array, V_j: Array, *, both: bool = True) -> tuple[Array, Array]:
    P_i, P_j = np.zeros((len(V_i), V_i.shape[1])), np.zeros((len(V_j), V_j.shape[1]))
    multiply_tile(strips, V_i, V_j, P_i, P_j if both else None)
    return P_i, P_j


@pytest.mark.parametrize("n_rows", [1, STRIP_ROWS - 1, STRIP_ROWS, STRIP_ROWS + 1, N_I])
def test_strips_cover_the_rows(n_rows: int) -> None:
    """Strips follow one another from the first row to the last, none longer than the limit."""
    slices = list(strip_slices(n_rows))
    assert [row for s in slices for row in range(s.start, s.stop)] == list(range(n_rows))
    assert max(s.stop - s.start for s in slices) <= STRIP_ROWS


@pytest.mark.parametrize("width", [1, 7])
def test_one_tile_serves_both_of_its_sides(width: int) -> None:
    """T·V_j and Tᵀ·V_i are those of the whole tile."""
    kernel, X, Y = sides()
    T = kernel.matrix(X, Y)
    rng = np.random.default_rng(1)
    V_i, V_j = rng.standard_normal((N_I, width)), rng.standard_normal((N_J, width))
    strips = computed_strips(
        kernel, kernel.operand(X, float), kernel.operand(Y, float), float, diagonal=False
    )
    P_i, P_j = product(strips, V_i, V_j)
    np.testing.assert_allclose(P_i, T @ V_j, atol=1e-11)
    np.testing.assert_allclose(P_j, T.T @ V_i, atol=1e-11)


def test_diagonal_tile_serves_once() -> None:
    """Without a second sum the product is T·V_j alone, added to what was there."""
    T = np.random.default_rng(0).standard_normal((6, 6))
    V = np.eye(6)
    P = np.ones((6, 6))
    multiply_tile(stored_strips(T), V, V, P, None)
    assert np.array_equal(P, T + 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kept_and_computed_tiles_give_the_same_bits(dtype: Any) -> None:
    """Products with a tile as it is computed, as it is being kept, and as it was kept have equal bits."""
    kernel, X, Y = sides()
    rng = np.random.default_rng(1)
    V_i, V_j = (rng.standard_normal((n, 5)).astype(dtype) for n in (N_I, N_J))
    T = np.empty((N_I, N_J), dtype=dtype)

    def computed(out: NDArray[Any] | None = None) -> Any:
        A, B = kernel.operand(X, dtype), kernel.operand(Y, dtype)
        return computed_strips(kernel, A, B, dtype, diagonal=False, out=out)

    first = product(computed(T), V_i, V_j)
    for strips in (computed(), stored_strips(T)):
        again = product(strips, V_i, V_j)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_diagonal_entries_are_exact_in_every_strip() -> None:
    """The kernel's own diagonal stands in a diagonal tile of several strips, and nowhere else."""
    kernel, X, _ = sides()
    A, B = kernel.operand(X, np.float32), kernel.operand(X, np.float32)
    T = np.concatenate([s.copy() for _, s in computed_strips(kernel, A, B, np.float32, diagonal=True)])
    assert np.array_equal(np.diagonal(T), np.ones(N_I, np.float32))
    assert np.abs(T - kernel.matrix(X, X)).max() < 2e-6


def test_sums_of_strips_are_in_float64() -> None:
    """Many float32 strips whose sum float32 could not hold are added up without loss."""
    n_strips = 40
    T = np.full((n_strips * STRIP_ROWS, 1), 2.0**24, dtype=np.float32)
    T[-STRIP_ROWS:] = 2.0**-9
    V_i, V_j = np.ones((len(T), 1), np.float32), np.ones((1, 1), np.float32)
    _, P_j = product(stored_strips(T), V_i, V_j)
    assert P_j[0, 0] == (n_strips - 1) * STRIP_ROWS * 2.0**24 + STRIP_ROWS * 2.0**-9
