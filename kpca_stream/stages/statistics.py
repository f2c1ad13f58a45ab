"""Passes over the rows against a few landmarks: additive statistics, and the embedding they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.numerics.forecast import rows_at_once
from kpca_stream.numerics.kernels import Kernel
from kpca_stream.numerics.nystrom import Embedding, FeatureMap, Statistics, similarities
from kpca_stream.storage.rows import Rows
from kpca_stream.telemetry import Advance

Array = NDArray[Any]

BLOCK_ROWS = 8192


def landmark_block(
    rows: Rows,
    weights: Array,
    features: FeatureMap,
    width: int,
    dtype: np.dtype[Any],
    *,
    at_once: int | None = None,
    progress: Advance | None = None,
) -> Array:
    """Vectors (n, ≤ width) close to the leading eigenvectors of the centred Gram matrix.

    Two passes over the rows against m landmarks, n·m kernel values each.
    """
    kernel, landmarks = features.kernel, features.landmarks
    n_rows, step = rows.shape[0], rows_at_once(rows.shape[1], BLOCK_ROWS)
    blocks = [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]
    sums: list[Statistics] = []

    def add(_: int, part: Statistics) -> None:
        sums[:] = [sums[0] + part] if sums else [part]

    calls = [
        passes.Call(statistics_of, (rows.part(a, b), weights[a:b], kernel, landmarks, dtype))
        for a, b in blocks
    ]
    passes.run(calls, add, at_once=at_once, progress=progress)
    embedding = Embedding.leading(features, sums[0], width)
    found: list[Array] = []
    calls = [passes.Call(embedded, (rows.part(a, b), kernel, landmarks, embedding, dtype)) for a, b in blocks]
    passes.run(calls, lambda _, result: found.append(result), at_once=at_once, progress=progress)
    return np.concatenate(found) * np.sqrt(weights)[:, None]


def statistics_of(
    rows: Rows, weights: Array, kernel: Kernel, landmarks: Array, dtype: np.dtype[Any]
) -> Statistics:
    """The task: statistics of one row block."""
    return Statistics.of(similarities(kernel, landmarks, rows.load(), dtype), weights)


def embedded(
    rows: Rows, kernel: Kernel, landmarks: Array, embedding: Embedding, dtype: np.dtype[Any]
) -> Array:
    """The task: one row block embedded."""
    return embedding.of(similarities(kernel, landmarks, rows.load(), dtype))
