"""Passes over the rows against a few landmarks: additive statistics, and the embedding they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.numerics.forecast import rows_at_once
from kpca_stream.numerics.nystrom import Embedding, FeatureMap, Statistics
from kpca_stream.storage.rows import Rows

Array = NDArray[Any]

BLOCK_ROWS = 8192


def landmark_block(
    rows: Rows, weights: Array, features: FeatureMap, width: int, dtype: np.dtype[Any]
) -> Array:
    """Vectors (n, ≤ width) close to the leading eigenvectors of the centred Gram matrix.

    Two passes over the rows against m landmarks, n·m kernel values each.
    """
    n_rows, step = rows.shape[0], rows_at_once(rows.shape[1], BLOCK_ROWS)
    addresses = [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]
    found: list[Statistics] = []
    passes.run(
        [passes.Call(statistics_of, (rows.part(a, b), weights[a:b], features, dtype)) for a, b in addresses],
        lambda _, result: found.append(result),
    )
    total = found[0]
    for statistics in found[1:]:
        total = total + statistics
    embedding = Embedding.leading(features, total, width)
    blocks: list[Array] = []
    passes.run(
        [passes.Call(embedded, (rows.part(a, b), features, embedding, dtype)) for a, b in addresses],
        lambda _, result: blocks.append(result),
    )
    return np.concatenate(blocks) * np.sqrt(weights)[:, None]


def statistics_of(rows: Rows, weights: Array, features: FeatureMap, dtype: np.dtype[Any]) -> Statistics:
    """The task: statistics of one row block."""
    A = features.kernel.operand(rows.load(), dtype)
    return Statistics.of(features.similarities(A, dtype), weights)


def embedded(rows: Rows, features: FeatureMap, embedding: Embedding, dtype: np.dtype[Any]) -> Array:
    """The task: one row block embedded."""
    A = features.kernel.operand(rows.load(), dtype)
    return embedding.of(features.similarities(A, dtype))
