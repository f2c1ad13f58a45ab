"""A finished store, looked at tile by tile: what is missing, what is damaged, and the means by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.chunked import read_tile

Array = NDArray[Any]


@dataclass
class Inspection:
    """What was seen.

    Parameters
    ----------
    row_sums : ndarray of shape (n,)
        Of the tiles that could be read.
    diagonal : ndarray of shape (n,)
        Likewise.
    damaged : list of Tile
        Tiles that are there but cannot be read.
    """

    row_sums: Array
    diagonal: Array
    damaged: list[Tile] = field(default_factory=list)


def inspect_tiles(
    tiles: zarr.Array[Any],
    grid: TileGrid,
    present: set[Tile],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Read every present tile once."""
    found = Inspection(np.zeros(grid.n_samples), np.zeros(grid.n_samples))
    order = sorted(present)

    def fold(index: int, result: tuple[Array, Array, Array] | None) -> None:
        i, j = (slice(*grid.rows(t)) for t in order[index])
        if result is None:
            found.damaged.append(order[index])
            return
        found.row_sums[i] += result[0]
        if i == j:
            found.diagonal[i] = result[2]
        else:
            found.row_sums[j] += result[1]

    passes.run([passes.Call(sums_of_tile, (tiles, grid, tile)) for tile in order], fold, progress=progress)
    return found


def sums_of_tile(tiles: zarr.Array[Any], grid: TileGrid, tile: Tile) -> tuple[Array, Array, Array] | None:
    """Sums over columns and over rows, and the diagonal, in float64; None where the tile cannot be read."""
    T = read_tile(tiles, grid, tile)
    if T is None:
        return None
    return T.sum(axis=1, dtype=np.float64), T.sum(axis=0, dtype=np.float64), np.diagonal(T).astype(np.float64)
