"""Zarr's store over a bucket: pickled by address, opened once in a process, with errors of this package.

Requests are made by threads of Python's. Obstore's own asynchronous requests, which Zarr's ``ObjectStore``
makes, are told as done by threads of Rust: Python up to 3.13 ends a process by SIGABRT, and its exit code is
lost, where one of them still tells while the interpreter goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store

from kpca_stream.addresses import Address
from kpca_stream.signals import begun_apart
from kpca_stream.storage import objects

P = ParamSpec("P")
T = TypeVar("T")


class BucketStore(Store):
    """The bucket of an address; what lies there has the key of the address as its path.

    Parameters
    ----------
    address : Address
    read_only : bool
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        objects.opened(address)  # what hinders is told now
        self.address = address

    def with_read_only(self, read_only: bool = False) -> BucketStore:  # noqa: FBT001, FBT002 - Zarr's
        """The same bucket, to be written to or not."""
        return BucketStore(self.address, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BucketStore)
            and self._at("") == other._at("")
            and self.read_only == other.read_only
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self._at(""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (self.address, self.read_only)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """See Zarr's."""
        data = await _apart(_read, self._at(key), byte_range)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """See Zarr's."""
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    async def exists(self, key: str) -> bool:
        """See Zarr's."""
        return await _apart(objects.head, self._at(key)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """See Zarr's."""
        self._check_writable()
        await _apart(objects.put, self._at(key), value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """See Zarr's."""
        self._check_writable()
        await _apart(objects.put_if_absent, self._at(key), value.to_bytes())

    async def delete(self, key: str) -> None:
        """See Zarr's."""
        self._check_writable()
        await _apart(objects.delete, self._at(key))

    async def list(self) -> AsyncGenerator[str, None]:
        """See Zarr's."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        """See Zarr's."""
        below = self._at(prefix)
        for entry in await _apart(lambda: list(objects.tree(below))):
            yield (below / entry.key).key

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        """See Zarr's."""
        for name in await _apart(objects.names, self._at(prefix)):
            yield name

    def _at(self, key: str) -> Address:
        return replace(self.address, key=key.rstrip("/"))


async def _apart(function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    return await asyncio.wrap_future(begun_apart(function, *arguments, **keywords))


def _read(address: Address, part: ByteRequest | None) -> bytes | None:
    """All bytes of an object, or a part of them; None where there is none."""
    if part is None:
        found = objects.get(address, most_bytes=None)
        return None if found is None else found.data
    if isinstance(part, RangeByteRequest):
        return objects.get_range(address, part.start, part.end)
    entry = objects.head(address)
    if entry is None:
        return None
    start = part.offset if isinstance(part, OffsetByteRequest) else max(0, entry.size - part.suffix)
    return objects.get_range(address, start, entry.size, version=entry.version)


def _opened(address: Address, read_only: bool) -> BucketStore:  # noqa: FBT001 - what pickle calls
    return BucketStore(address, read_only=read_only)
