"""One look at all rows: finiteness, moments, a sample, the fingerprint, and the rows' address.

Rows are seen in fixed windows of 65,536 and folded in their order, so that all results are the same to
the bit for every file format, chunking, scheduler and number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.moments import Moments
from kpca_stream.numerics.observation import NOTHING, Look, Observation, Observer
from kpca_stream.numerics.sample import NO_LIMIT, Sample, hash_limit
from kpca_stream.storage.chunked import create_array
from kpca_stream.storage.compaction import close_gaps
from kpca_stream.storage.rows import ArrayRows, Rows, ZarrRows
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.table import WINDOW_ROWS, block_rows, steps

Progress = Callable[[int, int], None]
CHUNK_ROWS = 2048


@dataclass(frozen=True, eq=False)
class Sweep:
    """What one look at all rows found.

    Parameters
    ----------
    n_samples : int
        Rows that are kept.
    n_features : int
        Number of columns.
    columns : tuple of str
        Their names.
    moments : Moments
        Of the kept rows.
    sample : ndarray of shape (min(n_samples, sample_rows), n_features)
        The kept rows whose positions in the source have the smallest seeded hashes, in order, float64.
    fingerprint : str or None
        Hash of the values and the shape of the source, dropped rows included; None without a store.
    n_dropped : int
        Rows left out for missing or infinite values.
    rows : Rows
        Where the kept rows lie, cast to floats.
    """

    n_samples: int
    n_features: int
    columns: tuple[str, ...]
    moments: Moments
    sample: NDArray[np.float64]
    fingerprint: str | None
    n_dropped: int
    rows: Rows


@dataclass(frozen=True, eq=False)
class Sink:
    """Where the kept rows of a window go: to its place in an array, back to the caller, or nowhere."""

    array: zarr.Array[Any] | None = None
    is_memory: bool = False


class Seen(NamedTuple):
    """What was seen of a window, and its kept rows where they go to memory."""

    observation: Observation
    kept: list[NDArray[Any]]


def sweep(
    source: Source,
    *,
    seed: int,
    on_missing: Literal["error", "drop"] = "error",
    store: zarr.Group | None = None,
    claimed: Callable[[str], None] | None = None,
    sample_rows: int = 2000,
    progress: Progress | None = None,
) -> Sweep:
    """Look at all rows of `source` once, on whatever Dask scheduler is active.

    Parameters
    ----------
    source : Source
        The rows.
    seed : int
        Of the sample.
    on_missing : {"error", "drop"}
        What to do with rows that hold NaN or infinity.
    store : zarr.Group, optional
        Where the rows are written, as array ``rows``, if they cannot be used where they lie. Without it
        they stay in memory and there is no fingerprint.
    claimed : callable, optional
        Given for a store in use: takes the fingerprint, and raises if the store belongs to other rows. Until
        then nothing is written, and rows that an earlier look left there are not written again.
    sample_rows : int
        Upper limit of rows in the sample.
    progress : callable, optional
        ``progress(done, total)``.

    Raises
    ------
    DataError
        For missing and infinite values unless they are dropped, where nothing is left, for values whose
        squares overflow, and for all that the source itself refuses.
    """
    if on_missing not in ("error", "drop"):
        raise ConfigError(f"data.on_missing: got {on_missing!r}, expected 'error' or 'drop'")
    in_place = _rows_in_place(source, store)
    look = Look(seed, sample_rows, _hash_limit(source, seed, sample_rows, on_missing), store is not None)
    sink = _sink(source, store) if in_place is None and claimed is None else None
    total = _look_at_all(source, look, sink or Sink(), progress)
    seen = total.seen
    if on_missing == "error":
        _refuse_bad(source, seen)
    moments, sample = _checked(source, seen)
    fingerprint = seen.fingerprint(source.n_features) if look.has_digest else None
    if claimed is not None and fingerprint is not None:
        claimed(fingerprint)
    rows = in_place if not seen.n_dropped else None
    if rows is None and sink is None:
        rows = _rows_of_before(store, fingerprint, (seen.n_kept, source.n_features), source.dtype)
    if rows is None and sink is None:
        sink = _sink(source, store)
        total = _look_at_all(source, replace(look, has_digest=False), sink, progress)
    return Sweep(
        n_samples=seen.n_kept,
        n_features=source.n_features,
        columns=source.columns,
        moments=moments,
        sample=sample.X,
        fingerprint=fingerprint,
        n_dropped=seen.n_dropped,
        rows=rows if rows is not None else _written_rows(sink or Sink(), total, fingerprint),
    )


def look_at(source: Source, start: int, look: Look, sink: Sink) -> list[Seen] | DataError:
    """The task: some whole windows of rows, the first of which is row `start` of all.

    An error is returned, so that the first in row order is raised, whichever came first.
    """
    blocks = source.blocks(0, source.n_samples)
    per_window = WINDOW_ROWS // block_rows(source.n_features)
    firsts = range(start, start + source.n_samples, WINDOW_ROWS)
    try:
        seen = [_look_at_window(islice(blocks, per_window), first, look, sink) for first in firsts]
        # Only when asked for more can the reader say that the file ended otherwise than expected.
        next(blocks, None)
    except DataError as error:
        return error
    return seen


def _look_at_window(blocks: Iterator[NDArray[Any]], start: int, look: Look, sink: Sink) -> Seen:
    observer, at, kept = Observer(look, start), start, []
    # Squares of huge values are reported once, by name, when all is seen.
    with np.errstate(over="ignore", invalid="ignore"):
        for block in blocks:
            good = observer.see(block)
            if sink.array is not None and len(good):
                sink.array[at : at + len(good)] = good
            if sink.is_memory:
                kept.append(good)
            at += len(good)
    return Seen(observer.result(), kept)


class _Total:
    """The windows, folded in their order."""

    def __init__(self, source: Source, look: Look, sink: Sink) -> None:
        self.seen = NOTHING
        self.n_kept: list[int] = []
        self._look = look
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

    @property
    def rows_in_memory(self) -> NDArray[Any]:
        """The kept rows, where the windows brought them."""
        return self._memory[: self.seen.n_kept]


def _look_at_all(source: Source, look: Look, sink: Sink, progress: Progress | None) -> _Total:
    height = -(-source.span // WINDOW_ROWS) * WINDOW_ROWS
    calls = [
        passes.Call(look_at, (source.part(start, stop), start, look, sink))
        for start, stop in steps(0, source.n_samples, height)
    ]
    total = _Total(source, look, sink)
    passes.run(calls, total.fold, progress=progress)
    return total


def _rows_in_place(source: Source, store: zarr.Group | None) -> Rows | None:
    """The source's own rows; a store's tasks need rows that lie on disk."""
    rows = source.rows()
    return None if store is not None and isinstance(rows, ArrayRows) else rows


def _sink(source: Source, store: zarr.Group | None) -> Sink:
    if store is None:
        return Sink(is_memory=True)
    shape = source.n_samples, source.n_features
    # Both are powers of two, so that every block and every window owns whole chunks.
    chunks = min(CHUNK_ROWS, block_rows(source.n_features)), source.n_features
    return Sink(create_array(store, "rows", shape, chunks, source.dtype, dimensions=("row", "column")))


def _written_rows(sink: Sink, total: _Total, fingerprint: str | None) -> Rows:
    if sink.array is None:
        return ArrayRows(total.rows_in_memory)
    if total.seen.n_dropped:
        close_gaps(sink.array, WINDOW_ROWS, total.n_kept)
    sink.array.attrs["fingerprint"] = fingerprint
    return ZarrRows.whole(sink.array)


def _rows_of_before(
    store: zarr.Group | None, fingerprint: str | None, shape: tuple[int, int], dtype: np.dtype[Any]
) -> Rows | None:
    """Rows that an earlier look at the same source, cast to the same type, wrote to the end."""
    array = None if store is None else store.get("rows")
    if not isinstance(array, zarr.Array) or array.attrs.get("fingerprint") != fingerprint:
        return None
    return ZarrRows.whole(array) if (array.shape, array.dtype) == (shape, dtype) else None


def _hash_limit(source: Source, seed: int, sample_rows: int, on_missing: str) -> int:
    # Where rows may be dropped, any row may come into the sample in their place.
    return NO_LIMIT if on_missing == "drop" else hash_limit(source.n_samples, sample_rows, seed)


def _refuse_bad(source: Source, seen: Observation) -> None:
    if seen.first_bad is None:
        return
    row, column, value = seen.first_bad
    count = "1 row has" if seen.n_dropped == 1 else f"{seen.n_dropped} rows have"
    raise DataError(
        f"{source.name}: {count} missing or infinite values; the first is {source.locate(row)}, "
        f"column {source.columns[column]!r}: got {value}, expected a finite number; "
        "repair the data or set data.on_missing: drop"
    )


def _checked(source: Source, seen: Observation) -> tuple[Moments, Sample]:
    """Moments and sample, if there are any and no square of a value overflows."""
    if seen.moments is None or seen.sample is None:
        raise DataError(
            f"{source.name}: got missing or infinite values in all {source.n_samples} rows, "
            "expected some complete rows; leave columns out with data.columns"
        )
    for column in np.flatnonzero(~np.isfinite(seen.moments.m2))[:1]:
        largest = max(abs(seen.moments.minimum[column]), abs(seen.moments.maximum[column]))
        raise DataError(
            f"{source.name}, column {source.columns[column]!r}: got values up to {largest:.3g}, "
            "expected values whose squares are finite in float64; rescale the column"
        )
    return seen.moments, seen.sample
