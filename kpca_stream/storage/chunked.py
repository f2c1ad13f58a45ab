"""Stored arrays: a checksum a chunk, and nothing read that was not written."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from numpy.typing import DTypeLike, NDArray
from zarr.codecs import BytesCodec, Crc32cCodec

from kpca_stream.errors import DataError
from kpca_stream.numerics.tiles import Tile, TileGrid

Array = NDArray[Any]

CODECS = (BytesCodec(endian="little"), Crc32cCodec())
REMEDY = "restore it from a copy, or fit with --restart"


def create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: DTypeLike,
    *,
    dimensions: tuple[str, ...],
    fill_value: Any = np.nan,
) -> zarr.Array[Any]:
    """A new array with a checksum a chunk and no compression, which kernel values do not reward.

    A chunk that is not there reads as NaN, never as zeros.
    """
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=np.dtype(dtype),
        serializer=CODECS[0],
        compressors=CODECS[1:],
        fill_value=fill_value,
        dimension_names=dimensions,
        overwrite=True,
        config={"write_empty_chunks": True},
    )


def write_array(
    group: zarr.Group, name: str, values: Array, *, dimensions: tuple[str, ...], chunk_rows: int = 65536
) -> None:
    """Write `values` as a new array of `group`."""
    chunks = (max(1, min(chunk_rows, len(values))), *(max(1, size) for size in values.shape[1:]))
    array = create_array(group, name, values.shape, chunks, values.dtype, dimensions=dimensions)
    array[...] = values


def check_description(array: zarr.Array[Any]) -> None:
    """Check that an array is described as `create_array` does: its chunks carry checksums, that does not.

    Raises
    ------
    DataError
        If not.
    """
    codecs, fill = tuple(getattr(array.metadata, "codecs", ())), array.fill_value
    if codecs != CODECS or not (np.ndim(fill) == 0 and np.isnan(fill)):
        raise DataError(
            f"{array.store_path}/zarr.json was changed, got codecs {[type(c).__name__ for c in codecs]} and "
            f"fill value {fill}, expected {[type(c).__name__ for c in CODECS]} and nan; {REMEDY}"
        )


def read_tile(tiles: zarr.Array[Any], grid: TileGrid, tile: Tile) -> Array | None:
    """A stored tile, or None where it is missing or its checksum does not hold."""
    (a, b), (c, d) = (grid.rows(t) for t in tile)
    try:
        T = np.asarray(tiles[a:b, c:d])
    except (ValueError, RuntimeError):  # what Zarr's codecs raise for a cut or changed chunk
        return None
    return None if np.isnan(T[0, 0]) else T  # a missing tile reads as NaN, a kernel value never is
