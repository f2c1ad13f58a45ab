"""Landmarks out of core: randomly pivoted Cholesky on all rows, a pass for each block of proposals."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.numerics.curve import Curve
from kpca_stream.numerics.forecast import rows_at_once
from kpca_stream.numerics.kernels import Kernel, Precomputed, as_operand
from kpca_stream.numerics.pivots import Indices, Pivots, Residuals, Rounds, Sums, Wanted, choose
from kpca_stream.numerics.pool import residuals_of, values_between
from kpca_stream.storage.checkpoint import Checkpoints, Ledger
from kpca_stream.storage.rows import Rows
from kpca_stream.telemetry import Advance

Array = NDArray[Any]

BLOCK_ROWS = 8192


@dataclass(frozen=True)
class Keeping:
    """Where a choice under way is kept: after each round, and within the passes.

    Parameters
    ----------
    checkpoints : Checkpoints, optional
        Without, nothing is kept.
    belongs_to : list of int
        What the choice depends on, beside its own rows and kernel.
    seconds : float
        Least time between two checkpoints of a pass.
    """

    checkpoints: Checkpoints | None = None
    belongs_to: list[int] = field(default_factory=list)
    seconds: float = passes.COMMIT_SECONDS

    @property
    def rounds(self) -> Ledger:
        """Of the pivots."""
        return Ledger(self.checkpoints, "landmarks-pivots", self.belongs_to)

    def residuals(self, pivots: Pivots) -> Ledger:
        """Of the pass against these pivots."""
        factor = zlib.crc32(np.ascontiguousarray(pivots.factor).data)
        return Ledger(self.checkpoints, "landmarks-residuals", [*self.belongs_to, factor, BLOCK_ROWS])


class Landmarks(NamedTuple):
    """Landmarks chosen among all rows.

    Parameters
    ----------
    indices : ndarray of int of shape (m,)
        Positions of the rows, all different, in the order in which they were chosen.
    rows : ndarray of shape (m, n_features)
        The rows themselves; with a precomputed kernel their rows of the matrix are not read: (m, 0).
    curve : Curve
        What is left of the trace of all rows after each; where no `residual` was asked for, it may end before
        the last ones.
    n_rounds : int
    """

    indices: Indices
    rows: Array
    curve: Curve
    n_rounds: int


def rpcholesky_of_all(
    rows: Rows,
    weights: Array,
    kernel: Kernel,
    wanted: Wanted,
    *,
    dtype: np.dtype[Any],
    at_once: int | None = None,
    progress: Advance | None = None,
    keeping: Keeping | None = None,
) -> Landmarks:
    """Landmarks by randomly pivoted Cholesky on all rows.

    Memory: a float64 for each row, and a row block a task; the kernel values of a round's proposals.

    Parameters
    ----------
    rows : Rows
        With a precomputed kernel the matrix.
    weights : ndarray of shape (n,)
        A row of weight w counts as w copies.
    kernel : Kernel
        Positive semidefinite.
    wanted : Wanted
        How many, the seed, and the share of the trace of all rows that may be left.
    dtype : dtype
        Precision of the passes; what is chosen is checked in float64, which is also taken for the passes
        where the pivots ask for it.
    at_once, progress
        As in `passes.run`; the total grows with every round.
    keeping : Keeping, optional
        A choice that was kept there goes on.

    Returns
    -------
    Landmarks
        The same for every number of workers, and after every interruption.
    """
    gram = _StreamedGram(rows, weights, kernel, dtype, at_once, progress, keeping or Keeping())
    chosen = choose(gram, wanted, judge=False, begun=gram.restored(), keep=gram.keep)
    return Landmarks(chosen.indices, gram.rows_at(chosen.indices), chosen.curve, chosen.n_rounds)


@dataclass(eq=False)
class _StreamedGram:
    rows: Rows
    weights: Array
    kernel: Kernel
    dtype: np.dtype[Any]
    at_once: int | None
    progress: Advance | None
    keeping: Keeping
    _held: dict[int, Array] = field(default_factory=dict)  # rows of pivots and proposals
    _largest: float = 0.0
    _n_done: int = 0

    @property
    def eps(self) -> float:
        """Of a given matrix's type; all other values are evaluated in float64 where they decide."""
        is_rounded = isinstance(self.kernel, Precomputed) and self.rows.dtype.kind == "f"
        return float(np.finfo(self.rows.dtype if is_rounded else np.float64).eps)

    def restored(self) -> Rounds | None:
        """The rounds that an earlier run left."""
        found = self.keeping.rounds.restored()
        if found is None:
            return None
        arrays, n_rounds = found
        self._largest = float(arrays["largest"])
        return Rounds(Pivots(arrays["indices"], arrays["factor"]), n_rounds)

    def keep(self, rounds: Rounds) -> None:
        """For a run that may go on."""
        pivots, n_rounds = rounds
        arrays = {"indices": pivots.indices, "factor": pivots.factor, "largest": np.array(self._largest)}
        self.keeping.rounds.save(arrays, n_rounds)

    def residuals(self, pivots: Pivots) -> tuple[Residuals, Curve]:
        """One pass; sums are folded in order of the blocks."""
        inverse = pivots.inverse().astype(pivots.precision(self.dtype, self._largest))
        against = pivots.indices if self._is_given else self.rows_at(pivots.indices)
        blocks, ledger = _blocks(self.rows), self.keeping.residuals(pivots)
        against, inverse = passes.shared(against), passes.shared(inverse)
        found, first = _Folded.restored(ledger, self.rows.shape[0], len(pivots))

        def call(index: int) -> passes.Call:
            a, b = blocks[index]
            arguments = (self.rows.part(a, b), a, self.weights[a:b], self.kernel, against, inverse)
            return passes.Call(residuals_of_block, arguments)

        commit = passes.Commit(
            lambda n: ledger.save(found.arrays(blocks[n - 1][1]), n), first, self.keeping.seconds
        )
        self._run(passes.Lazy(len(blocks), call), lambda index, part: found.add(blocks[index], part), commit)
        self._largest = found.sums.largest
        return Residuals(found.values, found.sums), found.sums.curve

    def values(self, proposals: Indices, pivots: Indices) -> tuple[Array, Array]:
        """From the proposals' rows, which a pass over their blocks gathers."""
        if self._is_given:
            K = self._gathered(proposals, np.concatenate((pivots, proposals))).astype(np.float64)
            return K, np.diagonal(K[:, len(pivots) :]).copy()
        self._held = {index: self._held[index] for index in pivots.tolist()}
        self._held.update(zip(proposals.tolist(), self._gathered(proposals), strict=True))
        return values_between(self.kernel, self.rows_at(proposals), self.rows_at(pivots))

    def rows_at(self, indices: Indices) -> Array:
        """Rows (m, n_features) of pivots or proposals; none of a given matrix."""
        if self._is_given:
            return np.empty((len(indices), 0))
        if not len(indices):
            return np.empty((0, self.rows.shape[1]), self.rows.dtype)
        missing = np.array([index for index in indices.tolist() if index not in self._held], np.int64)
        if missing.size:
            self._held.update(zip(missing.tolist(), self._gathered(missing), strict=True))
        return np.stack([self._held[index] for index in indices.tolist()])

    @property
    def _is_given(self) -> bool:
        return isinstance(self.kernel, Precomputed)

    def _gathered(self, indices: Indices, columns: Indices | None = None) -> Array:
        """Rows at `indices`, (b, n_features) or (b, len(columns)), block by block."""
        blocks = _blocks(self.rows)
        of_rows = indices // blocks[0][1]
        touched = np.unique(of_rows)
        width = self.rows.shape[1] if columns is None else len(columns)
        found = np.empty((len(indices), width), self.rows.dtype)

        def fold(index: int, part: Array) -> None:
            found[of_rows == touched[index]] = part

        def call(index: int) -> passes.Call:
            a, b = blocks[touched[index]]
            wanted = indices[of_rows == touched[index]] - a
            return passes.Call(rows_of_block, (self.rows.part(a, b), wanted, columns))

        self._run(passes.Lazy(len(touched), call), fold)
        return found

    def _run(
        self, calls: passes.Lazy, fold: Callable[[int, Any], None], commit: passes.Commit | None = None
    ) -> None:
        def advance(done: int, total: int) -> None:
            if self.progress:
                self.progress(self._n_done + done, self._n_done + total)

        passes.run(calls, fold, commit=commit, at_once=self.at_once, progress=advance)
        self._n_done += len(calls)


@dataclass(eq=False)
class _Folded:
    """Residuals (n_rows,), as far as blocks were folded, and the sums of these blocks."""

    values: Array
    sums: Sums

    @classmethod
    def restored(cls, ledger: Ledger, n_rows: int, n_pivots: int) -> tuple[Self, int]:
        """As an earlier run left them, and how many blocks they are of."""
        values, sums = np.empty(n_rows), Sums.nothing(n_pivots)
        held = ledger.restored()
        if held is None:
            return cls(values, sums), 0
        arrays, n_folded = held
        total, largest, roundings = arrays["scalars"].tolist()
        values[: len(arrays["values"])] = arrays["values"]
        return cls(values, Sums(total, arrays["explained"], largest, roundings)), n_folded

    def add(self, rows: tuple[int, int], part: Residuals) -> None:
        """Take in the next block."""
        self.values[slice(*rows)] = part.values
        self.sums = self.sums + part.sums

    def arrays(self, end: int) -> dict[str, Array]:
        """What is kept of the rows before `end`."""
        scalars = np.array([self.sums.total, self.sums.largest, self.sums.roundings])
        return {"values": self.values[:end], "explained": self.sums.explained, "scalars": scalars}


def _blocks(rows: Rows) -> list[tuple[int, int]]:
    n_rows, step = rows.shape[0], rows_at_once(rows.shape[1], BLOCK_ROWS)
    return [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]


def residuals_of_block(
    rows: Rows, start: int, weights: Array, kernel: Kernel, against: Array, inverse: Array
) -> Residuals:
    """The task: residuals of one row block, of which `start` is the first row's position.

    `against` holds the pivots' rows (m, n_features), or with a given matrix their positions (m,).
    """
    if not isinstance(kernel, Precomputed):
        return residuals_of(kernel, rows.load(), against, weights, inverse)
    n_rows = rows.shape[0]
    diagonal = kernel.diagonal(as_operand(kernel, rows, (start, start + n_rows), np.float64))
    K = rows.load()[:, against] if len(against) else np.empty((n_rows, 0))
    return Residuals.of(K.astype(inverse.dtype), diagonal, weights, inverse, 1.0)


def rows_of_block(rows: Rows, wanted: Indices, columns: Indices | None) -> Array:
    """The task: some rows of a block, and of those all columns or some."""
    found = rows.load()[wanted]
    return found if columns is None else found[:, columns]
