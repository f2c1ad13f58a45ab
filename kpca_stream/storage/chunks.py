"""The file, or the object, that holds one chunk of an array: its values and their checksum.

Going there directly, workers read and write side by side, where Zarr's one event loop takes a tile after the
other.

A worker may outlive its run, and end a task when another run has begun at the same place. So a file is
written in a folder that is named after the run, goes with it, and without which it cannot take its name; and
an object says of which run it is. One that says of none was brought back from a copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore

from kpca_stream.addresses import Address
from kpca_stream.errors import DataError
from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.tiles import Tile
from kpca_stream.storage import objects
from kpca_stream.storage.bucket_store import BucketStore
from kpca_stream.storage.outage import told_of
from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]

RUN = "run"
"""The attribute of an array, and of its objects, that names the run that they are of."""


class Chunk(Protocol):
    """Where one chunk lies."""

    def exists(self) -> bool:
        """Whether it is there by now."""

    def read(self, n_bytes: int, buffer: Buffer) -> Array | None:
        """Its bytes, in `buffer`; None where it is not there, or not of so many, which is seen before."""

    def write(self, values: Array, checksum: bytes) -> None:
        """Write it, whole or not at all."""


@dataclass(frozen=True)
class FileChunk:
    """A chunk in a folder, written `within` that of its run, if it has one."""

    path: Path
    within: Path | None = None

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
        try:
            self.path.parent.mkdir(parents=self.within is None, exist_ok=True)
            with written_whole(self.path, synced=False, within=self.within) as file:
                file.write(values.data)
                file.write(checksum)
        except FileNotFoundError as error:
            raise DataError(
                f"{self.path} belongs to a store that was removed or begun anew since (got no folder "
                f"{self.within}, expected that of its run); fit again"
            ) from error


@dataclass(frozen=True)
class ObjectChunk:
    """A chunk in an object store, in one put, of a `run`, if that has a name."""

    address: Address
    run: str | None = None

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
        try:
            with told_of(self.address):
                found = obstore.get(objects.opened(self.address), self.address.key)
                if found.meta["size"] != n_bytes or not self._is_own(found.attributes):
                    return None
                content = buffer.of(n_bytes)
                for piece in found:
                    content.data[n_read : n_read + len(piece)] = memoryview(piece)
                    n_read += len(piece)
        except FileNotFoundError:
            return None
        return content if n_read == n_bytes else None

    def write(self, values: Array, checksum: bytes) -> None:
        """See `Chunk`."""
        import obstore

        content = b"".join((values.data.cast("B"), checksum))
        own = {} if self.run is None else {RUN: self.run}
        with told_of(self.address):
            obstore.put(
                objects.opened(self.address), self.address.key, content, attributes=own, use_multipart=False
            )

    def _is_own(self, attributes: Mapping[str, Any]) -> bool:
        return self.run in (None, attributes.get(RUN, self.run))


def chunk_of(tiles: zarr.Array[Any], tile: Tile) -> Chunk | None:
    """The place of a chunk, in Zarr's default layout; None in a store that has neither files nor objects."""
    store, run = tiles.store_path.store, tiles.attrs.get(RUN)
    key = f"{tiles.store_path.path}/c/{tile[0]}/{tile[1]}".removeprefix("/")
    if isinstance(store, LocalStore):
        path = Path(store.root) / key
        return FileChunk(path, None if run is None else _under_way(path.parents[2], run))
    if isinstance(store, BucketStore):
        return ObjectChunk(replace(store.address, key=key), None if run is None else str(run))
    return None


def taken(tiles: zarr.Array[Any], run: str) -> zarr.Array[Any]:
    """The same array, of which chunks are written by `run` alone from now on."""
    store = tiles.store_path.store
    if isinstance(store, LocalStore):
        folder = Path(store.root) / tiles.store_path.path
        for path in (folder / "c", _under_way(folder, run)):
            path.mkdir(exist_ok=True)
    return tiles if tiles.attrs.get(RUN) == run else tiles.update_attributes({RUN: run})


def _under_way(folder: Path, run: Any) -> Path:
    """Where an array's files are until they are whole."""
    return folder / f"{RUN}-{run}"


def _filled(file: FileIO, content: Array) -> int:
    """Read until `content` is full or the file ends; a single call may bring less."""
    view, n_read = content.data, 0
    while n_more := file.readinto(view[n_read:]):
        n_read += n_more
    return n_read
