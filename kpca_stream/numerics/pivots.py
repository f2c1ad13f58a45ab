"""Landmarks by randomly pivoted Cholesky: rows drawn by what the ones before them leave unexplained.

With F = k_Z L^(−ᵀ) and K_mm = L Lᵀ, a row's residual k(x, x) − ‖f(x)‖² is what the landmarks Z miss of it. A round
measures the residuals of all rows, draws proposals in proportion to them, and accepts each with the probability
by which the residual has stayed since: what is accepted is distributed as if drawn one at a time. Accelerated
form: Epperly, Tropp and Webber (2024), arXiv 2410.03969.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular

from kpca_stream.numerics.kernels import Kernel, Operand, Precomputed

Array = NDArray[Any]
Indices = NDArray[np.int64]

MOST_PROPOSALS = 2048
FEWEST_PROPOSALS = 512
STRIP = 128
"""Proposals that are looked at together; the factor grows once a strip."""
STRIP_ROWS = 1024
DRAW_STRIDE = 65_536
ROUNDINGS = 32
"""A residual below so many roundings of k(x, x) is none."""
SAFE_PIVOT = 1e-3
"""Below it, relative to the largest k(x, x), the inverse factor takes more digits than float32 has."""


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
        if needed is None:
            number = f"more than {len(self.shares):,}"
        else:
            number = f"about m = {_rounded_up(needed):,}"
        return (
            f"residual trace is {_percent(share)}: {number} landmarks would bring it below {_percent(wanted)}"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _rounded_up(number: int) -> int:
    """To two digits."""
    step = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return -(-number // step) * step


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

    def grown(self, indices: Indices, K_new: Array, F: Array, L: Array) -> Pivots:
        """With more of them: `F` their features (a, m), `L` the factor (a, a) of what those leave of `K_new`."""
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

    eps: float
    """Rounding of the values themselves."""
    weights: Array

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """One pass over the rows."""

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """k (b, m + b) of proposals with the pivots and with themselves, and k(x, x) (b,), in float64."""


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


def choose(
    gram: Gram, n_landmarks: int, seed: int, *, residual: float | None = None, judge: bool = True
) -> Chosen:
    """Randomly pivoted Cholesky, a pass over the rows for each block of proposals.

    Parameters
    ----------
    gram : Gram
    n_landmarks : int
        At most so many; fewer where the rows' rank is exhausted, never none.
    seed : int
    residual : float, optional
        Stop at the first landmark that leaves this share of the trace.
    judge : bool
        Whether to measure what the last landmarks leave too, which takes a pass of its own.

    Returns
    -------
    Chosen
        The same for every cut of the rows, but for rounding.
    """
    rng = np.random.default_rng(seed % 2**64)
    pivots, curve, n_rounds = Pivots.none(), Curve(np.empty(0)), 0
    while len(pivots) < n_landmarks or judge or residual is not None:
        left, curve = gram.residuals(pivots)
        enough = None if residual is None else curve.needed(residual)
        if enough is not None:
            return Chosen(pivots.indices[:enough], Curve(curve.shares[:enough]), n_rounds)
        grown = _round(gram, pivots, left, n_landmarks, rng)
        if len(grown) == len(pivots):
            break
        pivots, n_rounds = grown, n_rounds + 1
    if not len(pivots):
        return Chosen(np.zeros(1, np.int64), Curve(np.zeros(1)), n_rounds)
    return Chosen(pivots.indices, curve, n_rounds)


def _round(gram: Gram, pivots: Pivots, left: Residuals, n_landmarks: int, rng: np.random.Generator) -> Pivots:
    """More pivots, from one block of proposals; the same where nothing is left to choose."""
    tolerance = left.sums.tolerance(gram.eps)
    residuals = np.where(left.values > tolerance, left.values, 0.0)
    residuals[pivots.indices] = 0.0
    n_wanted = n_landmarks - len(pivots)
    if n_wanted < 1 or not residuals.any():
        return pivots
    n_proposals = min(MOST_PROPOSALS, max(FEWEST_PROPOSALS, 2 * len(pivots)), max(STRIP, 2 * n_wanted))
    proposals = draw(residuals, gram.weights, n_proposals, rng)
    K, diagonal = gram.values(proposals, pivots.indices)
    thresholds = rng.random(n_proposals) * residuals[proposals]
    return _accepted(pivots, proposals, K, diagonal, np.maximum(thresholds, tolerance), n_landmarks)


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
        pivots = pivots.grown(proposals[strip[chosen]], H, F[chosen], L)
        columns = np.concatenate((columns, n_before + strip[chosen]))
    return pivots


def _eliminated(H: Array, thresholds: Array, most: int) -> tuple[Indices, Array]:
    """Rows of H (b, b) whose diagonal passes its threshold when their turn comes, and their Cholesky factor."""
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
    """Positions drawn in proportion to ``weights · residuals``, with replacement: first a stride, then a row."""
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


@dataclass(frozen=True, eq=False)
class PoolGram:
    """A pool of rows in memory, and other rows by which the curve is judged, if any."""

    kernel: Kernel
    pool: Array
    judges: Array | None
    weights: Array
    eps: float = float(np.finfo(np.float64).eps)

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """In strips of rows."""
        inverse, Z = pivots.inverse(), self.pool[pivots.indices]
        left = residuals_of(self.kernel, self.pool, Z, self.weights, inverse)
        if self.judges is None:
            return left, left.sums.curve
        judged = residuals_of(self.kernel, self.judges, Z, np.ones(len(self.judges)), inverse)
        return left, judged.sums.curve

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """Evaluated."""
        return values_between(self.kernel, self.pool[proposals], self.pool[pivots])


@dataclass(frozen=True, eq=False)
class MatrixGram:
    """A pool of which the kernel matrix (p, p) is given."""

    matrix: Array
    weights: Array

    @property
    def eps(self) -> float:
        """Of the type in which values are given."""
        return float(np.finfo(self.matrix.dtype if self.matrix.dtype.kind == "f" else np.float64).eps)

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """From columns of the matrix."""
        diagonal = np.diagonal(self.matrix).astype(np.float64)
        K = self.matrix[:, pivots.indices].astype(np.float64)
        left = Residuals.of(K, diagonal, self.weights, pivots.inverse(), 1.0)
        return left, left.sums.curve

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """Entries of the matrix."""
        K = self.matrix[np.ix_(proposals, np.concatenate((pivots, proposals)))].astype(np.float64)
        return K, self.matrix[proposals, proposals].astype(np.float64)


def residuals_of(kernel: Kernel, X: Array, landmarks: Array, weights: Array, inverse: Array) -> Residuals:
    """Of rows X (n_rows, n_features), their kernel values in the precision of `inverse` (m, m)."""
    strips = [slice(a, a + STRIP_ROWS) for a in range(0, len(X), STRIP_ROWS)]
    Z = kernel.operand(landmarks, inverse.dtype) if len(landmarks) else None
    found = [_residuals_of_strip(kernel, X[s], Z, weights[s], inverse) for s in strips]
    values = np.concatenate([each.values for each in found])
    return Residuals(values, functools.reduce(operator.add, [each.sums for each in found]))


def _residuals_of_strip(
    kernel: Kernel, X: Array, landmarks: Operand | None, weights: Array, inverse: Array
) -> Residuals:
    rows = kernel.operand(X, inverse.dtype)
    K = np.empty((len(X), len(inverse)), inverse.dtype)
    if landmarks is not None:
        kernel.fill(rows, landmarks, K)
    return Residuals.of(K, kernel.diagonal(rows), weights, inverse, kernel.cancellation(X))


def values_between(kernel: Kernel, proposals: Array, pivots: Array) -> tuple[Array, Array]:
    """k (b, m + b) of rows `proposals` (b, n_features) with `pivots` and themselves, and k(x, x) (b,)."""
    K = kernel.matrix(proposals, np.concatenate((pivots, proposals)))
    return K, kernel.diagonal(kernel.operand(proposals, np.float64))


def rpcholesky(
    kernel: Kernel,
    pool: Array,
    n_landmarks: int,
    seed: int,
    residual: float | None = None,
    *,
    judges: Array | None = None,
) -> Chosen:
    """Landmarks from a pool of rows.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite (rbf and laplacian with shift 0).
    pool : ndarray of shape (p, n_features)
        With a precomputed kernel the symmetric matrix (p, p) of the pool.
    n_landmarks : int
        At most so many; fewer where the pool's rank is exhausted.
    seed : int
    residual : float, optional
        Stop at the first landmark that leaves this share of the trace.
    judges : ndarray of shape (q, n_features), optional
        Rows by which the curve is measured, in place of the pool's own. The pool's own are right where it is
        all rows; where it is a small sample of them, rows that could not be chosen tell the truth.

    Returns
    -------
    Chosen
        Positions in the pool, and the curve.
    """
    weights = np.ones(len(pool))
    if isinstance(kernel, Precomputed):
        return choose(MatrixGram(pool, weights), n_landmarks, seed, residual=residual)
    return choose(PoolGram(kernel, pool, judges, weights), n_landmarks, seed, residual=residual)
