"""The order of a look at all rows, and where the rows are afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.duplicates import Distinct, Merging
from kpca_stream.numerics.footprint import chunk_rows
from kpca_stream.numerics.forecast import SAMPLE_ROWS
from kpca_stream.numerics.moments import Moments
from kpca_stream.numerics.observation import Look, Observation
from kpca_stream.numerics.sample import NO_LIMIT, Sample, hash_limit
from kpca_stream.stages.sweep.windows import Progress, Sink, Total, look_at_all
from kpca_stream.storage.chunked import REMEDY, check_description, create_array
from kpca_stream.storage.compaction import close_gaps
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.rows import ArrayRows, Rows, ZarrRows
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.table import WINDOW_ROWS, block_rows


@dataclass(frozen=True, eq=False)
class Sweep:
    """What one look at all rows found.

    Parameters
    ----------
    n_samples : int
        Rows that are kept; where they were merged, the distinct ones.
    n_features : int
        Number of columns.
    columns : tuple of str
        Their names.
    moments : Moments
        Of all rows that are kept, copies included.
    drawn : Sample
        The kept rows whose positions in the source have the smallest seeded hashes, in order, float64.
    fingerprint : str or None
        Hash of the values and the shape of the source, dropped rows included; None without a store.
    n_dropped : int
        Rows left out for missing or infinite values.
    rows : Rows
        Where the kept (distinct) rows lie, cast to floats.
    weights : ndarray of shape (n_samples,) or None
        How often each row occurs, or the sum of the weights given for its copies; of rows that were not
        merged, what was given.
    """

    n_samples: int
    n_features: int
    columns: tuple[str, ...]
    moments: Moments
    drawn: Sample
    fingerprint: str | None
    n_dropped: int
    rows: Rows
    weights: NDArray[np.float64] | None = None

    @property
    def sample(self) -> NDArray[np.float64]:
        """The first of those drawn, (min(n_seen, 2000), n_features): by these kernels are chosen."""
        return self.drawn.smallest(SAMPLE_ROWS).X

    @property
    def n_seen(self) -> int:
        """Rows that are kept, copies included."""
        return self.moments.n

    @property
    def n_distinct(self) -> int | None:
        """Rows that were left by merging; None where they were not merged."""
        return self.n_samples if self.n_samples < self.n_seen else None


def sweep(  # noqa: PLR0913  what is done in one look is asked for at once
    source: Source,
    *,
    seed: int,
    n_drawn: int = SAMPLE_ROWS,
    on_missing: Literal["error", "drop"] = "error",
    store: zarr.Group | None = None,
    claimed: Callable[[str, int | None], None] | None = None,
    weights: NDArray[np.float64] | None = None,
    merging: Merging | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Look at all rows of `source` once, on whatever Dask scheduler is active.

    Parameters
    ----------
    source : Source
        The rows.
    seed : int
        Of the sample.
    n_drawn : int
        Rows of the sample, at least 2,000.
    on_missing : {"error", "drop"}
        What to do with rows that hold NaN or infinity.
    store : zarr.Group, optional
        Where the rows are written, as array ``rows``, if they cannot be used where they lie. Without it
        they stay in memory and there is no fingerprint.
    claimed : callable, optional
        Given for a store in use: takes the fingerprint and the number of distinct rows where they were
        merged, and raises if the store belongs to other rows. Until then nothing is written, and rows that
        an earlier look left there are not written again.
    weights : ndarray of shape (n,), optional
        Of the rows, none of which then may be dropped.
    merging : Merging, optional
        How far rows that occur more than once are merged, in the order in which they are first seen.
    progress : callable, optional
        ``progress(done, total)``.

    Raises
    ------
    ConfigError
        Where merging is given up and that is an error.
    DataError
        For missing and infinite values unless they are dropped, where nothing is left, for values whose
        squares overflow, and for all that the source itself refuses.
    """
    if on_missing not in ("error", "drop"):
        raise ConfigError(f"data.on_missing: got {on_missing!r}, expected 'error' or 'drop'")
    if weights is not None and on_missing == "drop":
        raise ConfigError("weights: got some where rows may be dropped, expected none, or on_missing: error")
    in_place = _rows_in_place(source, store)
    limit = _hash_limit(source, seed, n_drawn, on_missing)
    look = Look(seed, n_drawn, limit, store is not None, merging)
    sink = _sink(source, store) if in_place is None and claimed is None else Sink()
    total = look_at_all(source, look, sink, progress, weights=weights)
    seen = total.seen
    if on_missing == "error":
        _refuse_bad(source, seen)
    moments, sample = _checked(source, seen)
    merged = total.merged()
    fingerprint = seen.fingerprint(source.n_features) if look.has_digest else None
    if claimed is not None and fingerprint is not None:
        claimed(fingerprint, None if merged is None else len(merged.X))
    if merged is not None:
        rows = _merged_rows(source, store, merged, fingerprint)
    elif in_place is not None and not seen.n_dropped:
        rows = in_place
    else:
        rows = _kept_rows(source, store, total, sink, fingerprint, progress)
    return Sweep(
        n_samples=rows.shape[0],
        n_features=source.n_features,
        columns=source.columns,
        moments=moments,
        drawn=sample,
        fingerprint=fingerprint,
        n_dropped=seen.n_dropped,
        rows=rows,
        weights=weights if merged is None else merged.weights,
    )


def _rows_in_place(source: Source, store: zarr.Group | None) -> Rows | None:
    """The source's own rows; a store's tasks need rows that lie on disk."""
    rows = source.rows()
    return None if store is not None and isinstance(rows, ArrayRows) else rows


def _sink(source: Source, store: zarr.Group | None) -> Sink:
    if store is None:
        return Sink(is_memory=True)
    return Sink(_new_rows(source, store, source.n_samples))


def _new_rows(source: Source, store: zarr.Group, n_samples: int) -> zarr.Array[Any]:
    # Both are powers of two, so that every block and every window owns whole chunks.
    chunks = min(chunk_rows(source.n_features), block_rows(source.n_features)), source.n_features
    shape = n_samples, source.n_features
    return create_array(store, "rows", shape, chunks, source.dtype, dimensions=("row", "column"))


def _merged_rows(source: Source, store: zarr.Group | None, merged: Distinct, fingerprint: str | None) -> Rows:
    if store is None:
        return ArrayRows(merged.X)
    rows = _rows_of_before(store, fingerprint, merged.X.shape, source.dtype)
    if rows is not None:
        return rows
    array = _new_rows(source, store, len(merged.X))
    array[...] = merged.X
    array.attrs["fingerprint"] = fingerprint
    return ZarrRows.whole(array)


def _kept_rows(
    source: Source,
    store: zarr.Group | None,
    total: Total,
    sink: Sink,
    fingerprint: str | None,
    progress: Progress | None,
) -> Rows:
    """Where the kept rows were written, by this look, an earlier one, or one more."""
    if not total.is_written:
        shape = total.seen.n_kept, source.n_features
        rows = _rows_of_before(store, fingerprint, shape, source.dtype)
        if rows is not None:
            return rows
        sink = _sink(source, store)
        total = look_at_all(source, replace(total.look, has_digest=False, merging=None), sink, progress)
    if sink.array is None:
        return ArrayRows(total.rows_in_memory)
    if total.seen.n_dropped:
        close_gaps(sink.array, WINDOW_ROWS, total.n_kept)
    sink.array.attrs["fingerprint"] = fingerprint
    return ZarrRows.whole(sink.array)


def _rows_of_before(
    store: zarr.Group | None, fingerprint: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Rows | None:
    """Rows that an earlier look at the same source, cast to the same type, wrote to the end."""
    if store is None:
        return None
    with told_as(f"{store.store_path}/rows/zarr.json is damaged", REMEDY):
        array = store.get("rows")
    if not isinstance(array, zarr.Array) or array.attrs.get("fingerprint") != fingerprint:
        return None
    check_description(array)
    return ZarrRows.whole(array) if (array.shape, array.dtype) == (shape, dtype) else None


def _hash_limit(source: Source, seed: int, n_drawn: int, on_missing: str) -> int:
    # Where rows may be dropped, any row may come into the sample in their place.
    return NO_LIMIT if on_missing == "drop" else hash_limit(source.n_samples, n_drawn, seed)


def _refuse_bad(source: Source, seen: Observation) -> None:
    if seen.first_bad is None:
        return
    row, column, value = seen.first_bad
    count = "1 row has" if seen.n_dropped == 1 else f"{seen.n_dropped} rows have"
    raise DataError(
        f"{source.name}: {count} missing or infinite values; the first is {source.locate(row)}, "
        f"column {source.columns[column]!r}: got {value}, expected a finite number; "
        "repair the data, or leave such rows out (in a configuration: data.on_missing: drop)"
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
