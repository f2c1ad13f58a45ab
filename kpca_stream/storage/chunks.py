"""The file, or the object, that holds one chunk of an array: its values and their checksum.

Going there directly, workers read and write side by side, where Zarr's one event loop takes a tile after the
other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore

from kpca_stream.addresses import Address
from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.tiles import Tile
from kpca_stream.storage import objects
from kpca_stream.storage.bucket_store import BucketStore
from kpca_stream.storage.outage import told_of
from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]


class Chunk(Protocol):
    """Where one chunk lies."""

    def exists(self) -> bool:
        """Whether it is there by now."""

    def read(self, n_bytes: int, buffer: Buffer) -> Array | None:
        """Its bytes, in `buffer`; None where it is not there, or is not of that size."""

    def write(self, values: Array, checksum: bytes) -> None:
        """Write it, whole or not at all."""


@dataclass(frozen=True)
class FileChunk:
    """A chunk in a folder."""

    path: Path

    def exists(self) -> bool:
        """See `Chunk`."""
        return self.path.exists()

    def read(self, n_bytes: int, buffer: Buffer) -> Array | None:
        """See `Chunk`."""
        try:
            with self.path.open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != n_bytes:
                    return None
                content = buffer.of(n_bytes + 1)  # it may grow while it is read
                return content[:n_bytes] if _filled(file, content) == n_bytes else None
        except FileNotFoundError:
            return None

    def write(self, values: Array, checksum: bytes) -> None:
        """See `Chunk`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(self.path, synced=False) as file:
            file.write(values.data)
            file.write(checksum)


@dataclass(frozen=True)
class ObjectChunk:
    """A chunk in an object store, in one put."""

    address: Address

    def exists(self) -> bool:
        """See `Chunk`."""
        import obstore

        with suppress(FileNotFoundError), told_of(self.address):
            obstore.head(objects.opened(self.address), self.address.key)
            return True
        return False

    def read(self, n_bytes: int, buffer: Buffer) -> Array | None:
        """See `Chunk`."""
        import obstore

        n_read = 0
        with suppress(FileNotFoundError), told_of(self.address):
            found = obstore.get(objects.opened(self.address), self.address.key)
            if found.meta["size"] != n_bytes:
                return None
            content = buffer.of(n_bytes)
            for piece in found:
                content.data[n_read : n_read + len(piece)] = memoryview(piece)
                n_read += len(piece)
            return content if n_read == n_bytes else None
        return None

    def write(self, values: Array, checksum: bytes) -> None:
        """See `Chunk`."""
        import obstore

        content = b"".join((values.data.cast("B"), checksum))
        with told_of(self.address):
            obstore.put(objects.opened(self.address), self.address.key, content, use_multipart=False)


def chunk_of(tiles: zarr.Array[Any], tile: Tile) -> Chunk | None:
    """The place of a chunk, in Zarr's default layout; None in a store that has neither files nor objects."""
    store = tiles.store_path.store
    key = f"{tiles.store_path.path}/c/{tile[0]}/{tile[1]}".removeprefix("/")
    if isinstance(store, LocalStore):
        return FileChunk(Path(store.root) / key)
    return ObjectChunk(replace(store.address, key=key)) if isinstance(store, BucketStore) else None


def _filled(file: FileIO, content: Array) -> int:
    """Read until `content` is full or the file ends; a single call may bring less."""
    view, n_read = content.data, 0
    while n_more := file.readinto(view[n_read:]):
        n_read += n_more
    return n_read
