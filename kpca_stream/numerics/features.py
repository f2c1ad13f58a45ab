"""The feature map of landmarks: f(x)·f(y) approximates k(x, y).

All is in terms of the reduced kernel k'. Where that is not positive semidefinite itself (a constant was taken
off), the features are taken about an origin in the span of the landmarks, their mean: the centred Gram
matrix is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.kernels import Kernel

Array = NDArray[Any]

RESOLUTION = float(np.finfo(np.float64).eps) ** (2 / 3)
"""Least σ_i/σ_1 of a direction. K_mm is known to eps·σ_1, hence f_i(x) to eps·σ_1/σ_i, which squared makes up
eigenvalues of that size; here they are as small as what the cut-off loses."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """f(x) = Pᵀ(k_Z(x) − K_mm u) with K_mm = U Σ Uᵀ and P = U Σ^(−1/2): f(x)·f(y) approximates k(x, y).

    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines. The origin u is 0, but
    1/m each where k' is not positive semidefinite; then U Σ Uᵀ is the centred K_mm.

    Parameters
    ----------
    kernel : Kernel
    landmarks : ndarray of shape (m, n_features)
        For a precomputed kernel their positions, (m, 1).
    P : ndarray of shape (m, r)
        r the numerical rank of K_mm.
    dtype : dtype
        In which k_Z(x) is to be computed.
    origin, origin_similarities : ndarray of shape (m,)
        u and K_mm u.
    centre : ndarray of shape (m,)
        The landmarks' mean similarity, rounded to float32: what statistics are accumulated about.
    discarded : float
        Share of the trace of K_mm in directions that `dtype` does not tell from rounding.
    smallest : float
        The smallest eigenvalue of K_mm relative to the largest; clearly negative where k is indefinite.
    """

    kernel: Kernel
    landmarks: Array
    P: Array
    dtype: np.dtype[Any]
    origin: Array
    origin_similarities: Array
    centre: Array
    discarded: float
    smallest: float

    @staticmethod
    def of(kernel: Kernel, landmarks: Array, dtype: DTypeLike, *, K: Array | None = None) -> FeatureMap:
        """From landmark rows; directions below what `dtype` tells from rounding are cut off.

        Parameters
        ----------
        kernel : Kernel
        landmarks : ndarray of shape (m, n_features)
        dtype : dtype
            Of k_Z(x): the cut-off is σ_1·m·eps, and no less than σ_1·`RESOLUTION`.
        K : ndarray of shape (m, m), optional
            K_mm, for a precomputed kernel.
        """
        return _Decomposed.of(kernel, landmarks, K).features(np.dtype(dtype))

    @staticmethod
    def within(kernel: Kernel, landmarks: Array, tol: float, *, K: Array | None = None) -> FeatureMap:
        """Of float32, but of float64 where float32 would discard a share of the trace above `tol`."""
        decomposed = _Decomposed.of(kernel, landmarks, K)
        features = decomposed.features(np.dtype(np.float32))
        if features.discarded <= tol:
            return features
        return decomposed.features(np.dtype(np.float64))


class _Decomposed(NamedTuple):
    """K_mm, about its origin, as U Σ Uᵀ."""

    kernel: Kernel
    landmarks: Array
    K: Array
    origin: Array
    sigma: Array
    U: Array

    @classmethod
    def of(cls, kernel: Kernel, landmarks: Array, K: Array | None) -> Self:
        """About 0 for a definite kernel; for others about the landmarks' mean, which no constant moves."""
        K = kernel.matrix(landmarks, landmarks) if K is None else K
        K = (K + K.T) / 2
        m = len(K)
        if kernel.is_definite:
            return cls(kernel, landmarks, K, np.zeros(m), *np.linalg.eigh(K))
        centred = K - K.mean(axis=0)
        centred -= centred.mean(axis=1)[:, None]
        return cls(kernel, landmarks, K, np.full(m, 1 / m), *np.linalg.eigh((centred + centred.T) / 2))

    def features(self, dtype: np.dtype[Any]) -> FeatureMap:
        """The map whose similarities are computed in `dtype`."""
        positive = np.maximum(self.sigma, 0.0)
        trace = float(positive.sum()) or 1.0
        kept = self.sigma > positive[-1] * max(len(positive) * float(np.finfo(dtype).eps), RESOLUTION)
        P = self.U[:, kept] / np.sqrt(self.sigma[kept])
        # Small eigenvectors of the centred K_mm are orthogonal to its null vector to rounding only.
        P -= np.outer(self.origin, P.sum(axis=0))
        return FeatureMap(
            kernel=self.kernel,
            landmarks=self.landmarks,
            P=P,
            dtype=dtype,
            origin=self.origin,
            origin_similarities=self.K @ self.origin,
            centre=representable(self.K.mean(axis=0)),
            discarded=float(positive[~kept].sum()) / trace,
            smallest=float(self.sigma[0] / (np.abs(self.sigma).max() or 1.0)),
        )


def representable(centre: Array) -> Array:
    """Rounded to float32, (m,) in float64, so that it is the same number in either precision.

    What float32 cannot hold stays as it is: then similarities are not computed in it either.
    """
    centre = np.asarray(centre, dtype=np.float64)
    fits = np.abs(centre) < np.finfo(np.float32).max
    return np.where(fits, np.where(fits, centre, 0.0).astype(np.float32), centre)
