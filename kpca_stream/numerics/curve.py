"""How the residual trace falls with the number of landmarks, and how many would do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from kpca_stream.numerics.kernels import Kernel

Array = NDArray[Any]

RIDGE = 1e-10
"""Of the largest k(x, x): makes copies and near copies among landmarks harmless."""


@dataclass(frozen=True, eq=False)
class Curve:
    """What is left of the trace, Σ (k(x, x) − ‖f(x)‖²) / Σ k(x, x), after each landmark.

    Parameters
    ----------
    shares : ndarray of shape (m,)
        After 1, 2, … landmarks; never increasing.
    """

    shares: Array

    def at(self, n_landmarks: int) -> float:
        """The share at `n_landmarks`, or at the last one known; 1 without any."""
        if not len(self.shares) or n_landmarks < 1:
            return 1.0
        return float(self.shares[min(n_landmarks, len(self.shares)) - 1])

    def needed(self, share: float, *, seen: tuple[int, float] | None = None) -> int | None:
        """The fewest landmarks that leave at most `share`; None beyond what the curve knows.

        Parameters
        ----------
        share : float
        seen : tuple of int and float, optional
            A number of landmarks and the share that they really left on all rows: the curve is scaled to it.
        """
        factor = 1.0
        if seen is not None and self.at(seen[0]) > 0:
            factor = seen[1] / self.at(seen[0])
        below = np.flatnonzero(factor * self.shares <= share)
        return int(below[0]) + 1 if below.size else None

    def advice(self, n_landmarks: int, share: float, wanted: float) -> str:
        """A line on the `share` that `n_landmarks` left, and on how many would leave `wanted`."""
        needed = self.needed(wanted, seen=(n_landmarks, share))
        number = f"more than {len(self.shares):,}" if needed is None else f"about m = {_rounded_up(needed):,}"
        return (
            f"residual trace is {_percent(share)}: {number} landmarks would bring it below {_percent(wanted)}"
        )


def curve_by(kernel: Kernel, landmarks: Array, judges: Array) -> Curve:
    """What the first 1, 2, … of `landmarks` (m, n_features) leave of the trace of `judges` (q, n_features).

    One Cholesky factor and one triangular solve in float64; choosing them well would take many passes.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite.
    landmarks, judges : ndarray
        No row may be in both.
    """
    K = kernel.matrix(landmarks, landmarks)
    largest = float(K.diagonal().max(initial=0.0))
    K[np.diag_indices(len(K))] += RIDGE * largest if largest > 0 else 1.0
    L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    F = solve_triangular(
        L, kernel.matrix(landmarks, judges), lower=True, overwrite_b=True, check_finite=False
    )
    np.square(F, out=F)
    total = float(kernel.diagonal(kernel.operand(judges, np.float64)).sum())
    if not total > 0:
        return Curve(np.zeros(len(F)))
    return Curve(np.maximum(1.0 - np.cumsum(F.sum(axis=1)) / total, 0.0))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _rounded_up(number: int) -> int:
    """To two digits."""
    step = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return -(-number // step) * step
