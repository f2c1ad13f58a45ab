"""Row blocks × basis → scores, reconstruction error, T² and novelty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics import novelty
from kpca_stream.numerics.kernels import MatrixOperand, Operand, Precomputed, as_operand
from kpca_stream.numerics.projection import project
from kpca_stream.storage.basis import Basis, BasisAddress
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.storage.scores import PartWriter
from kpca_stream.storage.source import Source, open_source
from kpca_stream.storage.sources.table import block_rows

Array = NDArray[Any]

BLOCK_ROWS = 4096
JOINED_BLOCKS = 2


def open_like(path: str, rows: str | None, basis: Basis, *, chosen: bool) -> Source:
    """Open rows to score, with the columns that `basis` was fitted on.

    Parameters
    ----------
    path, rows : str, str or None
        As for `open_source`.
    basis : Basis
        Its columns are found by name. Numbered ones, which have no names, stand for all columns of numbers,
    chosen : bool
        unless they were chosen from a file that had more.

    Raises
    ------
    DataError
        If there are no such columns.
    """
    source = open_source(path, rows=rows)
    numbered = tuple(str(position) for position in range(len(basis.columns)))
    try:
        if basis.columns != numbered or (chosen and source.columns != numbered):
            return open_source(path, rows=rows, columns=basis.columns)
    except ConfigError as error:
        raise DataError(f"{error}; the basis was fitted on it: score rows of the same columns") from error
    if source.n_features != len(numbered):
        raise DataError(
            f"{source.name}: got {source.n_features} columns of numbers, expected {len(numbered)}, as the "
            "basis was fitted on; score rows of the same columns"
        )
    return source


class Scores(NamedTuple):
    """What is known of some rows.

    ``scores`` (n_rows, n_components); ``reconstruction_error`` (n_rows,), or None where k(x, x) is not known;
    ``hotelling_t2`` and ``novelty`` (n_rows,).
    """

    scores: Array
    reconstruction_error: Array | None
    hotelling_t2: Array
    novelty: Array


def score_block(
    basis: Basis, rows: Rows, diagonal: Array | None = None, locate: Callable[[int], str] | None = None
) -> Scores:
    """Score a block of rows, in memory.

    Parameters
    ----------
    basis : Basis
    rows : Rows
        New rows (n_rows, d); for a precomputed kernel (n_rows, n), its values between new and training rows.
    diagonal : ndarray of shape (n_rows,), optional
        k(x, x) of the new rows, for a precomputed kernel.
    locate : callable, optional
        Names a row of these in an error.

    Raises
    ------
    DataError
        If a score overflows, or what is stored of the basis is damaged.
    """
    dtype = np.dtype(basis.precision)
    A = as_operand(basis.kernel, rows, (0, rows.shape[0]), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # told by the row's name instead
        found = project(
            basis.kernel,
            A,
            _training(basis, dtype),
            centring=basis.centring,
            total_weight=basis.total_weight,
            dtype=dtype,
        )
    _refuse_overflow(basis.kernel.name, found.scores, locate or "row {} of these".format)
    t2 = novelty.hotelling_t2(found.scores, basis.eigenvalues, basis.total_weight)
    own = diagonal if isinstance(basis.kernel, Precomputed) else basis.kernel.diagonal(A)
    error = None
    if own is not None:
        self_similarity = own - 2 * found.mean_similarity + basis.reduced_grand_mean
        error = novelty.reconstruction_error(self_similarity, found.scores)
    return Scores(found.scores, error, t2, basis.thresholds.passed(error, t2))


def score_rows(
    basis: Basis,
    rows: Rows,
    *,
    diagonal: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score rows block by block on the active scheduler; the results are whole arrays in memory."""
    step = _step(rows.shape[1])
    starts = range(0, rows.shape[0], step)
    calls = [
        passes.Call(
            score_block,
            (
                basis,
                rows.part(a, min(a + step, rows.shape[0])),
                None if diagonal is None else diagonal[a : a + step],
            ),
        )
        for a in starts
    ]
    found: list[Scores] = []
    passes.run(calls, lambda _, scores: found.append(scores), progress=progress)
    return _joined(found)


class PartResult(NamedTuple):
    """What became of one part."""

    n_rows: int
    n_novel: int


def write_part(
    address: BasisAddress,
    source: Source,
    first_row: int,
    path: Path,
    metadata: dict[str, str],
    on_missing: str,
) -> PartResult | DataError:
    """The task: score the rows of `source` block by block into one file, written whole or not at all.

    `first_row` is the position of its first row in the whole input.
    An error in the data is returned, so that the first in the order of parts is raised.
    """
    n_rows = n_novel = 0
    try:
        basis = address.open()
        with PartWriter(path, basis.n_components, metadata) as writer:
            for first, block in _blocks(source):
                kept = _finite(source, first, block, on_missing)
                positions = np.flatnonzero(kept) + first
                scores = score_block(
                    basis, ArrayRows(block[kept]), locate=partial(_locate, source, positions)
                )
                writer.write(positions + first_row, *scores)
                n_rows += int(kept.sum())
                n_novel += int(scores.novelty.sum())
    except DataError as error:
        return error
    return PartResult(n_rows, n_novel)


def _blocks(source: Source) -> Iterator[tuple[int, Array]]:
    """The rows of `source` in blocks, each with the position of its first."""
    first, step = 0, _step(source.n_features)
    blocks = source.blocks(0, source.n_samples)
    while joined := list(islice(blocks, max(1, step // block_rows(source.n_features)))):
        X = joined[0] if len(joined) == 1 else np.concatenate(joined)
        for start in range(0, len(X), step):
            yield first + start, X[start : start + step]
        first += len(X)


def _step(n_columns: int) -> int:
    """Rows scored at once: enough that a basis is not read too often, fewer where they are wide."""
    return min(BLOCK_ROWS, JOINED_BLOCKS * block_rows(n_columns))


def _locate(source: Source, positions: Array, row: int) -> str:
    return source.locate(int(positions[row]))


def _finite(source: Source, first: int, block: Array, on_missing: str) -> Array:
    finite = np.isfinite(block)
    kept = np.asarray(finite.all(axis=1))
    if on_missing == "error" and not kept.all():
        row, column = (int(index) for index in np.argwhere(~finite)[0])
        raise DataError(
            f"{source.locate(first + row)}, column {source.columns[column]!r}: got {block[row, column]}, "
            "expected a finite number; repair the data or set data.on_missing: drop"
        )
    return kept


def _refuse_overflow(kernel: str, scores: Array, locate: Callable[[int], str]) -> None:
    finite = np.isfinite(scores).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{locate(int(np.argmin(finite)))}: kernel {kernel} gives infinite or missing scores, expected "
            "finite ones; leave the row out, or look whether its scale is that of the rows trained on"
        )


def _training(basis: Basis, dtype: np.dtype[Any]) -> Iterator[tuple[Operand, Array, Array]]:
    for address, rows, coefficients, weights in basis.blocks():
        B = (
            MatrixOperand.of(None, *address)
            if rows is None
            else as_operand(basis.kernel, rows, address, dtype)
        )
        yield B, coefficients, weights


def _joined(found: list[Scores]) -> Scores:
    errors = [scores.reconstruction_error for scores in found if scores.reconstruction_error is not None]
    return Scores(
        np.concatenate([scores.scores for scores in found]),
        np.concatenate(errors) if errors else None,
        np.concatenate([scores.hotelling_t2 for scores in found]),
        np.concatenate([scores.novelty for scores in found]),
    )
