"""Stored arrays: a checksum a chunk, and nothing read that was not written."""

from __future__ import annotations

from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import DTypeLike, NDArray
from zarr.codecs import BytesCodec, Crc32cCodec

from kpca_stream.errors import DataError
from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.chunks import RUN, Chunk, chunk_of

Array = NDArray[Any]

CODECS = (BytesCodec(endian="little"), Crc32cCodec())
CHECKSUM_BYTES = 4
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
    attributes: dict[str, Any] | None = None,
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
        attributes=attributes,
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


def create_tiles(
    group: zarr.Group, n_samples: int, tile_rows: int, dtype: DTypeLike, run: str
) -> zarr.Array[Any]:
    """The array of the tiles of a run's Gram matrix, one chunk each."""
    shape, chunks = (n_samples, n_samples), (tile_rows, tile_rows)
    return create_array(
        group, "tiles", shape, chunks, dtype, dimensions=("row", "column"), attributes={RUN: run}
    )


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


def read_tile(
    tiles: zarr.Array[Any], grid: TileGrid, tile: Tile, buffer: Buffer | None = None
) -> Array | None:
    """A stored tile, or None where it is missing or its checksum does not hold; in `buffer`, if given."""
    height, width = (stop - start for start, stop in map(grid.rows, tile))
    chunk = chunk_of(tiles, tile)
    T = _read_through(tiles, grid, tile) if chunk is None else _read(chunk, tiles, buffer or Buffer())
    if T is None or np.isnan(T[0, 0]):  # a missing tile reads as NaN, a kernel value never is
        return None
    return np.ascontiguousarray(T[:height, :width])


def is_stored(tiles: zarr.Array[Any], tile: Tile) -> bool:
    """Whether a tile is there by now; False in a store that has neither files nor objects."""
    chunk = chunk_of(tiles, tile)
    return chunk is not None and chunk.exists()


def write_tile(tiles: zarr.Array[Any], grid: TileGrid, tile: Tile, T: Array) -> None:
    """Store a tile, whole or not at all."""
    chunk = chunk_of(tiles, tile)
    if chunk is None:
        (a, b), (c, d) = map(grid.rows, tile)
        tiles[a:b, c:d] = T
    else:
        values = _padded(T, tiles)
        chunk.write(values, google_crc32c.value(values).to_bytes(CHECKSUM_BYTES, "little"))


def _read_through(tiles: zarr.Array[Any], grid: TileGrid, tile: Tile) -> Array | None:
    (a, b), (c, d) = map(grid.rows, tile)
    try:
        return np.asarray(tiles[a:b, c:d])
    except (ValueError, RuntimeError):  # what Zarr's codecs raise for a cut or changed chunk
        return None


def _read(chunk: Chunk, tiles: zarr.Array[Any], buffer: Buffer) -> Array | None:
    """A chunk of `create_array`, which is its values and their checksum."""
    dtype = np.dtype(tiles.dtype).newbyteorder("<")
    n_bytes = tiles.chunks[0] * tiles.chunks[1] * dtype.itemsize
    content = chunk.read(n_bytes + CHECKSUM_BYTES, buffer)
    if content is None:
        return None
    values, checksum = content[:n_bytes], content[n_bytes:].tobytes()
    if google_crc32c.value(values) != int.from_bytes(checksum, "little"):
        return None
    return values.view(dtype).reshape(tiles.chunks)


def _padded(T: Array, tiles: zarr.Array[Any]) -> Array:
    """A tile as its chunk: little-endian, at the edge filled up with what counts as missing."""
    dtype = np.dtype(tiles.dtype).newbyteorder("<")
    if T.shape == tiles.chunks:
        return np.ascontiguousarray(T, dtype=dtype)
    chunk = np.full(tiles.chunks, np.nan, dtype=dtype)
    chunk[: T.shape[0], : T.shape[1]] = T
    return chunk
