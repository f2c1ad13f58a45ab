"""From the sums of a Nyström fit to its basis: eigenpairs, thresholds, what later rows are added to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConvergenceError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics import novelty
from kpca_stream.numerics.certificate import Certificate, by_trace
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.nystrom import Embedding, Statistics, embed
from kpca_stream.spectrum import SHARE_ROUNDING, ZERO, signs_of
from kpca_stream.stages.scoring import score_rows
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.frozen import Accumulated
from kpca_stream.storage.rows import ArrayRows

Array = NDArray[Any]

MUCH_RESIDUAL = 0.05
"""Of the trace: a fit that leaves more says so, and how many landmarks it would take."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some of the training rows, by which thresholds are set.

    Parameters
    ----------
    X : ndarray of shape (q, n_features)
    weights : ndarray of shape (q,)
        How many training rows each of them stands for.
    diagonal : ndarray of shape (q,), optional
        k(x, x), for a precomputed kernel.
    """

    X: Array
    weights: Array
    diagonal: Array | None = None

    def thresholds(self, basis: Basis, quantile: float) -> novelty.Thresholds:
        """From their leverage-corrected reconstruction errors and T²."""
        found = score_rows(basis, ArrayRows(self.X), diagonal=self.diagonal)
        error = np.zeros(len(self.X)) if found.reconstruction_error is None else found.reconstruction_error
        # A row of a sample stands for its likes, not for copies of itself.
        scale = min(1.0, len(self.X) / float(self.weights.sum()))
        return novelty.thresholds(
            error,
            found.hotelling_t2,
            basis.total_weight,
            quantile=quantile,
            weights=None if np.ptp(self.weights) == 0 else scale * self.weights,
        )


def drawn_of(kernel: Kernel, looked: Sweep, weights: Array | None, total: float, seed: int) -> Drawn:
    """The drawn rows of a sweep, and how many rows each stands for."""
    X = looked.drawn.X
    if weights is None and not isinstance(kernel, Precomputed):
        return Drawn(X, np.full(len(X), total / len(X)))
    n_source = looked.n_seen if weights is None else len(weights)
    positions = looked.drawn.positions(n_source, seed)
    own = np.ones(len(X)) if weights is None else weights[positions]
    diagonal = X[np.arange(len(X)), positions] if isinstance(kernel, Precomputed) else None
    return Drawn(X, own * total / own.sum(), diagonal)


@dataclass(frozen=True, eq=False)
class Assembled:
    """A basis made of sums, and what its certificate needs."""

    basis: Basis
    embedding: Embedding
    statistics: Statistics
    residual_share: float

    @property
    def certificate(self) -> Certificate:
        """The certain bound, which is free."""
        return by_trace(self.embedding.residual_bound)


def assembled(
    features: FeatureMap,
    K: Array,
    statistics: Statistics,
    drawn: Drawn,
    settings: FitSettings,
    columns: tuple[str, ...],
) -> Assembled:
    """The basis of rows that were added up: after a fit, after more rows, or after a merge.

    Parameters
    ----------
    features : FeatureMap
    K : ndarray of shape (m, m)
        k' between the landmarks.
    statistics : Statistics
    drawn : Drawn
    settings : FitSettings
        How many components, and the quantile of novelty.
    columns : tuple of str
    """
    precision = features.dtype.name
    every = embed(features, statistics)
    kept = every.eigenvalues > ZERO[precision] * every.eigenvalues.max(initial=0.0)
    embedding = every.leading(min(_wanted(every, settings, precision), int(kept.sum())))
    signs = signs_of((K - embedding.mean) @ embedding.B, precision)
    embedding = replace(embedding, B=embedding.B * signs)
    own = statistics.tau + 2 * statistics.offset
    share = every.residual_trace / own if own > 0 else 0.0
    basis = _basis(features, embedding, statistics, columns, share)
    basis = replace(basis, thresholds=drawn.thresholds(basis, settings.quantile))
    accumulated = None if isinstance(features.kernel, Precomputed) else _accumulated(statistics, drawn)
    return Assembled(replace(basis, accumulated=accumulated), embedding, statistics, share)


def _wanted(every: Embedding, settings: FitSettings, precision: str) -> int:
    asked, n_found = settings.n_components, len(every.eigenvalues)
    if not isinstance(asked, float):
        return n_found if asked is None else asked
    shares = np.cumsum(every.eigenvalues) / (every.trace_bound or 1.0)
    enough = np.flatnonzero(shares >= asked * (1 - SHARE_ROUNDING[precision]))
    most = min(settings.max_components, n_found)
    if enough.size and enough[0] < most:
        return int(enough[0]) + 1
    reached = float(shares[most - 1]) if most else 0.0
    name = settings.wording
    raise ConvergenceError(
        f"{most} components certify {reached:.4f} of the variance, asked for {asked}: raise "
        f"max_components ({settings.max_components}) or {name('n_landmarks')}, or ask for less"
    )


def _basis(
    features: FeatureMap, embedding: Embedding, statistics: Statistics, columns: tuple[str, ...], share: float
) -> Basis:
    kernel, landmarks, total = features.kernel, features.landmarks, statistics.total
    mean_offset = statistics.offset / total
    own_offset = np.zeros(len(landmarks))
    if not isinstance(kernel, Precomputed):
        own_offset = kernel.offset(kernel.operand(landmarks, np.float64))
    return Basis(
        kernel=kernel,
        precision=features.dtype.name,
        columns=columns,
        n_rows=len(landmarks),
        total_weight=total,
        rows=None if isinstance(kernel, Precomputed) else ArrayRows(landmarks),
        coefficients=ArrayRows(np.ascontiguousarray(embedding.B)),
        weights=total * embedding.mean_coefficients,
        eigenvalues=embedding.eigenvalues,
        centring=embedding.B.T @ embedding.mean,
        reduced_grand_mean=embedding.grand_mean,
        row_means=embedding.mean + own_offset + mean_offset,
        grand_mean=embedding.grand_mean + 2 * mean_offset,
        trace=embedding.trace_bound,
        thresholds=novelty.Thresholds.unknown(),
        facts={
            "residual_trace_share": share,
            "rank": features.P.shape[1],
            "rounding": embedding.rounding.tolist(),
        },
    )


def _accumulated(statistics: Statistics, drawn: Drawn) -> Accumulated:
    return Accumulated(
        total=statistics.total,
        tau=statistics.tau,
        offset=statistics.offset,
        centre=statistics.centre,
        s=statistics.s,
        G=ArrayRows(statistics.G),
        sample=ArrayRows(drawn.X),
        sample_weights=drawn.weights,
    )
