"""How to approximate: which landmarks, how many, and by what the result is certified."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.forecast import SAMPLE_ROWS
from kpca_stream.storage.frozen import Basis

DEFAULT_LANDMARKS = 1000
DRAWN_ROWS = 65_536
DRAWN_BYTES = 64 * 2**20
"""Of the drawn rows in float64: from these landmarks are chosen and thresholds taken."""

LandmarkMethod = Literal["kmeans", "rpcholesky", "uniform", "given"]
Bound = Literal["trace", "probabilistic", "sampled"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NystromSettings:
    """How to choose landmarks; the meaning of each is that of the configuration's key.

    Parameters
    ----------
    n_landmarks : int
        At most so many.
    method : {"auto", "kmeans", "rpcholesky", "uniform"}
    given : ndarray, optional
        Landmarks of one's own, (m, n_features), or for a precomputed kernel their positions, (m,).
    like : Basis, optional
        Whose landmarks and kernel are taken, so that what is fitted can be merged with it.
    residual : float, optional
        The fewest landmarks that leave this share of the trace.
    pool : {"sample", "all"}
        Among which rows randomly pivoted Cholesky chooses.
    bound : {"trace", "probabilistic", "sampled"}
        On ‖H(K − K̂)H‖, beside the trace, which is always told.
    """

    n_landmarks: int = DEFAULT_LANDMARKS
    method: Literal["auto", "kmeans", "rpcholesky", "uniform"] = "auto"
    given: NDArray[Any] | None = None
    like: Basis | None = None
    residual: float | None = None
    pool: Literal["sample", "all"] = "sample"
    bound: Bound = "trace"

    def facts(self) -> list[Any]:
        """What the result depends on, as JSON takes it."""
        arrays = [self.given, None if self.like is None or self.like.rows is None else self.like.rows.load()]
        sums = [None if array is None else zlib.crc32(np.ascontiguousarray(array).data) for array in arrays]
        return [self.n_landmarks, self.method, *sums, self.residual, self.pool, self.bound]

    def method_for(self, kernel: str) -> LandmarkMethod:
        """Centres of clusters, where they make sense and nothing else was asked for."""
        if self.given is not None or self.like is not None:
            return "given"
        if self.method != "auto":
            return self.method
        has_centres = kernel in ("rbf", "laplacian") and self.residual is None
        return "kmeans" if has_centres else "rpcholesky"


def drawn_rows(n_features: int) -> int:
    """How many rows a Nyström fit draws."""
    return max(SAMPLE_ROWS, min(DRAWN_ROWS, DRAWN_BYTES // (8 * max(n_features, 1))))


def most_landmarks(settings: NystromSettings, n_samples: int) -> int:
    """No more than there are rows; of one's own as many as they are."""
    if settings.like is not None:
        return settings.like.n_rows
    if settings.given is None:
        return min(settings.n_landmarks, n_samples)
    # An empty array, or a single number, is refused where the data are known.
    return max(1, min(len(np.atleast_1d(settings.given)), n_samples))
