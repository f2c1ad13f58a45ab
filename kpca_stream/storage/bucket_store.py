"""A bucket as a store of Zarr's that goes to workers as its address: each process opens it once."""

from __future__ import annotations

from typing import Any, Self

from zarr.storage import ObjectStore

from kpca_stream.addresses import Address
from kpca_stream.storage.objects import opened


class BucketStore(ObjectStore[Any]):
    """The bucket of an address, whose key is the path in it.

    Parameters
    ----------
    address : Address
    read_only : bool
    """

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        super().__init__(opened(address), read_only=read_only)
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return _bucket_store, (self.address, self.read_only)

    def with_read_only(self, read_only: bool = False) -> Self:  # noqa: FBT001, FBT002 - the store's signature
        """The same store, which may be written to or not."""
        return type(self)(self.address, read_only=read_only)


def _bucket_store(address: Address, read_only: bool) -> BucketStore:  # noqa: FBT001 - called by unpickling
    return BucketStore(address, read_only=read_only)
