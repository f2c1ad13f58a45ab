"""Tiles in a bucket: one object each, whole puts, below a group that says whose they are.

::

    s3://bucket/g.zarr/zarr.json         the identity of the run, with a digest
    s3://bucket/g.zarr/tiles/zarr.json   what a tile is, and of which run
    s3://bucket/g.zarr/tiles/c/0/1       a tile, as Zarr would write it; its metadata tell of which run

Both descriptions are put if they are absent: of two runs that begin at once one names the group, and the
other one finds it named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.storage import MemoryStore

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.bucket_store import BucketStore
from kpca_stream.storage.chunked import REMEDY, create_tiles
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.naming import Named, attributes_of
from kpca_stream.storage.objects import delete_tree, names, put_if_absent, tree
from kpca_stream.storage.outage import told_of
from kpca_stream.storage.premises import UNNAMED_TILES

_DESCRIPTION = "zarr.json"
_TILE = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class TileObjects:
    """Where a run's tiles lie.

    Parameters
    ----------
    address : Address
    restart : bool
        Whether what is there is removed when the run has begun.
    """

    address: Address
    restart: bool = False

    def begun(self, identity: dict[str, Any]) -> zarr.Group:
        """The group of the tiles of this run.

        Raises
        ------
        ConfigError
            If something else is there.
        DataError
            If there are those of another run, or the description is damaged.
        """
        self._refuse_others()
        if self.restart:
            delete_tree(self.address, last=(_DESCRIPTION,))
        store: dict[str, Any] = {}
        zarr.create_group(MemoryStore(store), zarr_format=3, attributes=attributes_of(identity))
        put_if_absent(self.address / _DESCRIPTION, store[_DESCRIPTION].to_bytes())
        with told_of(self.address), told_as(f"{self.address}/{_DESCRIPTION} is damaged", REMEDY):
            group = zarr.open_group(
                BucketStore(self.address), path=self.address.key, mode="r+", zarr_format=3
            )
        named = Named(group, str(self.address))
        if not named.identity:
            raise ConfigError(f"{self.address} is another Zarr group than a run's; choose a new gram.path")
        named.refuse_other(identity, named.identity.keys() | identity.keys())
        return group

    def found(self) -> zarr.Group:
        """The group as it is, to look at."""
        with told_of(self.address), told_as(f"{self.address}/{_DESCRIPTION} is damaged", REMEDY):
            return zarr.open_group(BucketStore(self.address, read_only=True), path=self.address.key, mode="r")

    def _refuse_others(self) -> None:
        found = names(self.address)
        others = [name for name in found if name not in (_DESCRIPTION, "tiles")]
        if others:
            raise ConfigError(
                f"{self.address} holds other objects than a run's tiles, the first {others[0]}; choose a new "
                "address as gram.path"
            )
        if "tiles" in found and _DESCRIPTION not in found and not self.restart:
            raise DataError(f"{self.address} {UNNAMED_TILES}")

    def created(
        self, group: zarr.Group, n_samples: int, tile_rows: int, dtype: Any, run: str
    ) -> zarr.Array[Any]:
        """The array of tiles in `group`, described here unless it is already."""
        store: dict[str, Any] = {}
        create_tiles(zarr.create_group(MemoryStore(store), zarr_format=3), n_samples, tile_rows, dtype, run)
        key = f"tiles/{_DESCRIPTION}"
        put_if_absent(self.address / key, store[key].to_bytes())
        with told_of(self.address):
            array = group["tiles"]
        if not isinstance(array, zarr.Array):
            raise DataError(f"{self.address}/tiles is no array; {REMEDY}")
        return array

    def present(self) -> set[tuple[int, int]]:
        """The tiles that are there, by listing."""
        keys = (_TILE.fullmatch(entry.key) for entry in tree(self.address / "tiles/c"))
        return {(int(key[1]), int(key[2])) for key in keys if key}
