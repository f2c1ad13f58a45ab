"""Algebra of tall blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.numerics import tall

Array = NDArray[Any]
N_ROWS = tall.CHUNK_ROWS + 123


@pytest.fixture
def family() -> list[Array]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((N_ROWS, w)).astype(t)
        for w, t in ((3, np.float32), (2, np.float64), (1, np.float32))
    ]


@pytest.fixture
def whole(family: list[Array]) -> Array:
    return np.concatenate([block.astype(np.float64) for block in family], axis=1)


def test_family_is_its_joined_blocks(family: list[Array], whole: Array) -> None:
    """Inner products, combinations and the number of columns are those of the joined matrix, in float64."""
    Y = np.random.default_rng(1).standard_normal((6, 4))
    assert tall.n_columns(family) == 6
    np.testing.assert_allclose(tall.inner(family, family[1:]), whole.T @ whole[:, 3:], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(tall.combine(family, Y), whole @ Y, atol=1e-12)
    assert tall.combine(family, Y).dtype == np.float64


def test_residual_norms_are_those_of_the_definition(family: list[Array], whole: Array) -> None:
    """‖A u − θ u‖ from stored products, column by column."""
    rng = np.random.default_rng(2)
    products = [rng.standard_normal(block.shape).astype(block.dtype) for block in family]
    Y, theta = rng.standard_normal((6, 3)), np.array([2.0, -1.0, 0.0])
    P = np.concatenate([block.astype(np.float64) for block in products], axis=1)
    expected = np.linalg.norm(P @ Y - (whole @ Y) * theta, axis=0)
    np.testing.assert_allclose(tall.residual_norms(family, products, Y, theta), expected, rtol=1e-12)


def test_empty_family_has_no_columns_and_no_rows() -> None:
    """An empty family has nothing to go through."""
    assert tall.n_columns([]) == 0
    assert list(tall.chunks([])) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projection_leaves_nothing_along_the_basis(dtype: Any) -> None:
    """What is left is orthogonal to the basis, nearly so where the basis is rounded to float32."""
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((N_ROWS, 6)))[0].astype(dtype)
    F = 1e6 * Q[:, :2].astype(float) + rng.standard_normal((N_ROWS, 2))
    tall.project_out([Q[:, :4], Q[:, 4:]], F)
    assert np.abs(Q.T.astype(float) @ F).max() < (1e-6 if dtype == np.float32 else 1e-9)


def test_orthonormal_basis_spans_the_block() -> None:
    """Orthonormal columns that span what the block spans."""
    F = np.random.default_rng(4).standard_normal((50, 4)) @ np.diag([1e8, 1.0, 1e-3, 1e-5])
    Q = tall.orthonormal(F, floor=0.0)
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-13)
    assert (np.linalg.norm(F - Q @ (Q.T @ F), axis=0) < 1e-12 * np.linalg.norm(F, axis=0)).all()


@pytest.mark.parametrize(("floor", "expected"), [(0.0, 3), (1e-7, 2), (0.5, 1), (100.0, 0)])
def test_directions_below_the_floor_are_left_out(floor: float, expected: int) -> None:
    """Singular values 10, 1e-3, 1e-9 and 0: only those above the floor are kept, 0 never."""
    rng = np.random.default_rng(5)
    U = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    W = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    F = U * [10.0, 1e-3, 1e-9, 0.0] @ W
    assert tall.orthonormal(F, floor).shape == (30, expected)


def test_zero_block_and_wide_block() -> None:
    """A block of zeros has no direction, one with more columns than rows at most as many as rows."""
    assert tall.orthonormal(np.zeros((5, 2)), 0.0).shape == (5, 0)
    assert tall.orthonormal(np.random.default_rng(6).standard_normal((3, 8)), 0.0).shape == (3, 3)
