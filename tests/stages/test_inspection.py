"""A finished store, looked at tile by tile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.stages.inspection import inspect_tiles
from kpca_stream.storage.layout import RunStore

GRID = TileGrid(70, 16)
A = np.random.default_rng(0).standard_normal((70, 5))
K = A @ A.T


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore.open(tmp_path / "gram.zarr")
    tiles = store.open_tiles(70, 16, np.float64)
    for tile in GRID.tiles():
        (a, b), (c, d) = (GRID.rows(t) for t in tile)
        tiles[a:b, c:d] = K[a:b, c:d]
    return store


def test_sums_and_diagonal_are_those_of_the_whole_matrix(store: RunStore) -> None:
    """From the upper tiles alone come the row sums and the diagonal of the symmetric matrix."""
    found = inspect_tiles(store.open_tiles(70, 16, np.float64), GRID, store.present_tiles())
    np.testing.assert_allclose(found.row_sums, K.sum(axis=1), atol=1e-12)
    np.testing.assert_array_equal(found.diagonal, np.diagonal(K))
    assert found.damaged == []


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_tile_is_named(store: RunStore, damage: str) -> None:
    """A tile with a flipped bit, a cut one and an empty one are named, and the others still read."""
    path = store.path / "tiles" / "c" / "1" / "3"
    content = bytearray(path.read_bytes())
    content[100] ^= 4
    path.write_bytes({"flip": content, "cut": content[:50], "empty": b""}[damage])
    found = inspect_tiles(store.open_tiles(70, 16, np.float64), GRID, store.present_tiles())
    assert found.damaged == [(1, 3)]
    np.testing.assert_allclose(found.row_sums[:16], K.sum(axis=1)[:16], atol=1e-12)


def test_only_present_tiles_are_read(store: RunStore) -> None:
    """Of the tiles that are handed over, and of no others, the sums are taken."""
    found = inspect_tiles(store.open_tiles(70, 16, np.float64), GRID, {(0, 0)})
    np.testing.assert_allclose(found.row_sums[:16], K[:16, :16].sum(axis=1), atol=1e-12)
    assert not found.row_sums[16:].any()
