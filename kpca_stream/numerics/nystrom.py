"""Nyström pieces: a feature map from landmarks, and statistics of it that add up over any cut of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.kernels import Kernel

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """f(x) = Pᵀ k_Z(x) with K_mm = U Σ Uᵀ and P = U Σ^(−1/2), so that f(x)·f(y) approximates k(x, y).

    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines.

    Parameters
    ----------
    kernel : Kernel
    landmarks : ndarray of shape (m, n_features)
    P : ndarray of shape (m, r)
        r the numerical rank of K_mm.
    """

    kernel: Kernel
    landmarks: Array
    P: Array

    @classmethod
    def of(cls, kernel: Kernel, landmarks: Array, dtype: DTypeLike) -> Self:
        """From landmark rows; directions below what `dtype` tells from rounding are cut off."""
        K = kernel.matrix(landmarks, landmarks)
        sigma, U = np.linalg.eigh((K + K.T) / 2)
        kept = sigma > sigma[-1] * len(sigma) * np.finfo(dtype).eps
        return cls(kernel, landmarks, U[:, kept] / np.sqrt(sigma[kept]))


def similarities(kernel: Kernel, landmarks: Array, X: Array, dtype: DTypeLike) -> Array:
    """k_Z(x) of rows X, (n_rows, m)."""
    K = np.empty((len(X), len(landmarks)), dtype=dtype)
    kernel.fill(kernel.operand(X, dtype), kernel.operand(landmarks, dtype), K)
    return K


@dataclass(frozen=True, eq=False)
class Statistics:
    """Σ w, s = Σ w k_Z(x) (m,) and G = Σ w k_Z(x) k_Z(x)ᵀ (m, m): additive over rows."""

    total: float
    s: Array
    G: Array

    @classmethod
    def of(cls, K: Array, weights: Array) -> Self:
        """Of rows with similarities K (n_rows, m) and weights (n_rows,)."""
        weighted = weights[:, None].astype(K.dtype) * K
        s = weighted.sum(axis=0, dtype=np.float64)
        return cls(float(weights.sum()), s, (weighted.T @ K).astype(np.float64))

    def __add__(self, other: Statistics) -> Statistics:
        """Of both sets of rows."""
        return Statistics(self.total + other.total, self.s + other.s, self.G + other.G)


@dataclass(frozen=True, eq=False)
class Embedding:
    """x → (k_Z(x) − s/N)ᵀ B, scaled to unit columns over the training rows."""

    B: Array  # (m, w)
    centre: Array  # (w,)

    @classmethod
    def leading(cls, features: FeatureMap, statistics: Statistics, width: int) -> Self:
        """The leading directions of C = Pᵀ(G − s sᵀ/N)P = V Λ Vᵀ: B = P V Λ^(−1/2)."""
        covariance = statistics.G - np.outer(statistics.s, statistics.s) / statistics.total
        values, V = np.linalg.eigh(features.P.T @ covariance @ features.P)
        values, V = values[::-1][:width], V[:, ::-1][:, :width]
        kept = values > values[0] * len(values) * np.finfo(np.float64).eps
        B = features.P @ V[:, kept] / np.sqrt(values[kept])
        return cls(B, B.T @ statistics.s / statistics.total)

    def of(self, K: Array) -> Array:
        """Rows with similarities K (n_rows, m), embedded (n_rows, w), float64."""
        return np.asarray(K @ self.B.astype(K.dtype), dtype=np.float64) - self.centre
