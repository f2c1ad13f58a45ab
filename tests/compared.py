"""Generated fits beside their true solutions, and how far rounding may take them apart."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import reference
from numpy.typing import NDArray
from reference import Solution
from strategies import Problem

from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.fitting import Fit, fit
from kpca_stream.stages.scoring import Scores, score_block
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]


def weights_of(problem: Problem) -> Array:
    return np.ones(problem.traits.n_samples) if problem.weights is None else problem.weights


def fitted(problem: Problem, X: Array | None = None, weights: Array | None = None, **more: Any) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KpcaStreamWarning)  # generated kernels may well be near the identity
        source = open_source(problem.fit_rows if X is None else X)
        return fit(source, replace(problem.settings, **more), weights=weights)


def of(problem: Problem) -> tuple[Fit, Array, Array, Solution]:
    """A fit, the true kernel, the weights and the true solution."""
    found = fitted(problem, weights=problem.weights)
    weights = weights_of(problem)
    K = problem.true_kernel()[0]
    with np.errstate(divide="ignore", invalid="ignore"):  # of eigenvalues that are 0
        truth = reference.solve(K, len(K), problem.weights)
    return found, K, weights, truth


def scored(found: Fit, problem: Problem, X: Array) -> Scores:
    diagonal = problem.true_kernel()[2] if problem.kernel == "precomputed" else None
    return score_block(found.basis, ArrayRows(X.astype(float)), diagonal)


def rescored(found: Fit, problem: Problem) -> Scores:
    """The training rows, scored as new ones."""
    diagonal = np.diagonal(problem.fit_rows).copy() if problem.kernel == "precomputed" else None
    return score_block(found.basis, ArrayRows(problem.fit_rows.astype(float)), diagonal)


def training_scores(found: Fit, weights: Array) -> Array:
    """z_ij = √μ_j a_ij/√w_i of the positive components, (n, k)."""
    positive = found.pairs.eigenvectors[:, found.pairs.eigenvalues > 0]
    return np.asarray(positive * np.sqrt(found.basis.eigenvalues) / np.sqrt(weights)[:, None])


def noise(problem: Problem, K: Array, weights: Array) -> float:
    """What rounding in the working precision, and the tolerance of a mixed fit, may change of K̃."""
    largest = float((weights * np.abs(np.diagonal(K))).max())
    rounding = 16 * problem.epsilon * problem.condition * len(K) * largest
    return rounding + (1e-8 * len(K) * largest if problem.precision == "mixed" else 0.0)


def distinguished(problem: Problem, truth: Solution, n_found: int, rounding: float) -> tuple[int, float]:
    """The most leading components that are large and apart from the rest, and how exact their scores are."""
    mu = np.append(truth.eigenvalues, 0.0)
    floor = max(1e-4 * mu[0], 1e3 * rounding, 1e-300)
    kept = max((k for k in range(1, n_found + 1) if mu[k - 1] - mu[k] > floor), default=0)
    K, k_new, k_self = problem.true_kernel()
    size = max(float(np.abs(k).max()) for k in (K, k_new, k_self))
    relative = 4 * problem.epsilon * problem.condition + (1e-9 if problem.precision == "mixed" else 0.0)
    return kept, relative * (len(K) * size) ** 2 / max(float(mu[kept - 1] - mu[kept]), floor)
