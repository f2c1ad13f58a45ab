"""Nyström against kernel PCA written out."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Kernel, Linear, Own, Preparation, Rbf, Sigmoid
from kpca_stream.numerics.nystrom import Embedding, Statistics, embed

Array = NDArray[np.float64]


def rows(n: int = 120, d: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def rbf(X: Array, gamma: float = 0.2, shift: float = 0.0) -> Rbf:
    return Rbf(Preparation(X.mean(axis=0)), gamma, shift)


def exact_rbf(X: Array, Y: Array, gamma: float = 0.2) -> Array:
    return reference.kernel("rbf", X, Y, gamma=gamma)


def statistics(
    features: FeatureMap, X: Array, weights: Array | None = None, centre: Array | None = None
) -> Statistics:
    """Of all rows as one block."""
    kernel, c = features.kernel, features.centre if centre is None else centre
    A = kernel.operand(X, np.float64)
    terms = kernel.diagonal(A), kernel.offset(A)
    return Statistics.of([(kernel.matrix(X, features.landmarks) - c, weights, *terms)], c)


def embedded(kernel: Kernel, X: Array, Z: Array, weights: Array | None = None) -> Embedding:
    features = FeatureMap.of(kernel, Z, np.float64)
    return embed(features, statistics(features, X, weights))


def approximate(K_xz: Array, K_zz: Array, K_yz: Array) -> Array:
    """The Nyström approximation by its definition, with a pseudo-inverse."""
    return np.asarray(K_xz @ np.linalg.pinv(K_zz, rcond=1e-12, hermitian=True) @ K_yz.T)


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("most", [1, 3])
def test_with_all_rows_as_landmarks_it_is_kernel_pca(shift: float, most: int) -> None:
    """Where all rows are landmarks the eigenvalues are those of the centred Gram matrix."""
    X = rows()
    weights = np.random.default_rng(1).integers(1, most + 1, len(X)).astype(float)
    found = embedded(rbf(X, shift=shift), X, X, weights)
    expected = reference.spectrum(exact_rbf(X, X), weights)
    np.testing.assert_allclose(found.eigenvalues[:30], expected[:30], rtol=1e-8)
    assert found.trace_bound == pytest.approx(expected.sum(), rel=1e-6)
    assert 0 <= found.residual_trace <= 1e-6 * found.trace_bound


@pytest.mark.parametrize("n_landmarks", [5, 6, 40])
def test_a_linear_kernel_with_as_many_landmarks_as_columns_is_pca(n_landmarks: int) -> None:
    """With m ≥ d landmarks a linear kernel's eigenvalues are those of the scatter matrix, and no others."""
    X = rows(300, 5) + 7.0
    found = embedded(Linear(Preparation(X.mean(axis=0))), X, X[:n_landmarks])
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(centred.T @ centred)[::-1], rtol=1e-9)
    assert found.residual_trace <= 1e-9 * found.trace_bound


def test_eigenvalues_are_those_of_the_approximate_matrix() -> None:
    """The eigenvalues are those of the centred K_nm K_mm⁺ K_mn."""
    X, weights = rows(), np.linspace(0.5, 2, 120)
    Z = X[:25]
    found = embedded(rbf(X), X, Z, weights)
    K = approximate(exact_rbf(X, Z), exact_rbf(Z, Z), exact_rbf(X, Z))
    np.testing.assert_allclose(found.eigenvalues, reference.spectrum(K, weights)[:25], rtol=1e-7, atol=1e-9)
    lost = weights @ np.diagonal(exact_rbf(X, X) - K)
    assert found.residual_trace == pytest.approx(lost, rel=1e-9)


def test_scores_are_centred_and_orthogonal() -> None:
    """Weighted, the scores of the rows have mean 0, and their squares add up to the eigenvalues."""
    X, weights = rows(), np.linspace(0.5, 2, 120)
    found = embedded(rbf(X), X, X[:25], weights)
    scores = (exact_rbf(X, X[:25]) - found.mean) @ found.B
    np.testing.assert_allclose(weights @ scores, 0, atol=1e-10)
    products = scores.T @ (weights[:, None] * scores)
    np.testing.assert_allclose(products, np.diag(found.eigenvalues), atol=1e-9 * found.eigenvalues[0])
    whitened = (exact_rbf(X, X[:25]) - found.mean) @ found.leading(6).whitened().B
    np.testing.assert_allclose(whitened.T @ (weights[:, None] * whitened), np.eye(6), atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_reconstruction_error_is_the_distance_in_an_explicit_embedding(shift: float) -> None:
    """e(x) is the squared distance of φ(x) to the components' flat, with φ written out."""
    X, new = rows(), rows(30, seed=5) * 1.5
    Z = X[:25]
    found = embedded(rbf(X, shift=shift), X, Z).leading(4)
    everything = np.concatenate([X, new])
    sigma, U = np.linalg.eigh(exact_rbf(everything, everything))
    phi = U * np.sqrt(np.maximum(sigma, 0))  # one row of coordinates for each x
    about = phi[:25].mean(axis=0) if shift else np.zeros(phi.shape[1])
    basis = np.linalg.svd((phi[:25] - about).T, full_matrices=False)[0][:, : 24 if shift else 25]
    features, rest = (phi - about) @ basis, (phi - about) - (phi - about) @ basis @ basis.T
    f_mean = features[:120].mean(axis=0)
    directions = np.linalg.svd(features[:120] - f_mean)[2][:4]
    away = features - f_mean
    expected = (rest**2).sum(axis=1) + (away**2).sum(axis=1) - ((away @ directions.T) ** 2).sum(axis=1)

    kernel = rbf(X, shift=shift)
    K = kernel.matrix(everything, Z)
    own = kernel.diagonal(kernel.operand(everything, np.float64))
    scores = (K - found.mean) @ found.B
    error = own - 2 * K @ found.mean_coefficients + found.grand_mean - (scores**2).sum(axis=1)
    np.testing.assert_allclose(error, expected, atol=1e-10)


def test_trace_bound_is_never_below_the_trace() -> None:
    """The trace of the centred Gram matrix is at most the bound, and at least the sum of the eigenvalues."""
    for seed in range(10):
        X = rows(80, 3, seed)
        found = embedded(rbf(X, gamma=0.5), X, X[: 3 + 4 * seed])
        trace = reference.spectrum(exact_rbf(X, X, 0.5)).sum()
        assert found.eigenvalues.sum() <= trace * (1 + 1e-12)
        assert trace <= found.trace_bound * (1 + 1e-12)


@pytest.mark.parametrize("order", ["as they are", "reversed", "mixed"])
@pytest.mark.parametrize("step", [1, 13, 60, 120])
def test_any_cut_and_order_of_rows_gives_the_same_eigenvalues(step: int, order: str) -> None:
    """Statistics add up: the eigenvalues do not depend on how rows are cut, nor on their order."""
    X, weights = rows(), np.linspace(1, 2, 120)
    features = FeatureMap.of(rbf(X), X[:20], np.float64)
    expected = embed(features, statistics(features, X, weights)).eigenvalues
    positions = {"as they are": np.arange(120), "reversed": np.arange(120)[::-1]}.get(
        order, np.random.default_rng(3).permutation(120)
    )
    sums = Statistics.nothing(features.centre)
    for at in range(0, 120, step):
        chosen = positions[at : at + step]
        sums = sums + statistics(features, X[chosen], weights[chosen])
    np.testing.assert_allclose(embed(features, sums).eigenvalues, expected, rtol=1e-10, atol=1e-12)


def test_weight_two_is_the_row_twice() -> None:
    """Statistics of weighted rows are those of their copies."""
    X = rows()
    features = FeatureMap.of(rbf(X), X[:20], np.float64)
    weights = np.where(np.arange(120) < 30, 2.0, 1.0)
    weighted = statistics(features, X, weights)
    copied = statistics(features, np.concatenate([X, X[:30]]))
    np.testing.assert_allclose(weighted.G, copied.G, atol=1e-11)
    np.testing.assert_allclose(weighted.s, copied.s, atol=1e-11)
    assert (weighted.total, weighted.tau) == pytest.approx((copied.total, copied.tau))


def test_another_centre_is_refused_and_can_be_moved_to() -> None:
    """Sums about two centres are not added; moved to the same one they are what they would have been."""
    X = rows()
    features = FeatureMap.of(rbf(X), X[:20], np.float64)
    first, zero = statistics(features, X[:50]), np.zeros(20)
    second = statistics(features, X[50:], centre=zero)
    with pytest.raises(DataError, match="two different centres"):
        first + second
    plain = exact_rbf(X, X[:20])
    np.testing.assert_allclose((first.about(zero) + second).G, plain.T @ plain, rtol=1e-12)
    whole = first + second.about(first.centre)
    np.testing.assert_allclose(whole.mean, plain.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(whole.G, statistics(features, X).G, atol=1e-11)


def test_adding_leaves_both_sides_as_they_were() -> None:
    """A sum is another value; only `add` changes one in place."""
    X = rows()
    features = FeatureMap.of(rbf(X), X[:20], np.float64)
    first, second = statistics(features, X[:50]), statistics(features, X[50:])
    before = first.G.copy()
    both = first + second
    assert np.array_equal(first.G, before)
    first.add(second)
    assert np.array_equal(first.G, both.G)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicate_landmarks_change_nothing(dtype: type) -> None:
    """Landmarks that occur twice, and a K_mm without full rank, leave eigenvalues and errors as they are."""
    X = rows()
    Z = np.concatenate([X[:20], X[:7], X[:1]])
    once = embedded(rbf(X), X, X[:20])
    features = FeatureMap.of(rbf(X), Z, dtype)
    twice = embed(features, statistics(features, X))
    assert features.P.shape == (28, 20)
    np.testing.assert_allclose(twice.eigenvalues, once.eigenvalues, rtol=1e-8)
    assert twice.residual_trace == pytest.approx(once.residual_trace, rel=1e-8)


def test_landmarks_that_are_all_one_row_still_give_an_answer() -> None:
    """One distinct landmark is one direction; the same as the origin, it is none."""
    X = rows()
    one = embedded(rbf(X), X, np.repeat(X[:1], 5, axis=0))
    assert one.eigenvalues.shape == (1,)
    none = embedded(rbf(X, shift=1.0), X, np.repeat(X[:1], 5, axis=0))
    assert none.eigenvalues.shape == (0,)
    assert none.residual_trace == none.trace_bound > 0


@pytest.mark.parametrize(("gamma", "shift"), [(1e-9, 1.0), (1e-5, 0.0)])
def test_nearly_constant_similarities_keep_their_digits(gamma: float, shift: float) -> None:
    """Far rows under a tiny gamma: the eigenvalues are those of 2γ times the scatter matrix."""
    X = rows(400, 3) + 1000.0
    found = embedded(rbf(X, gamma, shift), X, X[:40])
    centred = X - X.mean(axis=0)
    expected = np.linalg.eigvalsh(2 * gamma * centred.T @ centred)[::-1]
    np.testing.assert_allclose(found.eigenvalues[:3], expected, rtol=30 * gamma + 1e-9)


def test_sums_in_float32_lose_no_digits_to_a_large_mean() -> None:
    """Float32 similarities around 1, about their centre, give the scatter to float32's digits."""
    K = 1 + 1e-3 * np.random.default_rng(0).standard_normal((4000, 6))
    centre = np.full(6, 1.0)
    parts = [((part - centre).astype(np.float32), np.ones(len(part))) for part in np.split(K, 8)]
    blocks = [(part, None, ones, 0 * ones) for part, ones in parts]
    found = Statistics.of(blocks, centre)
    expected = np.cov(K.T, bias=True) * 4000
    np.testing.assert_allclose(found.scatter, expected, atol=1e-6 * expected.max())


def test_float64_is_needed_where_float32_would_discard_too_much() -> None:
    """A smooth kernel's small directions are below float32's cut-off, and count against the tolerance."""
    Z = np.linspace(0, 1, 60)[:, None]
    kernel = Rbf(Preparation(Z.mean(axis=0)), 5.0)
    coarse, fine = (FeatureMap.of(kernel, Z, dtype) for dtype in (np.float32, np.float64))
    sigma = np.linalg.eigvalsh(exact_rbf(Z, Z, 5.0))[::-1]
    for features, limit in ((coarse, 60 * 2.0**-23), (fine, 2.0 ** (-52 * 2 / 3))):
        kept = int((sigma > sigma[0] * limit).sum())
        assert features.P.shape[1] == kept
        assert features.discarded == pytest.approx(max(0.0, sigma[kept:].sum()) / 60, abs=1e-14)
    assert FeatureMap.within(kernel, Z, coarse.discarded * 1.1).dtype == np.float32
    within = FeatureMap.within(kernel, Z, coarse.discarded * 0.9)
    assert (within.dtype, within.P.shape) == (np.float64, fine.P.shape)


def test_an_indefinite_kernel_is_told_by_its_landmarks() -> None:
    """The smallest eigenvalue of K_mm is clearly negative only where k is indefinite."""
    X = rows()
    assert FeatureMap.of(rbf(X), X[:30], np.float64).smallest > 0
    assert FeatureMap.of(rbf(X, 0.2, 1.0), X[:30], np.float64).smallest > -1e-12
    assert FeatureMap.of(Sigmoid(Preparation(), 1.0, -2.0), X[:30], np.float64).smallest < -0.01
    distance = Own(Preparation(), reference.squared_distances, "distances")
    assert FeatureMap.of(distance, X[:30], np.float64).smallest < -0.1
