"""Passes over training rows and their scores, from which pre-images are learned and found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.numerics.kernels import Kernel, Rbf
from kpca_stream.numerics.preimage import FixedPoint, RidgeSums, fixed_point
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.storage.sources.table import block_rows, steps
from kpca_stream.telemetry import Advance

Array = NDArray[Any]
Scorer = Callable[[Rows], Array]

TASK_BLOCKS = 4
CLIMBED_ROWS = 1024
"""Points that climb together."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Training rows and their scores: at hand, or to be computed where the rows are read.

    Parameters
    ----------
    rows : Rows
        (n, n_features).
    scores : ndarray of shape (n, n_components), optional
    score : callable, optional
        Gives the scores of some rows, where there are none at hand.
    weights : ndarray of shape (n,), optional
    """

    rows: Rows
    scores: Array | None
    score: Scorer | None
    weights: Array | None = None

    def part(self, a: int, b: int) -> ScoredRows:
        """Rows a to b."""
        scores = None if self.scores is None else self.scores[a:b]
        weights = None if self.weights is None else self.weights[a:b]
        return ScoredRows(self.rows.part(a, b), scores, self.score, weights)

    def scores_of(self, rows: Rows) -> Array:
        """Scores of `rows`, which are all of these or some that were loaded."""
        if self.scores is not None:
            return self.scores
        if self.score is None:
            raise TypeError("neither scores nor a way to compute them")
        return self.score(rows)

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """First row and end of each task."""
        return list(steps(0, self.rows.shape[0], TASK_BLOCKS * self.block_rows))

    @property
    def block_rows(self) -> int:
        """Rows that are loaded at once."""
        return min(4096, block_rows(self.rows.shape[1]))


def scores_at(scored: ScoredRows, positions: Array) -> Array:
    """Scores of the rows at `positions` (m,), ascending; (m, n_components)."""
    if scored.scores is not None:
        return scored.scores[positions]
    cut = [(a, b, positions[(positions >= a) & (positions < b)] - a) for a, b in scored.tasks]
    calls = [passes.Call(chosen_scores, (scored.part(a, b), inside)) for a, b, inside in cut if inside.size]
    found: list[Array] = []
    passes.run(calls, lambda _, scores: found.append(scores))
    return np.concatenate(found)


def chosen_scores(scored: ScoredRows, positions: Array) -> Array:
    """The task: scores of some of its rows."""
    found = []
    for a, b in steps(0, scored.rows.shape[0], scored.block_rows):
        inside = positions[(positions >= a) & (positions < b)] - a
        if inside.size:
            found.append(scored.scores_of(ArrayRows(scored.rows.part(a, b).load()[inside])))
    return np.concatenate(found)


def ridge_sums(
    scored: ScoredRows, kernel: Kernel, points: Array, *, progress: Advance | None = None
) -> RidgeSums:
    """What a ridge on landmarks is made of, in one pass over the rows.

    Parameters
    ----------
    scored : ScoredRows
    kernel : Kernel
        Of scores.
    points : ndarray of shape (m, n_components)
        Scores of the landmarks.

    Raises
    ------
    DataError
        If sums overflow.
    """
    sums = RidgeSums.nothing(len(points), scored.rows.shape[1])
    tasks = scored.tasks
    calls = passes.Lazy(
        len(tasks), lambda index: passes.Call(sums_of, (scored.part(*tasks[index]), kernel, points))
    )
    passes.run(calls, lambda _, part: sums.add(part), progress=progress)
    if not (np.isfinite(sums.G).all() and np.isfinite(sums.R).all()):
        raise DataError(
            f"kernel {kernel.name}: got similarities of scores whose sums overflow, expected smaller ones; "
            "scale the rows, or lower gamma or degree"
        )
    return sums


def sums_of(scored: ScoredRows, kernel: Kernel, points: Array) -> RidgeSums:
    """The task: the sums over its rows."""
    landmarks = kernel.operand(points, np.float64)
    sums = RidgeSums.nothing(len(points), scored.rows.shape[1])
    for a, b in steps(0, scored.rows.shape[0], scored.block_rows):
        block = scored.part(a, b)
        X = block.rows.load()
        sums.take(kernel, landmarks, block.scores_of(ArrayRows(X)), X, block.weights)
    return sums


def climbed(basis: Basis, Z: Array, start: Array, *, max_iter: int) -> FixedPoint:
    """Fixed points of scores Z (n_rows, n_components) from rows `start`, batch by batch; points are rows."""
    cut = list(steps(0, len(Z), CLIMBED_ROWS))
    calls = [passes.Call(climb, (basis, Z[a:b], start[a:b], max_iter)) for a, b in cut]
    found: list[FixedPoint] = []
    passes.run(calls, lambda _, part: found.append(part))
    return FixedPoint(
        np.concatenate([part.points for part in found]),
        np.concatenate([part.converged for part in found]),
        max(part.n_iterations for part in found),
    )


def climb(basis: Basis, Z: Array, start: Array, max_iter: int) -> FixedPoint:
    """The task: fixed points of a batch."""
    if not isinstance(basis.kernel, Rbf):
        raise TypeError("fixed points are those of the kernel rbf")
    prepare = basis.kernel.preparation

    def blocks() -> Iterator[tuple[Array, Array, Array]]:
        for _, rows, coefficients, weights in basis.blocks():
            if rows is not None:
                yield prepare(rows.load()), coefficients, weights

    found = fixed_point(basis.kernel, blocks, basis.total_weight, Z, prepare(start), max_iter=max_iter)
    return found._replace(points=prepare.undone(found.points))
