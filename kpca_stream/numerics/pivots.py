"""Randomly pivoted Cholesky: landmarks drawn by what the ones before them leave unexplained.

With f(x) = L⁻¹ k_Z(x) and K_mm = L Lᵀ, a row's residual k(x, x) − ‖f(x)‖² is what the landmarks Z miss of it.
A round measures the residuals of all rows, draws proposals in proportion to them, and accepts each with the
probability that is left of its residual when its turn comes: what is accepted is distributed as if drawn one
at a time. Accelerated form: Epperly, Tropp and Webber (2024), arXiv 2410.03969.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular

from kpca_stream.errors import DataError
from kpca_stream.numerics.curve import Curve

Array = NDArray[Any]
Indices = NDArray[np.int64]

MOST_PROPOSALS = 2048
FEWEST_PROPOSALS = 512
LEAST_PROPOSALS = 128
"""Where few landmarks are missing."""
USUAL_SHARE = 0.4
"""Of the proposals of a round that become pivots; the slower the residuals fall, the more."""
STRIP = 128
"""Proposals that are looked at together; the factor grows once a strip."""
DRAW_STRIDE = 65_536
ROUNDINGS = 32
"""A residual below so many roundings of k(x, x) is none."""
SAFE_PIVOT = 1e-3
"""Below it, relative to the largest k(x, x), the inverse factor takes more digits than float32 has."""


@dataclass(frozen=True, eq=False)
class Pivots:
    """Rows chosen so far, in order, and the Cholesky factor of their kernel matrix.

    Parameters
    ----------
    indices : ndarray of int of shape (m,)
        Their positions.
    factor : ndarray of shape (m, m)
        L, lower triangular, K_mm = L Lᵀ.
    """

    indices: Indices
    factor: Array

    @classmethod
    def none(cls) -> Self:
        """Before the first one."""
        return cls(np.empty(0, np.int64), np.empty((0, 0)))

    def inverse(self) -> Array:
        """L^(−ᵀ), (m, m): ``k_Z(x) @ inverse`` is f(x)."""
        return np.ascontiguousarray(solve_triangular(self.factor, np.eye(len(self)), lower=True).T)

    def precision(self, dtype: DTypeLike, largest: float) -> np.dtype[Any]:
        """`dtype`, or float64 where the smallest pivot asks for it; `largest` is that of k(x, x)."""
        smallest = np.square(np.diagonal(self.factor)).min(initial=np.inf)
        return np.dtype(dtype if smallest >= SAFE_PIVOT * largest else np.float64)

    def grown(self, indices: Indices, F: Array, L: Array) -> Pivots:
        """With a more: `F` (a, m) their features, `L` (a, a) the factor of what is left of their matrix."""
        upper = np.zeros((len(self), len(indices)))
        factor = np.block([[self.factor, upper], [F, L]])
        return type(self)(np.concatenate((self.indices, indices)), factor)

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class Sums:
    """What pivots explain of a set of rows; sums of two sets are those of both.

    Parameters
    ----------
    total : float
        Σ w k(x, x).
    explained : ndarray of shape (m,)
        Σ w f_j(x)².
    largest, roundings : float
        The largest k(x, x), and how many roundings of it a kernel value is off.
    """

    total: float
    explained: Array
    largest: float
    roundings: float

    @classmethod
    def nothing(cls, n_pivots: int) -> Self:
        """Of no rows."""
        return cls(0.0, np.zeros(n_pivots), 0.0, 0.0)

    def __add__(self, other: Sums) -> Sums:
        """Of both sets."""
        return Sums(
            self.total + other.total,
            self.explained + other.explained,
            max(self.largest, other.largest),
            max(self.roundings, other.roundings),
        )

    @property
    def curve(self) -> Curve:
        """Of the pivots, in their order."""
        if not self.total > 0:
            return Curve(np.zeros(len(self.explained)))
        return Curve(np.maximum(1.0 - np.cumsum(self.explained) / self.total, 0.0))

    def tolerance(self, eps: float) -> float:
        """The residual that is none, where values are rounded to `eps`."""
        return ROUNDINGS * eps * self.roundings * self.largest


class Residuals(NamedTuple):
    """k(x, x) − ‖f(x)‖² of each row, (n_rows,), and the sums over them."""

    values: Array
    sums: Sums

    @classmethod
    def of(cls, K: Array, diagonal: Array, weights: Array, inverse: Array, roundings: float) -> Self:
        """Of rows with similarities K (n_rows, m) to the pivots."""
        F = np.asarray(K @ inverse, np.float64)
        np.square(F, out=F)
        total, largest = float(weights @ diagonal), float(diagonal.max(initial=0.0))
        return cls(diagonal - F.sum(axis=1), Sums(total, weights @ F, largest, roundings))


class Gram(Protocol):
    """Rows of which landmarks are chosen, and the values of a kernel between them."""

    @property
    def eps(self) -> float:
        """Rounding of the values themselves."""

    @property
    def weights(self) -> Array:
        """A row of weight w counts as w copies, (n_rows,)."""

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """One pass over the rows."""

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """Of proposals with the pivots and with themselves (b, m + b), and k(x, x) (b,), in float64."""


class Chosen(NamedTuple):
    """Landmarks in the order in which they were chosen.

    Parameters
    ----------
    indices : ndarray of int of shape (m,)
        Their positions, all different.
    curve : Curve
        What is left of the trace after each; where the last pass was spared, it ends before the last ones.
    n_rounds : int
        How often proposals were drawn.
    """

    indices: Indices
    curve: Curve
    n_rounds: int


class Rounds(NamedTuple):
    """How far a choice got.

    Parameters
    ----------
    pivots : Pivots
    n_rounds : int
        How often proposals were drawn.
    """

    pivots: Pivots
    n_rounds: int


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked for.

    Parameters
    ----------
    n_landmarks : int
        At most so many; fewer where the rows' rank is exhausted, never none.
    seed : int
    residual : float, optional
        Stop at the first landmark that leaves this share of the trace.
    """

    n_landmarks: int
    seed: int
    residual: float | None = None


def choose(
    gram: Gram,
    wanted: Wanted,
    *,
    judge: bool = True,
    begun: Rounds | None = None,
    keep: Callable[[Rounds], None] | None = None,
) -> Chosen:
    """Randomly pivoted Cholesky, a pass over the rows for each block of proposals.

    Parameters
    ----------
    gram : Gram
    wanted : Wanted
    judge : bool
        Whether to measure what the last landmarks leave too, which takes a pass of its own; always done where
        a residual is asked for.
    begun : Rounds, optional
        The rounds of an earlier run, as `keep` was told of them.
    keep : callable, optional
        Is told of all rounds so far after each.

    Returns
    -------
    Chosen
        The same for every cut of the rows, but for rounding.
    """
    pivots, n_rounds = begun or Rounds(Pivots.none(), 0)
    curve = Curve(np.empty(0))
    judge = judge or wanted.residual is not None
    while judge or len(pivots) < wanted.n_landmarks:
        left, curve = gram.residuals(pivots)
        enough = None if wanted.residual is None else curve.needed(wanted.residual)
        if enough is not None:
            return Chosen(pivots.indices[:enough], Curve(curve.shares[:enough]), n_rounds)
        # Of the round alone: a choice that goes on draws what it would have drawn.
        rng = np.random.default_rng([wanted.seed % 2**64, n_rounds])
        grown = _round(gram, pivots, left, wanted.n_landmarks, rng)
        if len(grown) == len(pivots):
            break
        pivots, n_rounds = grown, n_rounds + 1
        if keep is not None:
            keep(Rounds(pivots, n_rounds))
    if not len(pivots):
        return Chosen(np.zeros(1, np.int64), Curve(np.zeros(1)), n_rounds)
    return Chosen(pivots.indices, curve, n_rounds)


def _round(gram: Gram, pivots: Pivots, left: Residuals, n_landmarks: int, rng: np.random.Generator) -> Pivots:
    """More pivots, from one block of proposals; the same where nothing is left to choose."""
    if not math.isfinite(left.sums.total):
        raise DataError(
            f"kernel values: got a trace of {left.sums.total}, expected finite values; scale the rows or "
            "take a smaller gamma or degree"
        )
    tolerance = left.sums.tolerance(gram.eps)
    residuals = left.values
    residuals[residuals <= tolerance] = 0.0
    residuals[pivots.indices] = 0.0
    n_wanted = n_landmarks - len(pivots)
    if n_wanted < 1 or not residuals.any():
        return pivots
    n_proposals = _n_proposals(len(pivots), n_wanted)
    proposals = draw(residuals, gram.weights, n_proposals, rng)
    K, diagonal = gram.values(proposals, pivots.indices)
    thresholds = rng.random(n_proposals) * residuals[proposals]
    return _accepted(pivots, proposals, K, diagonal, np.maximum(thresholds, tolerance), n_landmarks)


def _n_proposals(n_pivots: int, n_wanted: int) -> int:
    return min(MOST_PROPOSALS, max(FEWEST_PROPOSALS, 2 * n_pivots), max(LEAST_PROPOSALS, 2 * n_wanted))


def expected_rounds(n_landmarks: int) -> list[int]:
    """For each round that choosing so many landmarks is likely to take, the pivots that it begins with."""
    begun, n_pivots = [], 0
    while n_pivots < n_landmarks:
        begun.append(n_pivots)
        n_pivots += int(USUAL_SHARE * _n_proposals(n_pivots, n_landmarks - n_pivots))
    return begun


def _accepted(
    pivots: Pivots, proposals: Indices, K: Array, diagonal: Array, thresholds: Array, n_landmarks: int
) -> Pivots:
    """Those proposals of which the residual passes its threshold, strip by strip, up to `n_landmarks`."""
    columns = np.arange(len(pivots))  # where K has the values with the pivots
    n_before = len(pivots)
    for start in range(0, len(proposals), STRIP):
        strip = np.arange(start, min(start + STRIP, len(proposals)))
        F = solve_triangular(pivots.factor, K[np.ix_(strip, columns)].T, lower=True).T
        H = K[np.ix_(strip, n_before + strip)] - F @ F.T
        np.fill_diagonal(H, diagonal[strip] - np.einsum("ij,ij->i", F, F))
        chosen, L = _eliminated(H, thresholds[strip], n_landmarks - len(pivots))
        pivots = pivots.grown(proposals[strip[chosen]], F[chosen], L)
        columns = np.concatenate((columns, n_before + strip[chosen]))
        if len(pivots) == n_landmarks:
            break
    return pivots


def _eliminated(H: Array, thresholds: Array, most: int) -> tuple[Indices, Array]:
    """Rows of H (b, b) of which the diagonal passes the threshold in its turn, and their Cholesky factor."""
    chosen: list[int] = []
    factor = np.zeros((len(H), 0))
    for i in range(len(H)):
        if len(chosen) < most and H[i, i] > thresholds[i]:
            column = H[:, i] / math.sqrt(H[i, i])
            H -= np.outer(column, column)
            factor = np.column_stack((factor, column))
            chosen.append(i)
    return np.array(chosen, np.int64), np.tril(factor[chosen])


def draw(residuals: Array, weights: Array, n_draws: int, rng: np.random.Generator) -> Indices:
    """Positions in proportion to ``weights · residuals``, with replacement: a stride, then a row in it."""
    strides = [slice(a, a + DRAW_STRIDE) for a in range(0, len(residuals), DRAW_STRIDE)]
    ends = np.cumsum([weights[rows] @ residuals[rows] for rows in strides])
    targets = rng.random(n_draws) * ends[-1]
    at = _first_above(ends, targets)
    found = np.empty(n_draws, np.int64)
    for s in np.unique(at):
        within = np.cumsum(weights[strides[s]] * residuals[strides[s]])
        mine = at == s
        found[mine] = strides[s].start + _first_above(within, targets[mine] - (ends[s - 1] if s else 0.0))
    return found


def _first_above(ends: Array, targets: Array) -> Indices:
    """Where the running sums pass the targets; rounding never leads past the last increase."""
    last = int(np.searchsorted(ends, ends[-1]))
    return np.minimum(np.searchsorted(ends, targets, side="right"), last)
