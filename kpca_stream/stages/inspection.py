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
        K·w, of the tiles that could be read.
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
    weights: Array | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Read every present tile once; rows count as often as their weights, (n,), say."""
    weights = np.ones(grid.n_samples) if weights is None else weights
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

    def call(index: int) -> passes.Call:
        w_i, w_j = (weights[slice(*grid.rows(t))] for t in order[index])
        return passes.Call(sums_of_tile, (tiles, grid, order[index], w_i, w_j))

    passes.run(passes.Lazy(len(order), call), fold, progress=progress)
    return found


def sums_of_tile(
    tiles: zarr.Array[Any], grid: TileGrid, tile: Tile, w_i: Array, w_j: Array
) -> tuple[Array, Array, Array] | None:
    """T·w_j, Tᵀ·w_i and the diagonal of a tile, in float64; None where it cannot be read."""
    T = read_tile(tiles, grid, tile)
    if T is None:
        return None
    T = T.astype(np.float64, copy=False)
    return T @ w_j, w_i @ T, np.diagonal(T).copy()
