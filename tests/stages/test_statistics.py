"""A first block of vectors from landmarks."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.numerics import rowcut
from kpca_stream.numerics.kernels import Preparation, Rbf
from kpca_stream.numerics.nystrom import FeatureMap
from kpca_stream.stages.statistics import landmark_block
from kpca_stream.storage.rows import ArrayRows


def rows(n_samples: int = 300) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((n_samples, 3))


def features(X: NDArray[np.float64], n_landmarks: int) -> FeatureMap:
    return FeatureMap.of(Rbf(Preparation(X.mean(axis=0)), 0.2), X[:n_landmarks], np.float64)


def test_with_all_rows_as_landmarks_the_block_is_the_eigenvectors() -> None:
    """Where nothing is approximated, the block spans the leading eigenvectors of the centred Gram matrix."""
    X = rows(60)
    block = landmark_block(ArrayRows(X), np.ones(60), features(X, 60), 5, np.dtype(np.float64))
    vectors = np.linalg.eigh(reference.centred(reference.kernel("rbf", X, X, gamma=0.2)))[1][:, ::-1]
    np.testing.assert_allclose(np.abs(block.T @ vectors[:, :5]), np.eye(5), atol=1e-6)


def test_weights_count_as_copies() -> None:
    """A row of weight 2 acts as two rows: √2 times the entry of either."""
    X = rows(40)
    weights = np.where(np.arange(40) < 5, 2.0, 1.0)
    dtype = np.dtype(np.float64)
    merged = landmark_block(ArrayRows(X), weights, features(X, 40), 4, dtype)
    copies = np.concatenate([X, X[:5]])
    whole = landmark_block(ArrayRows(copies), np.ones(45), features(X, 40), 4, dtype)
    np.testing.assert_allclose(np.abs(merged / np.sqrt(weights)[:, None]), np.abs(whole[:40]), atol=1e-6)


def test_row_blocks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of vectors does not depend on how rows are cut into tasks."""
    X = rows()
    arguments = (ArrayRows(X), np.ones(300), features(X, 50), 6, np.dtype(np.float64))
    expected = landmark_block(*arguments)
    monkeypatch.setattr(rowcut, "BLOCK_ROWS", 37)
    np.testing.assert_allclose(np.abs(landmark_block(*arguments)), np.abs(expected), atol=1e-9)
