"""Kernel PCA written out: dense, float64, each line a definition. Slow, and independent of the package."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared Euclidean distances by direct differences, (n_x, n_y)."""
    differences = np.asarray(X, float)[:, None] - np.asarray(Y, float)[None]
    return np.asarray((differences**2).sum(axis=-1))


def kernel(
    name: str, X: Array, Y: Array, *, gamma: float = 1.0, degree: int = 3, coef0: float = 1.0
) -> Array:
    """The kernel between the rows of X and those of Y, (n_x, n_y)."""
    X, Y = np.asarray(X, float), np.asarray(Y, float)
    dot: Array = np.asarray(np.einsum("id,jd->ij", X, Y))
    if name == "linear":
        return dot
    if name == "poly":
        return np.asarray((gamma * dot + coef0) ** degree)
    if name == "sigmoid":
        return np.asarray(np.tanh(gamma * dot + coef0))
    if name == "rbf":
        return np.asarray(np.exp(-gamma * squared_distances(X, Y)))
    if name == "laplacian":
        return np.asarray(np.exp(-gamma * np.abs(X[:, None] - Y[None]).sum(axis=-1)))
    if name == "cosine":
        norms = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
        return np.asarray(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0))
    raise ValueError(name)


def centring_matrix(weights: Array) -> Array:
    """H = I - 1 w' / N, (n, n)."""
    return np.asarray(np.eye(len(weights)) - np.outer(np.ones(len(weights)), weights) / weights.sum())


def centred(K: Array, weights: Array | None = None) -> Array:
    """The centred Gram matrix S H K H' S with S = diag(sqrt(w)); H K H without weights."""
    w = np.ones(len(K)) if weights is None else np.asarray(weights, float)
    H, S = centring_matrix(w), np.diag(np.sqrt(w))
    return np.asarray(S @ H @ K @ H.T @ S)


def spectrum(K: Array, weights: Array | None = None) -> Array:
    """All eigenvalues of the centred Gram matrix, largest first, (n,)."""
    return np.asarray(np.linalg.eigvalsh(centred(K, weights))[::-1])


class Solution(NamedTuple):
    """Leading eigenpairs and all that follows from them."""

    eigenvalues: Array
    eigenvectors: Array
    coefficients: Array
    scores: Array
    row_means: Array
    grand_mean: float
    trace: float


def solve(K: Array, n_components: int, weights: Array | None = None) -> Solution:
    """Kernel PCA of a Gram matrix whose leading eigenvalues are positive; no rule for signs."""
    w = np.ones(len(K)) if weights is None else np.asarray(weights, float)
    centred_gram = centred(K, w)
    mu, U = np.linalg.eigh((centred_gram + centred_gram.T) / 2)
    mu, U = mu[::-1][:n_components], U[:, ::-1][:, :n_components]
    row_means = K @ w / w.sum()
    return Solution(
        eigenvalues=mu,
        eigenvectors=U,
        coefficients=U * np.sqrt(w)[:, None] / np.sqrt(mu),
        scores=U * np.sqrt(mu) / np.sqrt(w)[:, None],
        row_means=row_means,
        grand_mean=float(w @ row_means / w.sum()),
        trace=float(np.trace(centred_gram)),
    )


def new_scores(solution: Solution, k_new: Array) -> Array:
    """Scores of new rows from their kernel with the training rows, (n_new, n)."""
    return np.asarray((k_new - solution.row_means) @ solution.coefficients)


def reconstruction_error(
    solution: Solution, k_new: Array, k_self: Array, weights: Array | None = None
) -> Array:
    """Squared feature-space distance of new rows to the model, (n_new,)."""
    w = np.ones(k_new.shape[1]) if weights is None else np.asarray(weights, float)
    to_mean = k_self - 2 * (k_new @ w) / w.sum() + solution.grand_mean
    return np.asarray(to_mean - (new_scores(solution, k_new) ** 2).sum(axis=1))
