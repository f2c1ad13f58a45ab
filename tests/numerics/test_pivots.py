"""Randomly pivoted Cholesky on a pool, and the curve that it draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics import pivots as pivoting
from kpca_stream.numerics.curve import Curve, curve_by
from kpca_stream.numerics.kernels import (
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Preparation,
    Rbf,
)
from kpca_stream.numerics.pivots import draw, expected_rounds
from kpca_stream.numerics.pool import rpcholesky

Array = NDArray[Any]

PLAIN = Preparation()
KERNELS: dict[str, tuple[Kernel, dict[str, float]]] = {
    "rbf": (Rbf(PLAIN, 0.3), {"gamma": 0.3}),
    "laplacian": (Laplacian(PLAIN, 0.3), {"gamma": 0.3}),
    "poly": (Polynomial(PLAIN, 0.5, 3, 1.0), {"gamma": 0.5, "degree": 3, "coef0": 1.0}),
    "cosine": (Cosine(PLAIN), {}),
    "linear": (Linear(PLAIN), {}),
}


def rows(n_samples: int = 400, n_features: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n_samples, n_features))


def share_left(K: Array, chosen: Array, judged: Array | None = None) -> float:
    """tr(K − K_nystrom) / tr K by the pseudo-inverse, of the judged rows."""
    of_rows = np.arange(len(K)) if judged is None else judged
    columns = K[np.ix_(of_rows, chosen)]
    explained = columns @ np.linalg.pinv(K[np.ix_(chosen, chosen)], hermitian=True)
    trace = np.trace(K[np.ix_(of_rows, of_rows)])
    return float(1 - np.einsum("ij,ij->", explained, columns) / trace)


@pytest.mark.parametrize("name", KERNELS)
def test_the_curve_is_the_residual_trace(name: str) -> None:
    """After each landmark the curve is tr(K − K_nystrom) / tr K, never increasing, and rows are distinct."""
    kernel, parameters = KERNELS[name]
    X = rows()
    found = rpcholesky(kernel, X, 40, 1)
    K = reference.kernel(name, X, X, **parameters)  # type: ignore[arg-type]
    assert len(set(found.indices.tolist())) == len(found.indices) == len(found.curve.shares)
    assert (np.diff(found.curve.shares) <= 0).all()
    for m in (1, 2, 3, len(found.indices)):
        assert found.curve.at(m) == pytest.approx(share_left(K, found.indices[:m]), abs=1e-9)


@given(seed=st.integers(0, 2**63 - 1), n_landmarks=st.integers(1, 60))
def test_choices_are_distinct_and_no_worse_than_nothing(seed: int, n_landmarks: int) -> None:
    """As many distinct rows as asked for, and again the same."""
    X = rows(60)
    found, again = (rpcholesky(KERNELS["rbf"][0], X, n_landmarks, seed) for _ in range(2))
    assert len(set(found.indices.tolist())) == n_landmarks
    assert np.array_equal(found.indices, again.indices)
    assert 0 <= found.curve.at(n_landmarks) < 1


def test_all_rows_leave_nothing() -> None:
    """With every row a landmark the residual trace is zero."""
    X = rows(80)
    found = rpcholesky(KERNELS["laplacian"][0], X, 80, 0)
    assert found.curve.at(80) < 1e-12


@pytest.mark.parametrize("residual", [0.5, 0.1, 0.01])
def test_a_residual_is_reached_with_no_landmark_too_many(residual: float) -> None:
    """The last landmark is the first that leaves no more than was asked for."""
    X = rows()
    kernel = KERNELS["rbf"][0]
    found = rpcholesky(kernel, X, 400, 3, residual)
    K = reference.kernel("rbf", X, X, gamma=0.3)
    m = len(found.indices)
    assert share_left(K, found.indices) <= residual + 1e-9
    assert m == 1 or share_left(K, found.indices[:-1]) > residual
    assert np.array_equal(found.indices, rpcholesky(kernel, X, 400, 3).indices[:m])


@pytest.mark.parametrize("rank", [1, 3, 20])
def test_it_stops_at_the_rank(rank: int) -> None:
    """A linear kernel of r columns has r landmarks, which leave nothing."""
    X = rows(300, rank) @ rows(rank, 30, seed=5)
    found = rpcholesky(Linear(PLAIN), X, 100, 0)
    assert len(found.indices) == rank
    assert found.curve.at(rank) < 1e-13
    assert found.n_rounds < 5


def test_it_stops_at_the_rank_of_a_given_matrix_in_float32() -> None:
    """Rounding of a stored matrix is not taken for rank."""
    A = rows(200, 6)
    found = rpcholesky(Precomputed(PLAIN), (A @ A.T).astype(np.float32), 100, 0)
    assert 6 <= len(found.indices) <= 8
    assert found.curve.at(6) < 1e-5


def test_a_given_matrix_is_chosen_from_as_its_rows_are() -> None:
    """The matrix of a kernel and the kernel itself lead to the same rows."""
    X = rows(150)
    K = KERNELS["rbf"][0].matrix(X, X)
    by_rows, by_matrix = rpcholesky(KERNELS["rbf"][0], X, 30, 2), rpcholesky(Precomputed(PLAIN), K, 30, 2)
    assert np.array_equal(by_rows.indices, by_matrix.indices)
    np.testing.assert_allclose(by_rows.curve.shares, by_matrix.curve.shares, atol=1e-12)


def test_repeated_rows_are_chosen_once() -> None:
    """Of rows that are the same, one becomes a landmark; fewer come back than were asked for."""
    X = np.repeat(rows(12), 20, axis=0)
    found = rpcholesky(KERNELS["rbf"][0], X, 50, 0)
    assert len(found.indices) == len(np.unique(X[found.indices], axis=0)) == 12
    assert found.curve.at(12) < 1e-12


@pytest.mark.parametrize("name", KERNELS)
def test_rows_that_are_all_the_same_have_one_landmark(name: str) -> None:
    """A constant kernel is harmless."""
    found = rpcholesky(KERNELS[name][0], np.ones((30, 4)), 10, 0)
    assert len(found.indices) == 1
    assert found.curve.at(1) < 1e-13


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_zero_rows_have_one_landmark(name: str) -> None:
    """Where k(x, x) is zero everywhere one landmark comes back, and nothing is left."""
    found = rpcholesky(KERNELS[name][0], np.zeros((30, 4)), 10, 0)
    assert found.indices.tolist() == [0]
    assert found.curve.at(1) == 0


@pytest.mark.parametrize("n_landmarks", [1, 60, 300, 1000])
@pytest.mark.parametrize("n_features", [5, 20])
def test_rounds_are_foreseen(n_landmarks: int, n_features: int) -> None:
    """Choosing takes half to twice as many rounds as are expected."""
    X = np.random.default_rng(2).standard_normal((4000, n_features))
    kernel = Rbf(Preparation(), 1 / n_features)
    found = rpcholesky(kernel, X, n_landmarks, seed=0)
    assert len(found.indices) == n_landmarks
    expected = len(expected_rounds(n_landmarks))
    assert expected / 2 <= found.n_rounds <= 2 * expected


def test_the_first_landmark_is_drawn_by_the_diagonal() -> None:
    """Over many seeds a row is first as often as its share of the trace says."""
    X = np.sqrt(np.array([[1.0], [2.0], [3.0], [4.0]])) * np.eye(4)
    first = [rpcholesky(Linear(PLAIN), X, 2, seed).indices for seed in range(1000)]
    shares = np.bincount([indices[0] for indices in first], minlength=4) / 1000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=0.05)
    # Rows are orthogonal: the second is drawn by what is left when the first is taken away.
    second = [indices[1] for indices in first if indices[0] == 3]
    np.testing.assert_allclose(
        np.bincount(second, minlength=4) / len(second), [1 / 6, 1 / 3, 1 / 2, 0], atol=0.09
    )


def test_strips_of_proposals_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many proposals are looked at together does not show in the choice."""
    X = rows()
    expected = rpcholesky(KERNELS["rbf"][0], X, 200, 4)
    for n_rows in (1, 37, 512):
        monkeypatch.setattr(pivoting, "STRIP", n_rows)
        assert np.array_equal(rpcholesky(KERNELS["rbf"][0], X, 200, 4).indices, expected.indices)


def test_rows_apart_judge_by_themselves() -> None:
    """With other rows to judge by, the curve is that of their residuals, and the choice is the same."""
    X = rows()
    found = rpcholesky(KERNELS["rbf"][0], X[:200], 50, 0, judges=X[200:])
    K = reference.kernel("rbf", X, X, gamma=0.3)
    expected = share_left(K, found.indices, np.arange(200, 400))
    assert found.curve.at(50) == pytest.approx(expected, abs=1e-9)
    assert np.array_equal(found.indices, rpcholesky(KERNELS["rbf"][0], X[:200], 50, 0).indices)
    assert found.curve.at(50) > rpcholesky(KERNELS["rbf"][0], X[:200], 50, 0).curve.at(50)


def test_draws_follow_weights_and_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is drawn in proportion to weight times residual, never where that is zero, for any stride."""
    residuals = np.array([0.0, 1.0, 0.0, 2.0, 0.5, 0.0, 0.0])
    weights = np.array([1.0, 1.0, 5.0, 1.0, 4.0, 1.0, 1.0])
    expected = draw(residuals, weights, 10_000, np.random.default_rng(0))
    counts = np.bincount(expected, minlength=7) / 10_000
    np.testing.assert_allclose(counts, weights * residuals / 5, atol=0.02)
    assert counts[residuals == 0].sum() == 0
    monkeypatch.setattr(pivoting, "DRAW_STRIDE", 2)
    assert np.array_equal(draw(residuals, weights, 10_000, np.random.default_rng(0)), expected)


def test_a_curve_says_how_many_landmarks_do() -> None:
    """The fewest landmarks at or below a share; none where the curve ends above it."""
    curve = Curve(np.array([0.5, 0.2, 0.1, 0.04]))
    assert (curve.at(0), curve.at(2), curve.at(9)) == (1.0, 0.2, 0.04)
    assert (curve.needed(0.2), curve.needed(0.05), curve.needed(0.01)) == (2, 4, None)
    assert curve.needed(0.05, seen=(2, 0.08)) == 3


def test_a_curve_tells_what_rows_in_their_order_leave_of_others() -> None:
    """Each share is that of the first landmarks, copies among them included, on rows that are none."""
    X = rows()
    first = np.concatenate((X[:40], X[:3], X[40:80]))
    curve = curve_by(KERNELS["rbf"][0], first, X[200:])
    K = reference.kernel("rbf", X, X, gamma=0.3)
    for m, chosen in ((10, 10), (40, 40), (43, 40), (83, 80)):
        expected = share_left(K, np.arange(chosen), np.arange(200, 400))
        assert curve.at(m) == pytest.approx(expected, abs=1e-7)


def test_advice_is_a_line() -> None:
    """What was left, how many landmarks would leave less, rounded up to two digits."""
    curve = Curve(1 / np.arange(1, 4001) ** 0.4)
    needed = curve.needed(0.05, seen=(1000, 0.07))
    assert needed == 2320
    assert curve.advice(1000, 0.07, 0.05) == (
        "residual trace is 7 %: about m = 2,400 landmarks would bring it below 5 %"
    )
    assert curve.advice(1000, 0.07, 0.01) == (
        "residual trace is 7 %: more than 4,000 landmarks would bring it below 1 %"
    )


def test_values_that_overflow_are_refused() -> None:
    """A kernel that leaves the range of float64 is named."""
    with np.errstate(over="ignore"), pytest.raises(DataError, match="finite"):
        rpcholesky(Polynomial(PLAIN, 1.0, 3, 0.0), np.full((5, 2), 1e120), 2, 0)
