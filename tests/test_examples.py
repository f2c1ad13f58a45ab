"""Worked examples whose numbers can be checked by hand, through `KernelPCA`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_circles

from kpca_stream import KernelPCA
from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.numerics.novelty import hotelling_t2

Array = NDArray[Any]

EXACT = 1e-12


def product_and_square(x: Array, y: Array) -> float:
    """k(x, y) = xy + (xy)²."""
    dot = float(x @ y)
    return dot + dot**2


def column(*values: float) -> Array:
    return np.array(values, dtype=float)[:, None]


def up_to_signs(found: Any, expected: Any, tolerance: float = EXACT) -> None:
    found, expected = np.asarray(found), np.asarray(expected, dtype=float)
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, rtol=0, atol=tolerance)


def best_cut(scores: Array, labels: Array) -> float:
    """The share of rows that the best single threshold on one score puts on the right side, in percent."""
    ordered = labels[np.argsort(scores)] == 1
    right = np.concatenate([[0], np.cumsum(ordered)]) + (~ordered).sum() - np.cumsum(np.r_[False, ~ordered])
    return float(100 * max(right.max(), len(labels) - right.min()) / len(labels))


@pytest.fixture(params=["dense", "lanczos"])
def solver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_three_points_on_a_line(solver: str) -> None:
    """Rows (−1, 0, 1) with xy + (xy)² have μ = 2 and 2/3, and every number that follows from them."""
    X = column(-1, 0, 1)
    model = KernelPCA(2, kernel=product_and_square, eigen_solver=solver)
    scores = model.fit_transform(X)
    np.testing.assert_allclose(model.eigenvalues_, [2, 2 / 3], rtol=EXACT)
    a = model.eigenvectors_
    centred = np.array([[10, -2, -8], [-2, 4, -2], [-8, -2, 10]]) / 9
    np.testing.assert_allclose(a * model.eigenvalues_ @ a.T, centred, atol=EXACT)
    up_to_signs(a / np.sqrt(model.eigenvalues_), [[-1 / 2, 1 / 2], [0, -1], [1 / 2, 1 / 2]])
    up_to_signs(scores, [[-1, 1 / 3], [0, -2 / 3], [1, 1 / 3]])
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), [1, 1 / 3], rtol=EXACT)
    np.testing.assert_allclose(model.explained_variance_, [1, 1 / 3], rtol=EXACT)
    np.testing.assert_allclose(model.explained_variance_ratio_, [3 / 4, 1 / 4], rtol=EXACT)
    np.testing.assert_allclose(model.row_means_, [2 / 3, 0, 2 / 3], atol=EXACT)
    assert model.grand_mean_ == pytest.approx(4 / 9, rel=EXACT)


def test_three_points_score_new_ones(solver: str) -> None:
    """New rows 2 and −2 score (2, 10/3) and (−2, 10/3), with the signs of the training scores."""
    model = KernelPCA(2, kernel=product_and_square, eigen_solver=solver)
    signs = np.sign(model.fit_transform(column(-1, 0, 1))[2])
    found = model.transform(column(2, -2)) * signs
    np.testing.assert_allclose(found, [[2, 10 / 3], [-2, 10 / 3]], rtol=EXACT)


def test_three_points_leave_an_error(solver: str) -> None:
    """After the first component of the three points the squared distances add up to 2/3."""
    X = column(-1, 0, 1)
    model = KernelPCA(1, kernel=product_and_square, eigen_solver=solver).fit(X)
    error = model.reconstruction_error(X)
    np.testing.assert_allclose(error, np.array([1 / 9, 4 / 9, 1 / 9]), atol=EXACT)
    assert error.sum() == pytest.approx(2 / 3, rel=EXACT)
    # φ(2) − mean = (2, 4 − 2/3), of which the first component keeps 2.
    assert model.reconstruction_error(column(2)) == pytest.approx((10 / 3) ** 2, rel=EXACT)


def test_five_points_on_a_line(solver: str) -> None:
    """Rows (−2, …, 2) with xy + (xy)² have μ = 14 and 10, row means (8, 2, 0, 2, 8) and ratio 7/12."""
    model = KernelPCA(2, kernel=product_and_square, eigen_solver=solver)
    scores = model.fit_transform(column(-2, -1, 0, 1, 2))
    np.testing.assert_allclose(model.eigenvalues_, [14, 10], rtol=EXACT)
    np.testing.assert_allclose(model.row_means_, [8, 2, 0, 2, 8], atol=EXACT)
    assert model.grand_mean_ == pytest.approx(4, rel=EXACT)
    up_to_signs(scores[:, :1], column(2, -1, -2, -1, 2))
    up_to_signs(scores[:, 1:], column(-2, -1, 0, 1, 2))
    np.testing.assert_allclose(model.explained_variance_, [3.5, 2.5], rtol=EXACT)
    np.testing.assert_allclose(model.explained_variance_ratio_, [7 / 12, 5 / 12], rtol=EXACT)
    assert model.transform(column(3))[0, 0] * np.sign(scores[0, 0]) == pytest.approx(7, rel=EXACT)


@pytest.mark.parametrize("kernel", ["poly", "polynomial", lambda x, y: float(x @ y) ** 2])
def test_squares_have_one_component(kernel: Any, solver: str) -> None:
    """Kernel x²z² at (−2, −1, 1, 2) has the one eigenvalue 9, scores ±1.5, and others are exactly 0."""
    X = column(-2, -1, 1, 2)
    model = KernelPCA(3, kernel=kernel, degree=2, gamma=1.0, coef0=0.0, eigen_solver=solver)
    scores = model.fit_transform(X)
    assert model.eigenvalues_ == pytest.approx([9, 0, 0], rel=EXACT)
    np.testing.assert_array_equal(model.eigenvalues_[1:], 0)
    up_to_signs(scores[:, :1], 1.5 * column(1, -1, -1, 1))
    np.testing.assert_array_equal(scores[:, 1:], 0)
    a = model.eigenvectors_[:, 0]
    s = np.array([1, -1, -1, 1])
    np.testing.assert_allclose(model.eigenvalues_[0] * np.outer(a, a), 2.25 * np.outer(s, s), atol=EXACT)
    new = model.transform(column(0, 3)) * np.sign(scores[0, 0])
    np.testing.assert_allclose(new[:, 0], [-2.5, 6.5], rtol=EXACT)
    np.testing.assert_array_equal(new[:, 1:], 0)


def test_identity_matrix_keeps_half(solver: str) -> None:
    """K = I with three rows has μ = 1, 1, 0, of which one component keeps a half."""
    model = KernelPCA(3, kernel="precomputed", eigen_solver=solver).fit(np.eye(3))
    np.testing.assert_allclose(model.eigenvalues_, [1, 1, 0], atol=EXACT)
    assert model.eigenvalues_[2] == 0
    np.testing.assert_allclose(model.explained_variance_ratio_, [1 / 2, 1 / 2, 0], rtol=EXACT)
    one = KernelPCA(1, kernel="precomputed", eigen_solver=solver).fit(np.eye(3))
    np.testing.assert_allclose(one.explained_variance_ratio_, [1 / 2], rtol=EXACT)


def test_eigenvalues_nine_and_four(solver: str) -> None:
    """Six rows with μ = 9 and 4: α = a/3 and scores 3a for the first, variances 9/5 and 4/5, ratio 9/13."""
    a = np.array([1, -1, 0, 0, 0, 0]) / np.sqrt(2)
    b = np.array([1, 1, -1, -1, 0, 0]) / 2
    K = 9 * np.outer(a, a) + 4 * np.outer(b, b) + 7  # a constant does not touch the centred matrix
    model = KernelPCA(2, kernel="precomputed", eigen_solver=solver)
    scores = model.fit_transform(K)
    np.testing.assert_allclose(model.eigenvalues_, [9, 4], rtol=EXACT)
    up_to_signs(model.eigenvectors_, np.column_stack([a, b]))
    up_to_signs(scores, np.column_stack([3 * a, 2 * b]))
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), [9 / 5, 4 / 5], rtol=EXACT)
    np.testing.assert_allclose(model.explained_variance_ratio_, [9 / 13, 4 / 13], rtol=EXACT)
    # α = a/3: a new row whose kernel with the first training row alone is larger by 1 than that mean.
    k_new = (7 + np.eye(6))[:1]
    expected = [a[0] / 3, b[0] / 2]
    np.testing.assert_allclose(np.abs(model.transform(k_new)), np.abs([expected]), atol=1e-11)


@pytest.fixture(scope="module")
def circles() -> tuple[Array, Array]:
    X, labels = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return X, labels


def test_circles_come_apart(circles: tuple[Array, Array], solver: str) -> None:
    """Two rings under rbf with γ = 5: eigenvalues, ranges of the first score, and new points."""
    X, labels = circles
    model = KernelPCA(2, kernel="rbf", gamma=5.0, eigen_solver=solver)
    scores = model.fit_transform(X)
    np.testing.assert_allclose(model.eigenvalues_, [56.80, 41.39], atol=0.005)
    inner = scores[labels == 1, 0]
    sign = np.sign(inner[0])
    inner, outer = sign * inner, sign * scores[labels == 0, 0]
    np.testing.assert_allclose([inner.min(), inner.max()], [0.199, 0.520], atol=5e-4)
    np.testing.assert_allclose([outer.min(), outer.max()], [-0.387, -0.333], atol=5e-4)
    new = sign * model.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))[:, 0]
    np.testing.assert_allclose(new, [0.598, -0.379], atol=5e-4)


@pytest.mark.parametrize(
    ("kernel", "gamma", "percent"),
    [("rbf", 0.1, 69), ("rbf", 1.0, 64), ("rbf", 5.0, 100), ("rbf", 100.0, 75), ("linear", None, 69)],
)
def test_best_cut_depends_on_gamma(
    circles: tuple[Array, Array], kernel: str, gamma: float | None, percent: int
) -> None:
    """The share of the rings' rows that one threshold on the first score tells apart, to a whole percent."""
    X, labels = circles
    model = KernelPCA(1, kernel=kernel, gamma=gamma)
    expected = pytest.warns(KpcaStreamWarning, match="close to the identity")
    with expected if gamma == 100.0 else nullcontext():
        scores = model.fit_transform(X)
    assert round(best_cut(scores[:, 0], labels)) == percent


def test_weights_are_copies() -> None:
    """The five-point example with x = 1 and 2 weighted twice is that of seven rows."""
    model = KernelPCA(2, kernel=product_and_square)
    scores = model.fit_transform(column(-2, -1, 0, 1, 2), sample_weight=[1, 1, 1, 2, 2])
    copied = KernelPCA(2, kernel=product_and_square)
    repeated = copied.fit_transform(column(-2, -1, 0, 1, 1, 2, 2))
    np.testing.assert_allclose(model.eigenvalues_, copied.eigenvalues_, rtol=EXACT)
    np.testing.assert_allclose(scores, repeated[[0, 1, 2, 3, 5]], atol=EXACT)
    np.testing.assert_allclose(model.explained_variance_, copied.eigenvalues_ / 6, rtol=EXACT)


def test_t2_of_three_points() -> None:
    """T² = Σ z²(n − 1)/μ is 4/3 for each of the three points: 1·2/2 + (1/9)·2/(2/3) at the ends."""
    model = KernelPCA(2, kernel=product_and_square)
    scores = model.fit_transform(column(-1, 0, 1))
    np.testing.assert_allclose(hotelling_t2(scores, model.eigenvalues_, 3), [4 / 3, 4 / 3, 4 / 3], rtol=EXACT)
