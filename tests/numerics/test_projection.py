"""Rows → scores against a basis, block of training rows by block."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import reference

from kpca_stream.numerics.kernels import Kernel, Preparation, Rbf
from kpca_stream.numerics.projection import Spanning, project

X = np.random.default_rng(0).standard_normal((90, 3))
X_NEW = np.random.default_rng(1).standard_normal((13, 3))
K = reference.kernel("rbf", X, X, gamma=0.3)
K_NEW = reference.kernel("rbf", X_NEW, X, gamma=0.3)


def projected(kernel: Kernel, solution: reference.Solution, weights: Any, edges: list[int]) -> Any:
    blocks = [slice(a, b) for a, b in pairwise(edges)]
    spanning = (
        Spanning(
            kernel.operand(X[b], np.float64).as_second(),
            np.column_stack([solution.coefficients[b], weights[b]]),
        )
        for b in blocks
    )
    return project(
        kernel,
        kernel.operand(X_NEW, np.float64),
        spanning,
        centring=solution.coefficients.T @ solution.row_means,
        total_weight=float(weights.sum()),
        dtype=np.float64,
    )


@pytest.mark.parametrize("edges", [[0, 90], [0, 1, 64, 90], [0, 30, 30, 90]])
def test_scores_are_those_of_the_definition_for_any_blocks(edges: list[int]) -> None:
    """However the training rows are cut, scores are αᵀ(k(x) − m), with the mean similarity of all."""
    solution, ones = reference.solve(K, 4), np.ones(90)
    found = projected(Rbf(Preparation(), 0.3), solution, ones, edges)
    np.testing.assert_allclose(found.scores, reference.new_scores(solution, K_NEW), atol=1e-12)
    np.testing.assert_allclose(found.mean_similarity, K_NEW.mean(axis=1), atol=1e-14)


def test_weights_count_copies() -> None:
    """With weights, scores and mean similarity are those of rows that were repeated."""
    weights = np.arange(90) % 3 + 1.0
    solution = reference.solve(K, 3, weights)
    found = projected(Rbf(Preparation(), 0.3), solution, weights, [0, 40, 90])
    np.testing.assert_allclose(found.scores, reference.new_scores(solution, K_NEW), atol=1e-12)
    expected = np.repeat(K_NEW, weights.astype(int), axis=1).mean(axis=1)
    np.testing.assert_allclose(found.mean_similarity, expected, atol=1e-14)
