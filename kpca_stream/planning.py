"""From settings and the shape of the data to a plan: all choices, made before the first tile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kpca_stream.errors import ConfigError
from kpca_stream.fitplan import FitPlan, gib, krylov_columns
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics import footprint
from kpca_stream.numerics.cost import resolved_storage
from kpca_stream.numerics.eigensolve import expected_components
from kpca_stream.numerics.forecast import Shape, grid_for
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.parameters import canonical_kernel
from kpca_stream.storage.sources.table import common_float_type

DENSE_ROWS = 5000
"""Beyond so many rows, dense is taken only by name."""
QUICK_DENSE_ROWS = 500
"""Below so many rows, LAPACK is faster than a handful of passes."""
DENSE_SHARE = 0.1
"""From this share of the rows asked for as components on, LAPACK is faster."""


def make_plan(
    settings: FitSettings,
    n_samples: int,
    n_features: int,
    dtype: np.dtype[Any],
    *,
    with_store: bool,
    in_place: bool = False,
    reading_bytes: int = 0,
) -> FitPlan:
    """Make all choices for rows of this shape and type, which with `in_place` are used where they lie.

    A reader of them holds `reading_bytes`. An exact fit that the limits refuse is approximated, where that is
    allowed.
    """
    method = _method(settings, n_samples)
    precision = _precision(settings, n_samples, dtype)
    if method == "dense" and precision == "mixed":
        precision = "float64"  # LAPACK has no float32 passes to refine
    shape = Shape(
        n_samples,
        n_features,
        _count(settings, n_samples),
        canonical_kernel(settings.kernel.name) if settings.kernel.function is None else "own",
        8 if precision == "float64" else 4,
        precision == "mixed",
    )
    grid = grid_for(shape, settings.tile_rows)
    storage, memory_tasks = _tiles(settings, shape, grid, method, with_store=with_store)
    plan = FitPlan(
        settings,
        shape,
        grid,
        precision,
        storage,
        method,
        with_store,
        memory_tasks,
        in_place,
        common_float_type([dtype]).itemsize,
        reading_bytes,
    )
    return _approximated_if_allowed(plan)


def _approximated_if_allowed(plan: FitPlan) -> FitPlan:
    settings = plan.settings
    if settings.method != "auto" or not settings.allow_approximate or not plan.refusals():
        return plan
    other = plan.approximated()
    if other.refusals():
        return plan
    why = " and ".join(plan.excesses())
    return replace(
        other,
        method_reason=f"approximated by {other.n_landmarks:,} landmarks, since an exact fit {why}",
    )


def _tiles(
    settings: FitSettings, shape: Shape, grid: TileGrid, method: str, *, with_store: bool
) -> tuple[Literal["memory", "zarr", "recompute"], int]:
    """Where tiles go, and of how many tasks they are in memory all the same; landmarks need none."""
    if method == "nystrom":
        return "recompute", 0
    max_columns = krylov_columns(settings, shape)
    budget = footprint.tile_budget(
        shape, grid, method, memory_limit=settings.memory_limit, max_columns=max_columns
    )
    storage = resolved_storage(
        settings.storage, shape, grid, budget, with_store=with_store, in_bucket=settings.tiles_in_bucket
    )
    disk = np.inf if settings.disk_limit is None or settings.tiles_in_bucket else settings.disk_limit
    if settings.storage == "auto" and storage == "zarr" and footprint.tile_bytes(grid, shape) > disk:
        storage = "recompute"
    if storage == "zarr" and not with_store:
        raise ConfigError(
            "storage: zarr needs a store to keep tiles in; give one, or choose memory or recompute"
        )
    held = settings.storage == "auto" and storage != "memory" and method == "lanczos"
    return storage, footprint.tasks_in_memory(grid, shape.itemsize, budget) if held else 0


def _method(settings: FitSettings, n_samples: int) -> Literal["dense", "lanczos", "nystrom"]:
    if settings.method != "auto":
        if settings.method == "lanczos" and settings.n_components is None:
            raise ConfigError(
                "n_components: None (all) needs a dense solve, got lanczos; give a number or a share"
            )
        return settings.method
    if settings.n_components is None and n_samples > DENSE_ROWS:
        raise ConfigError(
            f"n_components: None (all) of {n_samples} rows needs a dense solve of "
            f"{gib(footprint.dense_bytes(n_samples))}, which is taken beyond {DENSE_ROWS} rows only by name; "
            f"give a number or a share of components, or set {settings.wording('method', 'dense')}"
        )
    many = _count(settings, n_samples) > DENSE_SHARE * n_samples and n_samples <= DENSE_ROWS
    return "dense" if many or n_samples <= QUICK_DENSE_ROWS else "lanczos"


def _precision(settings: FitSettings, n_samples: int, dtype: np.dtype[Any]) -> str:
    if settings.precision != "auto":
        return settings.precision
    if dtype in (np.float32, np.float16):
        return "float32"
    return "float64" if n_samples <= DENSE_ROWS or 0 < settings.tol < 1e-6 else "mixed"


def _count(settings: FitSettings, n_samples: int) -> int:
    return (
        n_samples if settings.n_components is None else expected_components(settings.n_components, n_samples)
    )
