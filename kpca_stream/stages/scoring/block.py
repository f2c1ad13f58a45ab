"""Blocks of rows × basis → scores, reconstruction error, T² and novelty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.numerics import novelty
from kpca_stream.numerics.kernels import Operand, Precomputed, as_operand
from kpca_stream.numerics.multiply import STRIP_ROWS
from kpca_stream.numerics.projection import Projection, project
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.sources.table import block_rows

Array = NDArray[Any]

BLOCK_ROWS = 4096
JOINED_BLOCKS = 2


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
        If a score, T² or error overflows, or what is stored of the basis is damaged.
    """
    dtype = np.dtype(basis.precision)
    A = as_operand(basis.kernel, rows, (0, rows.shape[0]), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # told by the row's name instead
        found = project(
            basis.kernel,
            A,
            basis.spanning(),
            centring=basis.centring,
            total_weight=basis.total_weight,
            dtype=dtype,
        )
        t2 = basis.hotelling_t2(found.scores)
        error = _reconstruction_error(basis, A, found, diagonal)
    _refuse_overflow(basis.kernel.name, found.scores, error, t2, locate or "row {} of these".format)
    return Scores(found.scores, error, t2, basis.thresholds.passed(error, t2))


def _reconstruction_error(
    basis: Basis, A: Operand, found: Projection, diagonal: Array | None
) -> Array | None:
    own = diagonal if isinstance(basis.kernel, Precomputed) else basis.kernel.diagonal(A)
    if own is None:
        return None
    self_similarity = own - 2 * found.mean_similarity + basis.reduced_grand_mean
    return novelty.reconstruction_error(self_similarity, found.scores)


def score_rows(
    basis: Basis,
    rows: Rows,
    *,
    diagonal: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score rows block by block on the active scheduler; the results are whole arrays in memory."""
    step = _even_step(*rows.shape)
    starts = range(0, rows.shape[0], step)
    spanned = basis if len(starts) == 1 else passes.shared(basis)
    calls = [
        passes.Call(
            score_block,
            (
                spanned,
                rows.part(a, min(a + step, rows.shape[0])),
                None if diagonal is None else diagonal[a : a + step],
            ),
        )
        for a in starts
    ]
    found: list[Scores] = []
    passes.run(calls, lambda _, scores: found.append(scores), progress=progress)
    return _joined(found)


def step_rows(n_columns: int) -> int:
    """Rows scored at once: enough that a basis is not read too often, fewer where they are wide."""
    return min(BLOCK_ROWS, JOINED_BLOCKS * block_rows(n_columns))


def _even_step(n_rows: int, n_columns: int) -> int:
    """Rows of a task, so that workers have as many tasks each.

    Blocks end where strips do, so that the results have the same bits for any number of workers.
    """
    most, workers = step_rows(n_columns), passes.n_workers()
    n_blocks = -(-max(1, -(-n_rows // most)) // workers) * workers
    return min(most, STRIP_ROWS * max(1, -(-n_rows // (n_blocks * STRIP_ROWS))))


def _refuse_overflow(
    kernel: str, scores: Array, error: Array | None, t2: Array, locate: Callable[[int], str]
) -> None:
    finite = np.isfinite(scores).all(axis=1) & np.isfinite(t2)
    finite &= error is None or np.isfinite(error)
    if not finite.all():
        raise DataError(
            f"{locate(int(np.argmin(finite)))}: kernel {kernel} gives infinite or missing scores, or squares "
            "of them, expected finite ones; leave the row out, or look whether its scale is that of the rows "
            "trained on"
        )


def _joined(found: list[Scores]) -> Scores:
    errors = [scores.reconstruction_error for scores in found if scores.reconstruction_error is not None]
    return Scores(
        np.concatenate([scores.scores for scores in found]),
        np.concatenate(errors) if errors else None,
        np.concatenate([scores.hotelling_t2 for scores in found]),
        np.concatenate([scores.novelty for scores in found]),
    )
