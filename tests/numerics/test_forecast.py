"""Bytes, evaluations and tasks of a fit, from shapes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kpca_stream.numerics.cost import Circumstances, Cost, cost, passes_of, resolved_storage
from kpca_stream.numerics.footprint import BASIS_BLOCKS, CLUSTER_BYTES, IMPORT_BYTES, krylov_columns
from kpca_stream.numerics.forecast import LEAST_TILE_ROWS, MAX_TASKS, TILE_BYTES, Shape, grid_for
from kpca_stream.numerics.tiles import TileGrid

SHAPE = Shape(1_000_000, 50, 10, "rbf", 4)
KERNELS = ["linear", "rbf", "laplacian", "poly", "sigmoid", "cosine", "precomputed", "own"]


def forecast_of(
    shape: Shape, storage: str = "zarr", method: str = "lanczos", tile_rows: int | None = None, **given: int
) -> Cost:
    columns = {"max_columns": BASIS_BLOCKS * shape.width, **given}
    circumstances = Circumstances(storage=storage, method=method, tol=1e-6, **columns)
    return cost(shape, grid_for(shape, tile_rows), circumstances)


@pytest.mark.parametrize(
    ("n_samples", "n_bytes", "n_tiles"),
    [(80_000, 51_200_000_000, 820), (113_270, 102_640_743_200, 1596), (368_104, 1_084_004_438_528, 16_290)],
)
def test_sizes_are_exact(n_samples: int, n_bytes: int, n_tiles: int) -> None:
    """Tiles of 2048, upper triangle, float64: as many, and as large, as can be counted."""
    shape = Shape(n_samples, 10, 10, "rbf", 8)
    grid = grid_for(shape)
    found = forecast_of(shape)
    assert (grid.tile_rows, grid.n_tiles) == (2048, n_tiles)
    assert found.disk_tiles == n_tiles * 2048**2 * 8
    assert n_bytes == n_samples**2 * 8
    assert found.evaluations == n_samples * (n_samples + 1) // 2
    assert found.disk_tiles > n_bytes / 2


def test_padding_of_the_edge_counts() -> None:
    """One row beyond whole tiles costs a whole row of tiles on disk."""
    even, odd = (forecast_of(Shape(n, 10, 5, "rbf", 4), tile_rows=100).disk_tiles for n in (1000, 1001))
    assert even == 55 * 100**2 * 4
    assert odd == 66 * 100**2 * 4


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_samples", [2, 150, 5_000, 100_000, 1_000_000, 9_331_200])
@pytest.mark.parametrize("tile_rows", [None, 1000])
def test_a_pass_has_at_most_5000_tasks(kernel: str, n_samples: int, tile_rows: int | None) -> None:
    """Whatever the rows, tile size and kernel, tasks stay few, and each has at least one tile."""
    grid = grid_for(replace(SHAPE, kernel=kernel, n_samples=n_samples), tile_rows)
    assert 1 <= grid.n_tasks <= MAX_TASKS
    assert grid.tile_rows <= n_samples


def test_a_million_rows_in_tiles_of_1000_make_a_small_graph() -> None:
    """500,500 tiles are shared out to at most 5,000 tasks."""
    grid = grid_for(SHAPE, 1000)
    assert (grid.n_tiles, grid.n_tasks <= 5000) == (500_500, True)


@pytest.mark.parametrize("n_features", [1, 512, 784, 1024, 2048, 8000, 100_000])
def test_wide_rows_get_lower_tiles(n_features: int) -> None:
    """A side of a tile keeps to its bytes; up to 1024 columns tiles have 2048 rows."""
    tile_rows = grid_for(replace(SHAPE, n_features=n_features)).tile_rows
    assert tile_rows == LEAST_TILE_ROWS or tile_rows * n_features * 8 <= TILE_BYTES
    assert tile_rows == 2048 or n_features > 1024
    assert grid_for(replace(SHAPE, n_features=n_features, kernel="precomputed")).tile_rows == 2048


def test_recomputing_costs_an_evaluation_a_pass_and_no_disk() -> None:
    """With tiles computed again the evaluations are as many times as many as there are passes."""
    kept, again = forecast_of(SHAPE, "zarr"), forecast_of(SHAPE, "recompute")
    assert again.evaluations == again.passes * kept.evaluations
    assert (again.disk_tiles, again.memory_tiles) == (0, 0)
    assert kept.disk_tiles > 0


def test_memory_grows_with_what_it_is_spent_on() -> None:
    """More rows, columns, components and precision never take less; dense takes six matrices."""
    base = forecast_of(SHAPE, "recompute")
    for change in ({"n_samples": 2_000_000}, {"n_components": 20}, {"itemsize": 8}, {"mixed": True}):
        assert forecast_of(replace(SHAPE, **change), "recompute").memory_client > base.memory_client  # type: ignore[arg-type]
    for wide in ({"n_features": 500}, {"itemsize": 8}):
        assert forecast_of(replace(SHAPE, **wide), "recompute").memory_task > base.memory_task  # type: ignore[arg-type]
    small = replace(SHAPE, n_samples=4000)
    assert forecast_of(small, "recompute", "dense").memory_client >= 6 * 4000**2 * 8


def test_krylov_columns_keep_to_a_third_of_the_limit() -> None:
    """Basis vectors and their products together take at most a third of the memory limit."""
    columns = krylov_columns(SHAPE, 2**30)
    assert 2 * columns * 1_000_000 * 4 <= 2**30 / 3 < 2 * (columns + 1) * 1_000_000 * 4
    assert krylov_columns(replace(SHAPE, itemsize=8), 2**30) == columns // 2


def test_automatic_storage_follows_memory_and_kernel() -> None:
    """Small matrices stay in memory, large ones are recomputed, those of slow kernels are stored."""
    small, own = replace(SHAPE, n_samples=10_000), replace(SHAPE, kernel="own")

    def chosen(storage: str, shape: Shape, *, with_store: bool = True) -> str:
        return str(resolved_storage(storage, shape, grid_for(shape), 2**30, with_store=with_store))

    assert chosen("auto", small) == "memory"
    assert chosen("auto", SHAPE) == "recompute"
    assert chosen("auto", own) == "zarr"
    assert chosen("auto", own, with_store=False) == "recompute"
    assert chosen("zarr", small) == "zarr"


@pytest.mark.parametrize("n_samples", [1, 99, 100, 101, 350])
@pytest.mark.parametrize("tiles_per_block", [1, 3])
def test_values_of_all_tiles(n_samples: int, tiles_per_block: int) -> None:
    """All tiles together hold the values that the tiles of all blocks hold."""
    grid = TileGrid(n_samples, 100, tiles_per_block)
    assert grid.n_values == sum(grid.values(block) for block in grid.blocks())


def test_the_float64_step_of_a_mixed_fit_is_counted() -> None:
    """It evaluates every pair once more, in whatever way the tiles are kept, and takes its time."""
    mixed = replace(SHAPE, mixed=True)
    for storage in ("zarr", "recompute", "memory"):
        single, both = forecast_of(SHAPE, storage), forecast_of(mixed, storage)
        assert both.evaluations == single.evaluations + 1_000_000 * 1_000_001 // 2
        assert (both.passes, both.core_seconds > 1.2 * single.core_seconds) == (single.passes + 1, True)


def test_sharper_tolerances_and_random_starts_take_more_passes() -> None:
    """A pass brings two digits; landmarks save two of them."""
    assert [passes_of(SHAPE, tol, has_start=True)[0] for tol in (1e-2, 1e-6, 1e-13)] == [2, 4, 7]
    assert passes_of(SHAPE, 1e-6, has_start=False)[0] == 6


def test_processes_share_out_tiles_and_tasks() -> None:
    """Threads have everything in one process; in processes of their own tasks have a share of the tiles."""
    found = forecast_of(replace(SHAPE, n_samples=60_000), "memory")
    threads, processes = found.memory(4, 0, 100), found.memory(4, 4, 100)
    assert threads == found.memory_client + found.memory_tiles + 4 * found.memory_task
    imports = IMPORT_BYTES + CLUSTER_BYTES
    assert processes == imports + -(-found.memory_tiles // 4) + found.memory_task
    assert found.memory(4, 0, 1) == threads - 3 * found.memory_task


def test_the_plan_does_not_depend_on_the_machine() -> None:
    """The same shape gives the same tiles and tasks, every time."""
    assert len({grid_for(SHAPE) for _ in range(5)}) == 1
