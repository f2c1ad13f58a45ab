"""Bytes, evaluations and time of a Nyström fit, from shapes and fixed nominal rates."""

from __future__ import annotations

from kpca_stream.numerics import footprint
from kpca_stream.numerics.cost import Cost, row_seconds_of_caller
from kpca_stream.numerics.forecast import PRODUCTS_PER_SECOND, Shape
from kpca_stream.numerics.pivots import expected_rounds
from kpca_stream.numerics.rowcut import RowCut, row_seconds

CHOICE_BYTES = 48 * 2**20
"""What is imported to find clusters, and threads that do so."""
CLIENT_MATRICES = 10
"""Of (m, m) in float64 at once, while an eigensolve works."""
TASK_MATRICES = 3
CHECKPOINTS = 2
SOLVE_FLOPS = 30
"""Times m³, of the eigensolves of K_mm and of C."""
CHOICE_VECTORS = 4
"""A number for each row, while landmarks are chosen among all: residuals, weights, and a copy to keep."""
CHOICE_PRODUCTS = 40
"""Distances of a row to all landmarks for each of them, while centres move."""


def cost_of_landmarks(
    shape: Shape,
    n_landmarks: int,
    n_drawn: int,
    *,
    reading_bytes: int,
    merging_bytes: int,
    stored_itemsize: int,
    with_store: bool,
    chooses_among_all: bool = False,
) -> Cost:
    """What a Nyström fit with so many landmarks and drawn rows takes; see `Circumstances` for the others.

    With `chooses_among_all` rows landmarks are chosen in passes of their own.
    """
    m, n_samples, d = n_landmarks, shape.n_samples, shape.n_features
    cut = RowCut.of(shape, m)
    n_drawn = min(n_drawn, n_samples)
    matrix, drawn = 8 * m * m, 8 * d * n_drawn
    block = cut.block_rows * (m * shape.widest + 3 * 8 * d)
    begun = expected_rounds(m) if chooses_among_all else []
    choice = CHOICE_VECTORS * 8 * n_samples if begun else 0
    return Cost(
        disk_rows=footprint.rows_on_disk(shape, stored_itemsize),
        disk_tiles=0,
        disk_vectors=CHECKPOINTS * matrix + 8 * m * d if with_store else 0,
        memory_start=footprint.start_bytes(shape) + CHOICE_BYTES + 3 * drawn,
        memory_rows=footprint.rows_bytes(shape, 0, merging_bytes) + CHOICE_BYTES + 3 * drawn,
        memory_client=footprint.IMPORT_BYTES + CHOICE_BYTES + CLIENT_MATRICES * matrix + 3 * drawn + choice,
        memory_row_task=footprint.row_task_bytes(shape, 0, reading_bytes) + 2 * drawn,
        memory_task=block + TASK_MATRICES * matrix + 2 * 8 * d * cut.read_rows,
        memory_sums=matrix,
        memory_tiles=0,
        evaluations=n_samples * (m + sum(begun)),
        passes=1,
        start_seconds=row_seconds_of_caller(shape, stored_itemsize) + _client_seconds(m, d, n_drawn),
        core_seconds=n_samples * sum(row_seconds(shape, each) for each in (m, *begun)),
    )


def _client_seconds(m: int, d: int, n_drawn: int) -> float:
    flops = SOLVE_FLOPS * m**3 + CHOICE_PRODUCTS * min(n_drawn, 20 * m) * m * d
    return 2 * flops / PRODUCTS_PER_SECOND
