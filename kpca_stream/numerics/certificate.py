"""How far an approximate spectrum may be from the exact one.

K − K̂ is positive semidefinite, so that λ̂_j ≤ λ_j ≤ λ̂_j + ‖H(K − K̂)H‖, up to rounding.
Each bound on that norm is named as what it is; only the first two are certified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Product = Callable[[Array], Array]
Kind = Literal["trace", "probabilistic", "sampled"]

ALPHA = 10.0


@dataclass(frozen=True)
class Certificate:
    """A bound on ‖H(K − K̂)H‖.

    Parameters
    ----------
    kind : {"trace", "probabilistic", "sampled"}
    bound : float
    certified : bool
        False for an estimate.
    failure_probability : float
        At most; 0 for what is certain, NaN for an estimate.
    """

    kind: Kind
    bound: float
    certified: bool
    failure_probability: float

    def brackets(self, eigenvalues: Array, rounding: Array | float = 0.0) -> Array:
        """[λ̂_j − r_j, λ̂_j + r_j + bound] of each, (k, 2); r that of `Embedding.rounding`."""
        return np.column_stack([eigenvalues - rounding, eigenvalues + rounding + self.bound])


def by_trace(residual_trace: float) -> Certificate:
    """By tr(K − K̂), which is certain and free, and loose: no eigenvalue is above the sum of all."""
    return Certificate("trace", residual_trace, certified=True, failure_probability=0.0)


def probabilistic(
    exact: Product,
    approximate: Product,
    n_samples: int,
    *,
    seed: int,
    n_vectors: int = 6,
    power: int = 1,
) -> Certificate:
    """By products of E with random vectors; each costs a pass over all pairs of rows.

    Halko, Martinsson and Tropp (2011), Lemma 4.1: ‖E‖ ≤ (10 √(2/π) max_i ‖E^q ω_i‖)^(1/q) for r Gaussian
    vectors ω_i, but with a probability of at most 10⁻ʳ.

    Parameters
    ----------
    exact, approximate : callable
        The exact and the approximate centred Gram matrix times V (n, w); E is their difference.
    n_samples : int
        n.
    seed : int
        Of the vectors.
    n_vectors : int
        r.
    power : int
        q: so many products; a larger one makes the bound tighter.
    """
    V = np.random.default_rng(seed).standard_normal((n_samples, n_vectors))
    scale = 0.0
    for _ in range(power):
        V = exact(V) - approximate(V)
        # Powers of a large or a small E leave the range of numbers.
        largest = float(np.linalg.norm(V, axis=0).max())
        if largest == 0:
            return Certificate("probabilistic", 0.0, certified=True, failure_probability=ALPHA**-n_vectors)
        scale += float(np.log(largest))
        V = V / largest
    bound = float(np.exp((scale + np.log(ALPHA * np.sqrt(2 / np.pi))) / power))
    return Certificate("probabilistic", bound, certified=True, failure_probability=ALPHA**-n_vectors)


def sampled(K: Array, K_landmarks: Array, P: Array, total: float) -> Certificate:
    """From a uniform sample of rows, as if all were like them; an estimate, on average not too small.

    Parameters
    ----------
    K : ndarray of shape (b, b)
        k' between the sampled rows.
    K_landmarks : ndarray of shape (b, m)
        k' between these and the landmarks.
    P : ndarray of shape (m, r)
        Of the feature map.
    total : float
        Number of all rows, Σ w.
    """
    F = K_landmarks @ P
    E = K - F @ F.T
    E = E - E.mean(axis=0)
    E = E - E.mean(axis=1)[:, None]
    largest = float(np.linalg.eigvalsh((E + E.T) / 2)[-1])
    return Certificate(
        "sampled", max(0.0, largest) * total / len(K), certified=False, failure_probability=float("nan")
    )
