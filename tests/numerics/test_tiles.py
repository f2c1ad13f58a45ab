"""The tile grid."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kpca_stream.numerics.tiles import TileGrid

grids = st.builds(TileGrid, st.integers(1, 60), st.integers(1, 70), st.integers(1, 9))


@settings(max_examples=25)
@given(grids)
def test_every_tile_belongs_to_one_task(grid: TileGrid) -> None:
    """The tasks' tiles together are the upper triangle, each tile once."""
    of_tasks = [tile for block in grid.blocks() for tile in grid.tiles(block)]
    assert sorted(of_tasks) == grid.tiles()
    assert grid.tiles() == [(i, j) for i in range(grid.side) for j in range(i, grid.side)]
    assert len(of_tasks) == grid.n_tiles
    assert len(grid.blocks()) == grid.n_tasks


@settings(max_examples=25)
@given(grids)
def test_tiles_and_blocks_cover_all_rows(grid: TileGrid) -> None:
    """Row tiles, and row blocks, follow one another without gap from row 0 to the last."""
    for edges, count in ((grid.rows, grid.side), (grid.block_rows, grid.block_side)):
        covered = [row for index in range(count) for row in range(*edges(index))]
        assert covered == list(range(grid.n_samples))


@settings(max_examples=25)
@given(grids)
def test_a_blocks_tiles_lie_within_its_rows(grid: TileGrid) -> None:
    """The tiles of block (I, J) take their rows from row block I and their columns from row block J."""
    for block in grid.blocks():
        for tile in grid.tiles(block):
            for side, part in zip(block, tile, strict=True):
                start, stop = grid.rows(part)
                first, end = grid.block_rows(side)
                assert first <= start < stop <= end


@given(grid=grids)
def test_values_of_a_block_are_those_of_its_tiles(grid: TileGrid) -> None:
    """Its number of values is that of its tiles, one by one."""
    heights = [stop - start for start, stop in map(grid.rows, range(grid.side))]
    for block in grid.blocks():
        assert grid.values(block) == sum(heights[i] * heights[j] for i, j in grid.tiles(block))


def test_edge_tiles_are_smaller() -> None:
    """Ten rows in tiles of four and blocks of two tiles have a short tile, and a short block, at the edge."""
    grid = TileGrid(10, 4, 2)
    assert (grid.side, grid.block_side, grid.n_tiles, grid.n_tasks) == (3, 2, 6, 3)
    assert grid.rows(2) == (8, 10)
    assert grid.tiles((0, 1)) == [(0, 2), (1, 2)]
    assert grid.block_rows(1) == (8, 10)
