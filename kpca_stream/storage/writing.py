"""Tiles written while the next ones are computed: a disk and a processor need not wait for each other."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.chunked import write_tile

Array = NDArray[Any]


class TileWriter:
    """Writes one tile after the other in a thread of its own; when the block ends, all are written.

    Two tiles are in memory: one that is written and one that is filled.

    Parameters
    ----------
    tiles : zarr.Array
    grid : TileGrid
    """

    def __init__(self, tiles: zarr.Array[Any], grid: TileGrid) -> None:
        self.tiles, self.grid = tiles, grid
        self._buffers = [Buffer(), Buffer()]
        self._writing: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    def room(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Memory for a tile, to be filled and then written."""
        return self._buffers[0].array(shape, dtype)

    def write(self, tile: Tile, T: Array) -> None:
        """Begin to write what was filled, once the tile before is written; raises what that one met."""
        self._finish()
        self._writing = self._thread.submit(write_tile, self.tiles, self.grid, tile, T)
        self._buffers.reverse()

    def _finish(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        if kind is None:
            self._finish()
