"""Zarr's store over a bucket: pickled by address, opened once in a process, with errors of this package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest
from zarr.storage import ObjectStore

from kpca_stream.addresses import Address
from kpca_stream.storage import objects
from kpca_stream.storage.outage import told_of


class BucketStore(ObjectStore[Any]):
    """The bucket of an address; what lies there has the key of the address as its path.

    Parameters
    ----------
    address : Address
    read_only : bool
    """

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        super().__init__(objects.opened(address), read_only=read_only)

    def with_read_only(self, read_only: bool = False) -> BucketStore:  # noqa: FBT001, FBT002 - Zarr's
        """The same bucket, to be written to or not."""
        return BucketStore(self.address, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BucketStore)
            and replace(self.address, key="") == replace(other.address, key="")
            and self.read_only == other.read_only
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(replace(self.address, key=""))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.address, self.read_only)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """See Zarr's."""
        with told_of(replace(self.address, key=key)):
            return await super().get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """See Zarr's."""
        with told_of(self.address):
            return await super().get_partial_values(prototype, key_ranges)

    async def exists(self, key: str) -> bool:
        """See Zarr's."""
        with told_of(replace(self.address, key=key)):
            return await super().exists(key)

    async def set(self, key: str, value: Buffer) -> None:
        """See Zarr's."""
        with told_of(replace(self.address, key=key)):
            await super().set(key, value)

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        """See Zarr's."""
        with told_of(self.address):
            async for name in super().list_dir(prefix):
                yield name


def _opened(address: Address, read_only: bool) -> BucketStore:  # noqa: FBT001 - what pickle calls
    return BucketStore(address, read_only=read_only)
