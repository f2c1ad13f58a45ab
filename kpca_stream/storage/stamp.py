"""What tells whether data on disk are still those that were opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import zarr
from zarr.storage import LocalStore

from kpca_stream.errors import DataError

_METADATA = ("zarr.json", ".zarray", ".zattrs")


@dataclass(frozen=True)
class FileStamp:
    """A file, with its size and its time of last change when it was opened."""

    name: str
    path: Path
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, name: str, path: Path) -> FileStamp:
        """The file at `path` as it is now, called `name` in messages."""
        status = path.stat()
        return cls(name, path, status.st_size, status.st_mtime_ns)

    @property
    def text(self) -> str:
        """Size and time, to put into an identity."""
        return f"{self.size}:{self.mtime_ns}"

    def open(self) -> BinaryIO:
        """The file, to be read."""
        return self.path.open("rb")

    def check(self) -> None:
        """See that the file is the same still.

        Raises
        ------
        DataError
            If size or time differ, or if it is gone.
        """
        try:
            with self.path.open("rb") as file:  # opening asks a network file system anew
                status = os.fstat(file.fileno())
        except OSError as error:
            raise changed(self.name, f"cannot be opened any more ({error.strerror})") from error
        if status.st_size != self.size:
            raise changed(self.name, f"has {status.st_size} bytes instead of {self.size}")
        if status.st_mtime_ns != self.mtime_ns:
            raise changed(self.name, "was written again")


@dataclass(frozen=True)
class ZarrStamp:
    """A Zarr array in a folder, with the time of its last change when it was opened.

    Zarr renames each chunk that it writes into place, which leaves the time in the chunk's folder. So the
    folders of some rows tell whether these changed, and no single chunk need be looked at. A program that
    writes into the chunk files themselves goes unnoticed.

    Parameters
    ----------
    name : str
        How messages name it.
    folder : Path
        Of the array.
    prefix : str or None
        Folder below it that has a folder for each row of chunks; None where all chunks lie in `folder`.
    chunk_rows : int
        Rows of a stored chunk, or of a shard.
    newest : int
        The last change of all, in nanoseconds.
    """

    name: str
    folder: Path
    prefix: str | None
    chunk_rows: int
    newest: int

    @classmethod
    def of(cls, name: str, array: zarr.Array[Any]) -> ZarrStamp | None:
        """The two-dimensional `array` as it is now; None where it is not in a local folder."""
        store = array.store_path.store
        if not isinstance(store, LocalStore):
            return None
        key = PurePosixPath(array.metadata.encode_chunk_key((0, 0))).parts
        prefix = "/".join(key[:-2]) if len(key) > 1 else None
        stored = array.shards or array.chunks
        stamp = cls(name, Path(store.root) / array.store_path.path, prefix, stored[0], 0)
        newest = max(map(_changed_ns, stamp._places(0, array.shape[0])))
        return cls(name, stamp.folder, prefix, stored[0], newest)

    @property
    def text(self) -> str:
        """The time, to put into an identity."""
        return str(self.newest)

    def check(self, start: int, stop: int) -> None:
        """See that rows ``start`` to ``stop`` are the same still.

        Raises
        ------
        DataError
            If one of their chunks, or the array's shape or type, was written later, or if it is gone.
        """
        if any(_changed_ns(place) > self.newest for place in self._places(start, stop)):
            raise changed(self.name, "was written again")
        if not self.folder.exists():
            raise changed(self.name, "is gone")

    def _places(self, start: int, stop: int) -> Iterator[Path]:
        yield self.folder
        for metadata in _METADATA:
            yield self.folder / metadata
        if self.prefix is not None:
            yield self.folder / self.prefix
            for index in range(start // self.chunk_rows, -(-stop // self.chunk_rows)):
                yield self.folder / self.prefix / str(index)


def _changed_ns(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


def changed(name: str, how: str) -> DataError:
    """The error for data that are no longer those that were opened."""
    return DataError(
        f"{name}: changed since it was opened: it {how}, expected it as it was; "
        "leave it alone while it is read, and start again"
    )
