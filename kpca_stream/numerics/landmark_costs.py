"""Bytes, evaluations and time of a Nyström fit, from shapes and fixed nominal rates."""

from __future__ import annotations

from kpca_stream.numerics.forecast import CHECKPOINT_COPIES, PRODUCTS_PER_SECOND, Forecast, Shape, start_bytes
from kpca_stream.numerics.rowcut import RowCut, row_seconds

CLIENT_MATRICES = 10
"""Of (m, m) in float64 at once, while an eigensolve works."""
TASK_MATRICES = 3
SOLVE_FLOPS = 30
"""Times m³, of the eigensolves of K_mm and of C."""
CHOICE_PRODUCTS = 40
"""Distances of a row to all landmarks for each of them, while centres move."""


def forecast_of_landmarks(
    shape: Shape, n_landmarks: int, n_drawn: int, *, with_store: bool, in_place: bool
) -> Forecast:
    """The forecast of a Nyström fit with so many landmarks and drawn rows."""
    m, n_samples, d = n_landmarks, shape.n_samples, shape.n_features
    cut = RowCut.of(shape, m)
    matrix, drawn = 8 * m * m, 8 * d * min(n_drawn, n_samples)
    block = cut.block_rows * (m * shape.widest + 3 * 8 * d)
    return Forecast(
        disk_rows=n_samples * d * 8 if with_store and not in_place else 0,
        disk_tiles=0,
        disk_vectors=CHECKPOINT_COPIES * matrix + 8 * m * d if with_store else 0,
        memory_start=start_bytes(shape) + 3 * drawn,
        memory_client=CLIENT_MATRICES * matrix + 3 * drawn,
        memory_task=block + TASK_MATRICES * matrix + 2 * 8 * d * cut.read_rows,
        memory_tiles=0,
        evaluations=n_samples * m,
        passes=1,
        core_seconds=n_samples * row_seconds(shape, m) + _client_seconds(m, d, min(n_drawn, n_samples)),
    )


def _client_seconds(m: int, d: int, n_drawn: int) -> float:
    flops = SOLVE_FLOPS * m**3 + CHOICE_PRODUCTS * min(n_drawn, 20 * m) * m * d
    return 2 * flops / PRODUCTS_PER_SECOND
