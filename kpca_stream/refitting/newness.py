"""What new rows, and scores that were written, tell of how far the data have come from the champion's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.aligning import sample_of
from kpca_stream.approximation import drawn_rows
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.joining import features_of
from kpca_stream.numerics.columns import LEAST_ROWS, Columns
from kpca_stream.numerics.drift import drift, residual_trace_share
from kpca_stream.refit_results import NEW_ROWS, Drift, NewFile
from kpca_stream.stages.scoring import Scores, score_rows
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.score_chunks import ZarrPart
from kpca_stream.storage.score_parts import ScorePart
from kpca_stream.storage.source import Part, Source
from kpca_stream.storage.trained import Landed
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]

NEGLIGIBLE_SHARE = 0.01
"""Of the trace: less counts as this, since of rows among which they were chosen landmarks leave less."""
_TOLD = ("reconstruction_error", "hotelling_t2", "novelty")


@dataclass(frozen=True, kw_only=True)
class Newness:
    """What was found of new files, and what was read for it."""

    drift: Drift | None = None
    files: tuple[NewFile, ...] = ()
    rows_read: int = 0
    bytes_read: int = 0


class _Sampled(NamedTuple):
    """Evenly chosen rows of a file (q, d), those without missing values, and how many rows were read."""

    X: Array
    n_read: int


def of_new_rows(
    basis: Basis, source: Source, landed: Landed, reporter: Reporter, *, scored: bool = True
) -> Newness:
    """New rows scored against the champion: each new file is read once, some of its rows kept.

    Parameters
    ----------
    basis : Basis
        The champion.
    source : Source
        All files of now, of the champion's columns.
    landed : Landed
        Which of them are new.
    reporter : Reporter
    scored : bool
        Whether the champion can score them; else only their columns are looked at.
    """
    every = max(1, -(-landed.n_new // drawn_rows(source.n_features)))
    firsts = np.cumsum([0, *(file.stop - file.start for file in landed.new)]).tolist()
    calls = [
        passes.Call(_sample_of, (source.part(file.start, file.stop), _step(file, every), first))
        for file, first in zip(landed.new, firsts, strict=False)
    ]
    samples: list[_Sampled] = []

    def fold(_: int, found: _Sampled | DataError) -> None:
        if isinstance(found, DataError):
            raise found
        samples.append(found)

    with single_threaded_blas():
        passes.run(calls, fold, progress=reporter.step("new rows"))
        n_read = sum(sample.n_read for sample in samples)
        read = Newness(rows_read=n_read, bytes_read=n_read * source.n_features * source.dtype.itemsize)
        X = np.concatenate([sample.X for sample in samples])
        if not len(X):
            return read
        drift_of_all, novelty = _scored(basis, X) if scored else (None, None)
    columns = Columns.of(sample_of(basis, drawn_rows(source.n_features)).load())
    files, end = [], 0
    for file, sample in zip(landed.new, samples, strict=True):
        start, end = end, end + len(sample.X)
        rate = _rate(novelty[start:end]) if novelty is not None and len(sample.X) >= LEAST_ROWS else None
        ratios = None if columns is None else columns.ratios(sample.X)
        files.append(_file(NewFile(name=file.name, n_rows=sample.n_read, novelty=rate), source, ratios))
    return replace(read, drift=drift_of_all, files=tuple(files))


def _scored(basis: Basis, X: Array) -> tuple[Drift, Array]:
    scores = score_rows(basis, ArrayRows(X))
    share = None if basis.accumulated is None else residual_trace_share(features_of(basis), X)
    return _drift(basis, NEW_ROWS, scores, share), scores.novelty


def _step(file: Part, every: int) -> int:
    """Every so many rows of a file are kept: of one that is judged alone not too few for that."""
    return min(every, (file.stop - file.start) // LEAST_ROWS) or every


def _file(file: NewFile, source: Source, ratios: Array | None) -> NewFile:
    if ratios is None:
        return file
    worst = int(np.argmax(ratios))
    return replace(file, column=source.columns[worst], column_ratio=float(ratios[worst]))


def of_scores(basis: Basis, version: int, written: Sequence[ScorePart | ZarrPart]) -> Drift | None:
    """What those of the written scores that are by this version tell; None where there are none.

    An even choice of their rows is held, no more than of new rows.
    """
    parts = [part for part in written if part.version == version]
    n_rows = sum(part.n_rows for part in parts)
    if not n_rows:
        return None
    every = max(1, -(-n_rows // drawn_rows(len(basis.columns))))
    error, t2, novel = (_chosen(parts, name, every) for name in _TOLD)
    known = None if np.isnan(error).any() else error
    return _drift(basis, "scores", Scores(np.empty((len(t2), 0)), known, t2, novel.astype(bool)), None)


def _chosen(parts: Sequence[ScorePart | ZarrPart], name: str, every: int) -> Array:
    """Every so many values of a column of scores."""
    columns = (values[name] for part in parts for values in part.batches([name]))
    return np.concatenate(list(_evenly(columns, every)))


def _sample_of(source: Source, every: int, first: int) -> _Sampled | DataError:
    """The task: read one file, whose first row is number `first` of all new ones, keep every so many."""
    kept = [np.empty((0, source.n_features))]
    try:
        chosen = _evenly(source.blocks(0, source.n_samples), every, first)
        kept.extend(X[np.isfinite(X).all(axis=1)] for X in chosen)
    except DataError as error:
        return error
    return _Sampled(np.concatenate(kept), source.n_samples)


def _evenly(blocks: Iterable[Array], every: int, first: int = 0) -> Iterator[Array]:
    """Rows of blocks whose numbers, from `first` on over all of them, `every` divides."""
    for block in blocks:
        yield block[-first % every :: every]
        first += len(block)


def _ratio(share: float | None, before: float | None) -> float | None:
    """How much more landmarks leave than they left; of shares that both hardly count, none."""
    if share is None or before is None:
        return None
    return max(share, NEGLIGIBLE_SHARE) / max(before, NEGLIGIBLE_SHARE)


def _drift(basis: Basis, source: str, scores: Scores, share: float | None) -> Drift:
    found = drift(
        basis.thresholds,
        scores.reconstruction_error,
        scores.hotelling_t2,
        n_training=basis.rows_of_thresholds,
        residual_trace_share=share,
    )
    before = basis.facts.get("chosen_residual_share", basis.facts.get("residual_trace_share"))
    return Drift(
        source=source,
        n_rows=found.n_rows,
        drift=found.distance,
        sampling_bound=found.sampling_bound,
        error_ratio=found.error_ratio,
        t2_ratio=found.t2_ratio,
        residual_ratio=_ratio(share, before),
        novelty=_rate(scores.novelty),
    )


def _rate(novelty: Array) -> float | None:
    return float(np.mean(novelty)) if len(novelty) else None
