"""Laws of pre-images: the ridge, on all rows and on landmarks, and the fixed point."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge

from kpca_stream.errors import ConfigError
from kpca_stream.numerics.kernels import (
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Preparation,
    Rbf,
    Sigmoid,
)
from kpca_stream.numerics.preimage import Ridge, RidgeSums, feature_error, fixed_point, score_kernel

Array = NDArray[Any]

PLAIN = Preparation()
KERNELS: dict[str, Kernel] = {
    "rbf": Rbf(PLAIN, 0.7),
    "laplacian": Laplacian(PLAIN, 0.3),
    "poly": Polynomial(PLAIN, 0.5, 2, 1.0),
    "linear": Linear(PLAIN),
    "cosine": Cosine(PLAIN),
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "rbf": {"gamma": 0.7},
    "laplacian": {"gamma": 0.3},
    "poly": {"gamma": 0.5, "degree": 2, "coef0": 1.0},
    "linear": {},
    "cosine": {},
}


def scored(n_samples: int = 60) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((n_samples, 3)), rng.standard_normal((n_samples, 5))


def sums(kernel: Kernel, points: Array, Z: Array, X: Array, weights: Array | None = None) -> RidgeSums:
    found = RidgeSums.nothing(len(points), X.shape[1])
    found.take(kernel, kernel.operand(points, np.float64), Z, X, weights)
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_all_rows_give_kernel_ridge_regression(name: str) -> None:
    """With all rows as landmarks a ridge is scikit-learn's, in its coefficients and its values."""
    Z, X = scored()
    ridge, condition = Ridge.exact(KERNELS[name], Z, X, 0.2)
    reference = KernelRidge(alpha=0.2, kernel=name, **PARAMETERS[name]).fit(Z, X)
    np.testing.assert_allclose(ridge.dual, reference.dual_coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ridge(Z[:7] + 0.1), reference.predict(Z[:7] + 0.1), rtol=1e-9, atol=1e-11)
    assert 0 < condition < 1


@pytest.mark.parametrize("name", KERNELS)
def test_every_row_a_landmark_changes_nothing(name: str) -> None:
    """Least squares on landmarks is the exact ridge where the landmarks are all rows."""
    Z, X = scored()
    exact, _ = Ridge.exact(KERNELS[name], Z, X, 0.2)
    found, _ = Ridge.of_sums(KERNELS[name], Z, sums(KERNELS[name], Z, Z, X), 0.2)
    np.testing.assert_allclose(found(Z), exact(Z), rtol=1e-6, atol=1e-7)


def test_more_landmarks_come_nearer() -> None:
    """Values on 10, 30 and 60 of 60 landmarks come ever nearer to the exact ones."""
    Z, X = scored()
    exact = Ridge.exact(KERNELS["rbf"], Z, X, 0.2)[0](Z)
    errors = [
        np.abs(
            Ridge.of_sums(KERNELS["rbf"], Z[:m], sums(KERNELS["rbf"], Z[:m], Z, X), 0.2)[0](Z) - exact
        ).max()
        for m in (10, 30, 60)
    ]
    assert errors[0] > errors[1] > 1e3 * errors[2]


def test_sums_add_up_over_any_cut() -> None:
    """Sums over two parts of the rows are those over all."""
    Z, X = scored()
    whole, first = (sums(KERNELS["rbf"], Z[:9], Z[:b], X[:b]) for b in (60, 23))
    first.add(sums(KERNELS["rbf"], Z[:9], Z[23:], X[23:]))
    np.testing.assert_allclose(first.G, whole.G, rtol=1e-13)
    np.testing.assert_allclose(first.R, whole.R, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("on_landmarks", [False, True])
def test_a_weight_counts_copies(*, on_landmarks: bool) -> None:
    """A row of weight 3 acts as three copies of it."""
    Z, X = scored(30)
    copies = np.random.default_rng(0).integers(1, 4, 30)
    many = np.repeat(np.arange(30), copies)
    weights = copies.astype(float)
    kernel = KERNELS["rbf"]
    if on_landmarks:
        ours, _ = Ridge.of_sums(kernel, Z[:12], sums(kernel, Z[:12], Z, X, weights), 0.5)
        theirs, _ = Ridge.of_sums(kernel, Z[:12], sums(kernel, Z[:12], Z[many], X[many]), 0.5)
    else:
        ours, _ = Ridge.exact(kernel, Z, X, 0.5, weights)
        theirs, _ = Ridge.exact(kernel, Z[many], X[many], 0.5)
    np.testing.assert_allclose(ours(Z), theirs(Z), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
def test_very_many_rows_leave_no_noise(alpha: float) -> None:
    """Sums so large that their rounding exceeds alpha give values as near as those of a larger alpha."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((4000, 2)) / 2
    X = np.column_stack([np.sin(3 * Z[:, 0]), Z[:, 0] * Z[:, 1]])
    weights = np.full(4000, 1e6)
    found, _ = Ridge.of_sums(KERNELS["rbf"], Z[:300], sums(KERNELS["rbf"], Z[:300], Z, X, weights), alpha)
    assert np.abs(found(Z[:1000]) - X[:1000]).max() < 1e-2
    assert np.isfinite(found.dual).all()


def test_a_matrix_without_inverse_is_refused() -> None:
    """A kernel that is not positive definite with this alpha is refused; a larger one helps."""
    Z, X = scored(20)
    indefinite = Sigmoid(PLAIN, -1.0, 0.0)
    with pytest.raises(ConfigError, match=r"alpha: got 0.1, .* not positive definite, .* raise it"):
        Ridge.exact(indefinite, Z, X, 0.1)
    assert np.isfinite(Ridge.exact(indefinite, Z, X, 50.0)[0].dual).all()


def test_the_kernel_of_scores_takes_nothing_off() -> None:
    """What is done to rows, and a constant that is taken off, is no part of the kernel of scores."""
    kernel = Rbf(Preparation(np.array([5.0]), np.array([2.0])), 0.5, 1.0)
    value = score_kernel(kernel).matrix(np.array([[0.0]]), np.array([[1.0]]))
    np.testing.assert_allclose(value, np.exp(-0.5))


def cloud(n_samples: int = 80) -> Array:
    rng = np.random.default_rng(5)
    return np.asarray(np.array([[-1.5, 0], [1.5, 0.5]])[rng.integers(0, 2, n_samples)]) + 0.3 * np.asarray(
        rng.standard_normal((n_samples, 2))
    )


def parts(X: Array, coefficients: Array, weights: Array) -> Any:
    def blocks() -> Iterator[tuple[Array, Array, Array]]:
        for a in range(0, len(X), 33):
            yield X[a : a + 33], coefficients[a : a + 33], weights[a : a + 33]

    return blocks


def height(X: Array, share: Array, point: Array) -> float:
    return float(share @ np.exp(-(((X - point) ** 2).sum(axis=1))))


def test_a_density_leads_to_its_mode() -> None:
    """With the mean alone, the fixed point is a mode of the rows' density: no point near it is higher."""
    X = cloud()
    blocks = parts(X, np.zeros((80, 1)), np.ones(80))
    start = X[[0, 5, 9]]
    found = fixed_point(Rbf(PLAIN, 1.0), blocks, 80.0, np.zeros((3, 1)), start)
    assert found.converged.all()
    share = np.full(80, 1 / 80)
    for point, begun in zip(found.points, start, strict=True):
        top = height(X, share, point)
        assert top >= height(X, share, begun)
        for move in 1e-3 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
            assert height(X, share, point + move) < top


def test_no_step_leads_down() -> None:
    """With coefficients of either sign, more iterations never end lower, and the last is a maximum."""
    X, rng = cloud(), np.random.default_rng(1)
    coefficients = rng.standard_normal((80, 2)) / 8
    coefficients -= coefficients.mean(axis=0)
    blocks, z = parts(X, coefficients, np.ones(80)), np.array([[0.7, -0.4]])
    share = (coefficients @ z.T)[:, 0] + 1 / 80
    start = X[[int(np.argmax([height(X, share, x) for x in X]))]]
    ends = [
        fixed_point(Rbf(PLAIN, 1.0), blocks, 80.0, z, start, max_iter=n).points[0] for n in (1, 2, 5, 20, 200)
    ]
    heights = [height(X, share, start[0]), *(height(X, share, end) for end in ends)]
    assert all(later >= earlier for earlier, later in pairwise(heights))
    for move in 1e-3 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert height(X, share, ends[-1] + move) < heights[-1]


@pytest.mark.parametrize(
    ("start", "sign"), [(1e3, 1.0), (0.0, -1.0)], ids=["underflow", "negative denominator"]
)
def test_where_nothing_can_be_told_a_point_stays(start: float, sign: float) -> None:
    """Where the denominator underflows or is negative the start is given back, marked, and nothing is NaN."""
    X = cloud()
    blocks = parts(X, np.full((80, 1), 1 / 80), np.ones(80))
    z = np.array([[0.0 if sign > 0 else -2.0], [0.5]])
    begun = np.array([[start, start], [0.0, 0.0]])
    found = fixed_point(Rbf(PLAIN, 1.0), blocks, 80.0, z, begun)
    np.testing.assert_array_equal(found.points[0], begun[0])
    assert found.converged.tolist() == [False, True]
    assert np.isfinite(found.points).all()


def test_the_error_has_two_orthogonal_parts() -> None:
    """What lies beyond the components and what lies within them add up as squares."""
    found = feature_error(np.array([0.5]), np.array([[1.0, 2.0]]), np.array([[1.0, 4.0]]))
    np.testing.assert_array_equal(found, [4.5])
