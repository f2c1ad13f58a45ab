"""What tells whether objects in a bucket are still those that were opened, and files to read them by.

A stamp is the ETag and the size, never a time. Each request for bytes names the ETag, so that a reader gets
bytes of the object that was opened or an error, with no request beside.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import zarr

from kpca_stream.addresses import Address
from kpca_stream.errors import DataError, KpcaStreamError
from kpca_stream.storage import objects
from kpca_stream.storage.objects import Entry, Version
from kpca_stream.storage.stamp import changed

BUFFER_BYTES = 2**20


@dataclass(frozen=True)
class ObjectStamp:
    """An object, with its size and what it was when it was opened."""

    name: str
    address: Address
    size: int
    version: Version

    @classmethod
    def of(cls, name: str, address: Address) -> ObjectStamp:
        """The object at `address` as it is now, called `name` in messages.

        Raises
        ------
        DataError
            If there is none.
        """
        entry = objects.head(address)
        if entry is None:
            raise DataError(f"{name}: got no object at {address}, expected one; correct the address")
        return cls(name, address, entry.size, entry.version)

    @property
    def text(self) -> str:
        """Size and ETag, to put into an identity."""
        return f"{self.size}:{_text_of(self.version)}"

    def check(self) -> None:
        """Nothing: whoever reads bytes finds out."""

    def open(self, *, buffered: bool = True) -> BinaryIO:
        """The object as a file to read and seek in, of which a buffer is in memory.

        Where it is not `buffered`, each read is one request.
        """
        file = ObjectFile(self)
        return io.BufferedReader(file, BUFFER_BYTES) if buffered else file  # type: ignore[return-value]


class ObjectFile(io.RawIOBase):
    """Reads are requests for ranges of bytes."""

    def __init__(self, stamp: ObjectStamp) -> None:
        super().__init__()
        self.stamp = stamp
        self.at = 0
        self.failure: KpcaStreamError | None = None

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def tell(self) -> int:
        """See `io.RawIOBase`."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """See `io.RawIOBase`."""
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.stamp.size}[whence]
        return self.at

    def readinto(self, buffer: Any, /) -> int:
        """See `io.RawIOBase`."""
        view = memoryview(buffer).cast("B")
        stop = min(self.at + len(view), self.stamp.size)
        if stop <= self.at:
            return 0
        data = self._fetched(self.at, stop)
        view[: len(data)] = data
        self.at += len(data)
        return len(data)

    def _fetched(self, start: int, stop: int) -> bytes:
        try:
            data = objects.get_range(self.stamp.address, start, stop, version=self.stamp.version)
            if data is None:
                raise changed(self.stamp.name, "was written again or removed")
        except KpcaStreamError as error:
            self.failure = error
            raise
        return data

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around a library that tells of a request that failed as of bytes that are damaged."""
        earlier = self.failure
        try:
            yield
        except Exception as error:
            if self.failure is None or self.failure is earlier or isinstance(error, KpcaStreamError):
                raise
            raise self.failure from error


@dataclass(frozen=True)
class ZarrObjectsStamp:
    """A Zarr array in a bucket: digests of the ETags of its descriptions, and of each row of its chunks.

    Parameters
    ----------
    name : str
        How messages name it.
    address : Address
        Of the array.
    prefix : str or None
        What stands before the number of a row of chunks and a slash; None where keys are made otherwise.
    chunk_rows : int
        Rows of a stored chunk, or of a shard.
    digests : tuple of bytes
        Of each row of chunks in order; of all chunks where there is no prefix.
    described : bytes
        Of what lies beside the chunks.
    """

    name: str
    address: Address
    prefix: str | None
    chunk_rows: int
    digests: tuple[bytes, ...]
    described: bytes

    @classmethod
    def of(cls, name: str, array: zarr.Array[Any], bucket: Address) -> ZarrObjectsStamp:
        """The two-dimensional `array` as it is now."""
        key = PurePosixPath(array.metadata.encode_chunk_key((0, 0))).parts
        prefix = "/".join(key[:-2]) if len(key) > 1 else None
        stored = array.shards or array.chunks
        address = replace(bucket, key=array.store_path.path)
        n_chunk_rows = -(-array.shape[0] // stored[0])
        empty = cls(name, address, prefix, stored[0], (b"",) * n_chunk_rows, b"")
        by_row = defaultdict[int, list[Entry]](list)
        for entry in objects.tree(address):
            by_row[empty._row_of(entry.key)].append(entry)
        digests = tuple(_digest(by_row[row]) for row in range(1 if prefix is None else n_chunk_rows))
        return replace(empty, digests=digests, described=_digest(by_row[-1]))

    @property
    def text(self) -> str:
        """A digest of all, to put into an identity."""
        return hashlib.blake2b(b"".join((self.described, *self.digests)), digest_size=16).hexdigest()

    def check(self, start: int, stop: int) -> None:
        """See that rows ``start`` to ``stop`` are the same still.

        Raises
        ------
        DataError
            If one of their chunks was written later, or is gone.
        """
        if self.prefix is None:
            found = [entry for entry in objects.tree(self.address) if self._row_of(entry.key) == 0]
            self._compare(0, found)
            return
        for row in range(start // self.chunk_rows, -(-stop // self.chunk_rows)):
            below = "/".join(filter(None, (self.prefix, str(row))))
            entries = objects.tree(self.address / below)
            self._compare(row, [replace(entry, key=f"{below}/{entry.key}") for entry in entries])

    def _compare(self, row: int, entries: list[Entry]) -> None:
        if _digest(entries) != self.digests[row]:
            raise changed(self.name, "was written again")

    def _row_of(self, key: str) -> int:
        """The row of chunks that a key is of, 0 where all are one; −1 for a description."""
        if key.rpartition("/")[2] in ("zarr.json", ".zarray", ".zattrs", ".zmetadata", ".zgroup"):
            return -1
        if self.prefix is None:
            return 0
        row = key.removeprefix(f"{self.prefix}/" if self.prefix else "").partition("/")[0]
        return int(row) if row.isdecimal() else -1


def _digest(entries: list[Entry]) -> bytes:
    told = sorted(f"{entry.key}:{entry.size}:{_text_of(entry.version)}" for entry in entries)
    return hashlib.blake2b("\n".join(told).encode(), digest_size=8).digest()


def _text_of(version: Version) -> str:
    """An ETag, quoted as it comes, is never a number, as the time of a file would be."""
    return (version.etag or '""') if version.number is None else f"{version.etag}#{version.number}"
