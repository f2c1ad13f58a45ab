"""Windows of rows, seen by tasks and folded by the caller.

Rows are seen in fixed windows of 65,536 and folded in their order, so that all results are the same to
the bit for every file format, chunking, scheduler and number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.numerics.duplicates import Distinct, Merger, TooMuch
from kpca_stream.numerics.observation import NOTHING, Look, Observation, Observer
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.table import WINDOW_ROWS, block_rows, steps

Array = NDArray[Any]
Progress = Callable[[int, int], None]

MERGED_BYTES = 8 * 2**20
"""Rows of a window that are merged at once, where they are that many."""


@dataclass(frozen=True, eq=False)
class Sink:
    """Where the kept rows of a window go: to its place in an array, back to the caller, or nowhere."""

    array: zarr.Array[Any] | None = None
    is_memory: bool = False


class Seen(NamedTuple):
    """What was seen of a window, its kept rows where they go to memory, its distinct ones if asked for."""

    observation: Observation
    kept: list[Array]
    merged: Distinct | TooMuch | None


def look_at(
    source: Source, start: int, look: Look, sink: Sink, weights: Array | None = None
) -> list[Seen] | DataError:
    """The task: some whole windows of rows, the first of which is row `start` of all.

    An error is returned, so that the first in row order is raised, whichever came first.
    """
    blocks = source.blocks(0, source.n_samples)
    per_window = WINDOW_ROWS // block_rows(source.n_features)
    seen: list[Seen] = []
    try:
        for a, b in steps(0, source.n_samples, WINDOW_ROWS):
            of_window = None if weights is None else weights[a:b]
            window = _Window(look, start + a, b - a, of_window)
            seen.append(window.seen(islice(blocks, per_window), sink))
            if isinstance(seen[-1].merged, TooMuch):
                look = replace(look, merging=None)
        # Only when asked for more can the reader say that the file ended otherwise than expected.
        next(blocks, None)
    except DataError as error:
        return error
    return seen


class _Window:
    """One window of rows, seen block by block."""

    def __init__(self, look: Look, start: int, n_rows: int, weights: Array | None) -> None:
        self._observer = Observer(look, start)
        self._merger = None if look.merging is None else Merger(look.merging, MERGED_BYTES)
        # With all rows before: how many of these differ is for the caller to tell.
        self._most_rows = np.inf if look.merging is None else look.merging.most_rows(start + n_rows)
        self._start = start
        self._weights = weights

    def seen(self, blocks: Iterator[Array], sink: Sink) -> Seen:
        kept: list[Array] = []
        at = self._start
        # Squares of huge values are reported once, by name, when all is seen.
        with np.errstate(over="ignore", invalid="ignore"):
            for block in blocks:
                good = self._observer.see(block)
                if sink.array is not None and len(good):
                    sink.array[at : at + len(good)] = good
                if sink.is_memory:
                    kept.append(good)
                self._merge(good, at - self._start)
                at += len(good)
        merged = None if self._merger is None else self._merger.result(self._most_rows)
        return Seen(self._observer.result(), kept, merged)

    def _merge(self, X: Array, first: int) -> None:
        if self._merger is None or self._merger.failure is not None or not len(X):
            return
        weights = None if self._weights is None else self._weights[first : first + len(X)]
        self._merger.add(Distinct.seen(X, weights), self._most_rows)


class Total:
    """The windows, folded in their order.

    Parameters
    ----------
    source : Source
    look : Look
    sink : Sink
    """

    def __init__(self, source: Source, look: Look, sink: Sink) -> None:
        self.seen = NOTHING
        self.n_kept: list[int] = []
        self.is_written = sink.is_memory or sink.array is not None
        self._look = look
        self._merger = None if look.merging is None else Merger(look.merging)
        shape = (source.n_samples if sink.is_memory else 0, source.n_features)
        self._memory = np.empty(shape, source.dtype)

    def fold(self, _index: int, windows: list[Seen] | DataError) -> None:
        """Add the windows of one task."""
        if isinstance(windows, DataError):
            raise windows
        with np.errstate(over="ignore", invalid="ignore"):
            for window in windows:
                self._add(window)

    def _add(self, window: Seen) -> None:
        at = self.seen.n_kept
        for block in window.kept:
            self._memory[at : at + len(block)] = block
            at += len(block)
        self.n_kept.append(window.observation.n_kept)
        self.seen = self.seen.followed_by(window.observation, self._look.sample_rows)
        if self._merger is not None and window.merged is not None:
            self._merger.add(window.merged, self._most_rows)
            self._check_merging()

    @property
    def look(self) -> Look:
        """What there is still to find out."""
        return self._look if self._merger is not None else replace(self._look, merging=None)

    @property
    def rows_in_memory(self) -> Array:
        """The kept rows, where the windows brought them."""
        return self._memory[: self.seen.n_kept]

    def merged(self) -> Distinct | None:
        """The distinct rows, where there are fewer than rows that were kept, and two to be fitted."""
        found = None if self._merger is None else self._merger.result(self._most_rows)
        self._check_merging()
        return found if isinstance(found, Distinct) and 1 < len(found.X) < self.seen.n_kept else None

    @property
    def _most_rows(self) -> float:
        return np.inf if self._look.merging is None else self._look.merging.most_rows(self.seen.n_kept)

    def _check_merging(self) -> None:
        if self._merger is None or self._merger.failure is None:
            return
        self._merger = None
        if self._look.merging is not None and self._look.merging.refusal is not None:
            raise self._look.merging.refusal


def look_at_all(
    source: Source,
    look: Look,
    sink: Sink,
    progress: Progress | None,
    *,
    weights: Array | None = None,
) -> Total:
    """All windows of `source`."""
    total = Total(source, look, sink)
    height = -(-source.span // WINDOW_ROWS) * WINDOW_ROWS
    bounds = list(steps(0, source.n_samples, height))

    def call(index: int) -> passes.Call:
        a, b = bounds[index]
        is_merging = total.look.merging is not None
        if is_merging and index and sink.array is not None:
            total.is_written = False  # what is merged later would have been written for nothing
        of_rows = weights[a:b] if is_merging and weights is not None else None
        used = sink if total.is_written else Sink()
        return passes.Call(look_at, (source.part(a, b), a, total.look, used, of_rows), label=f"rows {a}:{b}")

    first = 0
    if look.merging is not None:
        # Alone: where few rows are duplicates it tells, and no other task need hold any.
        passes.run([call(0)], total.fold)
        first = 1
        if progress:
            progress(1, len(bounds))
    passes.run(
        passes.Lazy(len(bounds) - first, lambda index: call(first + index)),
        total.fold,
        progress=progress and (lambda done, _: progress(first + done, len(bounds))),
        at_once=_at_once(source, total.look, height),
    )
    return total


def _at_once(source: Source, look: Look, n_rows: int) -> int | None:
    """Tasks whose distinct rows, and copies of these while they are merged, keep to the memory for them."""
    if look.merging is None:
        return None
    task_bytes = min(source.n_samples, n_rows) * source.n_features * source.dtype.itemsize
    return max(1, look.merging.most_bytes // (2 * task_bytes))
