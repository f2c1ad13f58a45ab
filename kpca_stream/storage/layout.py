"""The run's store: every stored array's name, type and dimensions; create, open, commit.

A Zarr v3 group on a local or shared file system::

    rows         (n, d)   the checked, cast rows, where the source cannot be read in place
    tiles        (n, n)   k'(x_i, x_j), one chunk a tile, only i ≤ j; fill value NaN; the attribute run
                          names the identity, tiles/run-... is where files of that run are until whole
    row_means    (n,)     float64
    diagonal     (n,)     float64
    weights      (n,)     float64, how often each row occurs; only where duplicates are merged
    checkpoints/          products of passes and sums under way
    vectors.npy           the block that the current pass multiplies
    landmarks.npy         the landmarks that it compares rows with
    lock

Its attributes name the data, the kernel and all else that the stored values depend on, with a digest, and the
fit that was begun last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import DTypeLike, NDArray

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage import intact, premises
from kpca_stream.storage.checkpoint import Checkpoints
from kpca_stream.storage.chunked import REMEDY, check_description, create_tiles, write_array
from kpca_stream.storage.chunks import taken
from kpca_stream.storage.damage import FAULTS, told_as
from kpca_stream.storage.naming import Named, attributes_of, versioned
from kpca_stream.storage.rows import NpyRows, Rows, ZarrRows
from kpca_stream.storage.tile_objects import TileObjects
from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]

TILE_KEY = re.compile(r"(\d+)/(\d+)")
TOLERANCE = {"float32": 1e-4, "float64": 1e-8}
"""Largest relative difference of what is computed again to what is stored."""


@dataclass(frozen=True, eq=False)
class RunStore:
    """An open store of one run.

    Parameters
    ----------
    path : Path
    group : zarr.Group
    fit : str, optional
        Names the fit that works here, so that it is known later whose checkpoints these are.
    objects : TileObjects, optional
        Where the tiles lie, if not here.
    """

    path: Path
    group: zarr.Group
    fit: str | None = None
    objects: TileObjects | None = None

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open the store at `path`, or create an empty one.

        Raises
        ------
        ConfigError
            If something else is there.
        DataError
            If its ``zarr.json`` is damaged.
        """
        premises.check(path)
        path = path.absolute()  # tasks carry it to workers that may stand elsewhere
        path.mkdir(parents=True, exist_ok=True)
        if not (path / "zarr.json").exists():
            return cls(path, zarr.create_group(path, zarr_format=3))
        with told_as(f"{path}/zarr.json is damaged", REMEDY):
            intact.check_folder(path)
            group = zarr.open_group(path, mode="a", zarr_format=3)
            others = premises.is_of_others(group)
        if others:
            raise ConfigError(
                f"{path} is another Zarr group than a run's store; choose a new path as gram.path"
            )
        return cls(path, group)

    def recorded(self) -> RunStore:
        """The same with its tiles in the bucket that the run wrote them to, if it did."""
        address = self.group.attrs.get("tiles")
        return (
            replace(self, objects=TileObjects(Address.parse(address))) if isinstance(address, str) else self
        )

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of this run."""
        return Checkpoints(self.path / "checkpoints")

    @property
    def named(self) -> Named:
        """Whose store this is."""
        return Named(self.group, str(self.path))

    @property
    def identity(self) -> dict[str, Any]:
        """What the stored values depend on; empty in a new store."""
        return self.named.identity

    def claim(self, identity: dict[str, Any]) -> None:
        """Make this the store of `identity`, or check that it is.

        Raises
        ------
        DataError
            If the store belongs to other data, another kernel or another plan; says what differs.
        """
        identity = versioned(identity)
        held = self.identity
        if not held and (self.path / "tiles").exists():
            raise DataError(f"{self.path} {premises.UNNAMED_TILES}")
        if held:
            self.named.refuse_other(identity, held.keys() | identity.keys())
        if not held or self.fit not in (None, self.named.fit):
            self.group.update_attributes(attributes_of(identity, self.fit))
        if not held:
            premises.forget(self.path)

    def check_attributes(self) -> str:
        """Check that the attributes are those that were written; returns what they name.

        Raises
        ------
        DataError
            If not.
        """
        return self.named.check()

    def refuse_other(self, identity: dict[str, Any], keys: Iterable[str]) -> None:
        """Check that a store in use has this identity, as far as `keys` go.

        Raises
        ------
        DataError
            If not; says what differs. Also if the attributes were changed.
        """
        self.named.refuse_other(identity, keys)

    def rows(self) -> Rows | None:
        """The address of the stored rows, if they are stored."""
        array = self.group.get("rows")
        return ZarrRows.whole(array) if isinstance(array, zarr.Array) else None

    def open_tiles(self, n_samples: int, tile_rows: int, dtype: DTypeLike) -> zarr.Array[Any]:
        """The array of tiles, created where it is not there.

        Raises
        ------
        DataError
            If tiles of another shape or type are there.
        """
        if self.objects is not None:
            self.group.attrs["tiles"] = str(self.objects.address)
        group = self.group if self.objects is None else self.objects.begun(self.identity)
        create = create_tiles if self.objects is None else self.objects.created
        run = self.named.run
        array = self._tiles_of(group) or create(group, n_samples, tile_rows, dtype, run)
        held, asked = (array.shape[0], array.chunks[0], array.dtype), (n_samples, tile_rows, np.dtype(dtype))
        if held != asked:
            raise DataError(
                f"{array.store_path} holds tiles of (rows, tile_rows, type) {held}, asked for {asked}; fit "
                "with --restart, or remove the store"
            )
        check_description(array)
        return taken(array, run)

    def tiles(self) -> zarr.Array[Any] | None:
        """The array of tiles as it is; None where there is none."""
        return self._tiles_of(self.group if self.objects is None else self.objects.found())

    def _tiles_of(self, group: zarr.Group) -> zarr.Array[Any] | None:
        with told_as(
            f"{self.objects.address if self.objects else self.path}/tiles/zarr.json is damaged", REMEDY
        ):
            array = group.get("tiles")
        return array if isinstance(array, zarr.Array) else None

    def present_tiles(self) -> set[tuple[int, int]]:
        """The tiles that are there, by listing."""
        if self.objects is not None:
            return self.objects.present()
        folder = self.path / "tiles" / "c"
        keys = (TILE_KEY.fullmatch(file.relative_to(folder).as_posix()) for file in folder.glob("*/*"))
        return {(int(key[1]), int(key[2])) for key in keys if key}

    def leftovers(self) -> list[Path]:
        """What interrupted writes left, or others are writing now."""
        return sorted(self.path.rglob(premises.PARTIAL))

    def sweep(self) -> list[Path]:
        """Remove what interrupted writes left, and name it; for the holder of the lock."""
        found = self.leftovers()
        for path in found:
            path.unlink(missing_ok=True)
        return found

    def publish(self, name: str, V: Array) -> Rows:
        """Write the "vectors" or the "landmarks" of a pass, (n, w), where every worker can read its part."""
        path = self.path / f"{name}.npy"
        V = np.ascontiguousarray(V)
        with written_whole(path) as file:
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(V))
            file.write(V.data)  # unlike `np.save`, it tells why it cannot write
        return NpyRows.whole(path)

    def check_means(self, row_means: Array) -> None:
        """Compare the row means of K with those that an earlier fit found in the same tiles, if one did.

        A tile's checksum does not tell in which place it belongs.

        Raises
        ------
        DataError
            If they differ by more than rounding.
        """
        tiles, held = self.tiles(), self._held_means()
        if tiles is None or held is None or held.shape != row_means.shape:
            return
        off, limit = float(np.abs(row_means - held).max()), TOLERANCE[str(tiles.dtype)]
        if off > limit * np.abs(held).max():
            raise DataError(
                f"{self.path}/tiles do not belong to the stored row means: off by {off:.1e}, expected at "
                f"most {limit:.0e} of the largest; tiles were swapped or replaced: fit with --restart"
            )

    def _held_means(self) -> Array | None:
        """Row means as an earlier fit left them; None where it left none, or they are damaged."""
        try:
            return self.values("row_means") if "row_means" in self.group else None
        except FAULTS:  # they are about to be written anew
            return None

    def values(self, name: str) -> Array:
        """An array of one number a row, read.

        Raises
        ------
        DataError
            If it is not whole, or none of this package's.
        """
        array = self.group[name]
        if not isinstance(array, zarr.Array):
            raise DataError(f"{self.path}/{name} is no array; {REMEDY}")
        intact.check_arrays(self.path, {name: array})
        return np.asarray(array[...])

    def write_means(
        self,
        row_means: Array,
        diagonal: Array,
        weights: Array | None = None,
        *,
        grand_mean: float,
        trace: float,
    ) -> None:
        """Keep the means and the diagonal of K, the weights, the grand mean, and the trace once centred."""
        for name, values in (("row_means", row_means), ("diagonal", diagonal), ("weights", weights)):
            if values is not None:
                write_array(self.group, name, values, dimensions=("row",))
        self.group.update_attributes({"grand_mean": grand_mean, "trace": trace})

    def finish(self) -> None:
        """Remove what only a run under way needs."""
        self.checkpoints.clear()
        for name in premises.PUBLISHED:
            (self.path / f"{name}.npy").unlink(missing_ok=True)

    def finish_after(self, fit: str) -> None:
        """Do so for a fit that was published and killed then, where it was the last that was begun here."""
        if self.named.fit == fit:
            self.finish()
