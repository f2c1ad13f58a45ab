"""Means and the centred operator, without and with weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.numerics.kernels import Linear, Preparation, Rbf
from kpca_stream.stages.centering import CentredGram, Means, centre

Array = NDArray[Any]


def matrix(n: int = 20, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal((n, 3)) + 1
    return reference.kernel("rbf", X, X, gamma=0.3)


class Counted:
    """K·V, and how wide the blocks were."""

    def __init__(self, K: Array) -> None:
        self.K = K
        self.widths: list[int] = []

    def __call__(self, V: Array) -> Array:
        self.widths.append(V.shape[1])
        return np.asarray(self.K @ V)


def operator(K: Array, weights: Array | None = None) -> CentredGram:
    weights = np.ones(len(K)) if weights is None else weights
    return CentredGram(Counted(K), np.diagonal(K).copy(), weights, epsilon=2.0**-52)


def some_weights(n: int = 20) -> Array:
    return np.random.default_rng(5).uniform(0.2, 3.0, n)


@pytest.mark.parametrize("weights", [None, some_weights()])
def test_operator_is_the_centred_matrix(weights: Array | None) -> None:
    """Its products are those of S H K Hᵀ S, the first and all that follow."""
    K = matrix()
    A = operator(K, weights)
    for seed in (1, 2):
        V = np.random.default_rng(seed).standard_normal((20, 4))
        np.testing.assert_allclose(A(V), reference.centred(K, weights) @ V, atol=1e-13)


def test_means_cost_no_pass() -> None:
    """The first product carries one column more, and nothing is multiplied for the means."""
    A = operator(matrix())
    A(np.eye(20)[:, :4])
    A(np.eye(20)[:, :2])
    _ = A.means, A.trace
    assert A.multiply.widths == [5, 2]  # type: ignore[attr-defined]


def test_means_alone_cost_one_column() -> None:
    """Asked for before any product, the means are one product with one column, and are kept."""
    A = operator(matrix())
    _ = A.means, A.trace
    A(np.eye(20)[:, :4])
    assert A.multiply.widths == [1, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize("weights", [None, some_weights()])
def test_means_are_those_of_the_matrix(weights: Array | None) -> None:
    """Row means, grand mean and trace are those of the definitions."""
    K = matrix()
    A = operator(K, weights)
    expected = reference.solve(K, 3, weights)
    np.testing.assert_allclose(A.means.row_means, expected.row_means, rtol=1e-13)
    assert A.means.grand_mean == pytest.approx(expected.grand_mean)
    assert A.trace == pytest.approx(expected.trace)


def test_worked_example_of_means() -> None:
    """For x = (−2, −1, 0, 1, 2) and xy + (xy)² the row means are (8, 2, 0, 2, 8), the grand mean is 4."""
    x = np.array([-2.0, -1, 0, 1, 2])
    K = np.outer(x, x) + np.outer(x, x) ** 2
    means = operator(K).means
    np.testing.assert_allclose(means.row_means, [8, 2, 0, 2, 8])
    assert means.grand_mean == pytest.approx(4)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_weights_are_copies(seed: int, n: int) -> None:
    """A row of weight w acts as w copies: the same means, trace and nonzero spectrum."""
    K = matrix(n, seed)
    counts = np.random.default_rng(seed).integers(1, 5, n)
    repeated = np.repeat(np.repeat(K, counts, axis=0), counts, axis=1)
    A, B = operator(K, counts.astype(float)), operator(repeated)
    np.testing.assert_allclose(np.repeat(A.means.row_means, counts), B.means.row_means, rtol=1e-12)
    assert A.means.grand_mean == pytest.approx(B.means.grand_mean, rel=1e-12)
    assert A.trace == pytest.approx(B.trace, rel=1e-10, abs=1e-12)
    spectrum = np.linalg.eigvalsh(A(np.eye(n)))[::-1]
    of_copies = np.linalg.eigvalsh(B(np.eye(len(repeated))))[::-1]
    np.testing.assert_allclose(spectrum, of_copies[:n], atol=1e-11)


@pytest.mark.parametrize("weights", [None, some_weights()])
def test_columns_of_a_product_sum_to_zero(weights: Array | None) -> None:
    """What the operator gives is orthogonal to √w, and the direction √w gives 0."""
    K = matrix() + 1e6
    root = np.ones(20) if weights is None else np.sqrt(weights)
    A = operator(K, weights)
    V = np.random.default_rng(1).standard_normal((20, 4))
    assert np.abs(root @ A(V)).max() < 1e-7
    assert np.abs(A(root[:, None])).max() < 1e-7


@pytest.mark.parametrize("weights", [None, some_weights()])
def test_small_matrix_is_centred_as_a_whole(weights: Array | None) -> None:
    """The whole centred matrix is the definition's, symmetric to the bit, and its rows sum to zero."""
    K = matrix() + 1e3
    w = np.ones(20) if weights is None else weights
    found = centre(K, w)
    np.testing.assert_allclose(found, reference.centred(matrix(), weights), atol=1e-12)
    assert np.array_equal(found, found.T)
    assert np.abs(found @ np.sqrt(w)).max() < 1e-13


@pytest.mark.parametrize("weights", [None, some_weights()])
def test_start_is_cleared_of_the_removed_direction(weights: Array | None) -> None:
    """A block without its part along √w is orthogonal to it, and clearing it twice changes nothing."""
    A = operator(matrix(), weights)
    V = np.random.default_rng(1).standard_normal((20, 4))
    cleared = A.centred(V)
    assert np.abs(A.root @ cleared).max() < 1e-13
    np.testing.assert_allclose(A.centred(cleared), cleared, atol=1e-14)
    np.testing.assert_allclose(A(cleared), A(V), atol=1e-12)


@pytest.mark.parametrize("weights", [None, some_weights()])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_means_of_the_kernel_follow_from_those_of_its_reduced_form(name: str, weights: Array | None) -> None:
    """From the means of K' and the offsets come the means of K itself; trace and operator are the same."""
    X = np.random.default_rng(0).standard_normal((20, 3)) + 2
    kernel = Linear(Preparation(X.mean(axis=0))) if name == "linear" else Rbf(Preparation(), 0.01, 1.0)
    K = reference.kernel(name, X, X, gamma=0.01)
    reduced = operator(kernel.matrix(X, X), weights)
    w = np.ones(20) if weights is None else weights
    a = kernel.offset(kernel.operand(X, float))
    means = reduced.means.unreduced(a, w)
    expected = reference.solve(K, 3, weights)
    np.testing.assert_allclose(means.row_means, expected.row_means, rtol=1e-12)
    assert means.grand_mean == pytest.approx(expected.grand_mean, rel=1e-12)
    assert reduced.trace == pytest.approx(expected.trace, rel=1e-9)
    np.testing.assert_allclose(reduced(np.eye(20)), reference.centred(K, weights), atol=1e-12)


def test_rounding_is_that_of_a_product() -> None:
    """The size that is named bounds what float32 products are off by, and not by orders of magnitude."""
    K = matrix(400)
    single = K.astype(np.float32)
    A = CentredGram(
        lambda V: (single @ V.astype(np.float32)).astype(float),
        np.diagonal(K).copy(),
        np.ones(400),
        epsilon=float(np.finfo(np.float32).eps),
    )
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((400, 5)))[0].astype(np.float32).astype(float)
    off = np.linalg.norm(A(V) - reference.centred(K) @ V, axis=0).max()
    assert off < A.rounding < 100 * off


def test_means_of_row_sums() -> None:
    """K·w and w give K·w/N and its weighted mean."""
    means = Means.of(np.array([6.0, 12.0]), np.array([1.0, 2.0]))
    assert means.row_means.tolist() == [2, 4]
    assert means.grand_mean == pytest.approx(10 / 3)
