"""Bounds on what an approximate spectrum leaves out."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.numerics.certificate import by_trace, probabilistic, sampled
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Preparation, Rbf
from kpca_stream.numerics.nystrom import Embedding, Statistics, embed

Array = NDArray[np.float64]

GAMMA = 0.3


def problem(seed: int) -> tuple[Array, Array, Embedding]:
    """Exact and approximate centred Gram matrix, and what the latter comes from."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(60, 160)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d)) * rng.uniform(0.3, 2)
    weights = rng.uniform(0.5, 3, n) if seed % 2 else np.ones(n)
    Z = X[rng.choice(n, int(rng.integers(3, 40)), replace=False)]
    kernel = Rbf(Preparation(X.mean(axis=0)), GAMMA)
    features = FeatureMap.of(kernel, Z, np.float64)
    K_z = kernel.matrix(X, Z)
    embedding = embed(
        features, Statistics.of([(K_z - features.centre, weights, np.ones(n), np.zeros(n))], features.centre)
    )
    exact = reference.centred(reference.kernel("rbf", X, X, gamma=GAMMA), weights)
    scores = np.sqrt(weights)[:, None] * ((K_z - embedding.mean) @ embedding.B)
    return exact, scores @ scores.T, embedding


@pytest.mark.parametrize("seed", range(30))
def test_brackets_hold(seed: int) -> None:
    """Every exact eigenvalue lies in the bracket by trace, and in the probabilistic one."""
    exact, approximate, embedding = problem(seed)
    eigenvalues = embedding.eigenvalues
    true = np.linalg.eigvalsh(exact)[::-1][: len(eigenvalues)]
    rounding = 1e-14 * true[0]
    for certificate in (
        by_trace(embedding.residual_bound),
        *(
            probabilistic(lambda V: exact @ V, lambda V: approximate @ V, len(exact), seed=seed, power=power)
            for power in (1, 4)
        ),
    ):
        assert certificate.certified
        low, high = certificate.brackets(eigenvalues, embedding.rounding).T
        assert (low <= true + rounding).all()
        assert (true <= high + rounding).all()
        assert certificate.bound >= np.linalg.norm(exact - approximate, 2) - 1e-8 * true[0]


def test_powers_tighten_the_probabilistic_bound() -> None:
    """With more products the bound comes close to the norm; with one it is far above it."""
    exact, approximate, _ = problem(4)
    norm = np.linalg.norm(exact - approximate, 2)
    bounds = [
        probabilistic(lambda V: exact @ V, lambda V: approximate @ V, len(exact), seed=0, power=power).bound
        for power in (1, 3, 12)
    ]
    assert bounds[0] > bounds[1] > bounds[2] >= norm
    assert bounds[2] < 1.6 * norm


def test_the_probabilistic_bound_is_the_lemma() -> None:
    """One power: 10 √(2/π) times the largest of ‖E ω_i‖, and a failure probability of 10⁻ʳ."""
    E = np.diag(np.arange(5.0))
    found = probabilistic(lambda V: E @ V, np.zeros_like, 5, seed=3, n_vectors=4)
    omega = np.random.default_rng(3).standard_normal((5, 4))
    expected = 10 * np.sqrt(2 / np.pi) * np.linalg.norm(E @ omega, axis=0).max()
    assert found.bound == pytest.approx(expected)
    assert found.failure_probability == pytest.approx(1e-4)


@pytest.mark.parametrize("scale", [0.0, 1e-120, 1e120])
def test_the_probabilistic_bound_takes_any_size(scale: float) -> None:
    """Powers of huge and of tiny differences neither overflow nor vanish."""
    found = probabilistic(lambda V: scale * V, np.zeros_like, 10, seed=0, power=3)
    assert np.isfinite(found.bound)
    assert scale <= found.bound <= 40 * scale


def test_an_estimate_is_not_certified() -> None:
    """From all rows the sampled norm is the norm; from some it is near, and never called certified."""
    X = np.random.default_rng(0).standard_normal((600, 3))
    kernel = Rbf(Preparation(), GAMMA)
    Z = X[:15]
    features = FeatureMap.of(kernel, Z, np.float64)
    K, K_z = kernel.matrix(X, X), kernel.matrix(X, Z)
    F = K_z @ features.P
    norm = np.linalg.norm(reference.centred(K - F @ F.T), 2)
    whole = sampled(K, K_z, features.P, 600)
    assert whole.bound == pytest.approx(norm)
    some = np.arange(0, 600, 3)
    part = sampled(K[np.ix_(some, some)], K_z[some], features.P, 600)
    assert 0.7 * norm < part.bound < 2 * norm
    assert not part.certified
    assert np.isnan(part.failure_probability)
