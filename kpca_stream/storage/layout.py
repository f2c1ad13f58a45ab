"""The run's store: every stored array's name, type and dimensions; create, open, commit.

A Zarr v3 group on a local or shared file system::

    rows         (n, d)   the checked, cast rows, where the source cannot be read in place
    tiles        (n, n)   k'(x_i, x_j), one chunk a tile, only i ≤ j; fill value NaN
    row_means    (n,)     float64
    diagonal     (n,)     float64
    checkpoints/          products of passes and sums under way
    vectors.npy           the block that the current pass multiplies
    lock

Its attributes name the data, the kernel and all else that the stored values depend on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import DTypeLike, NDArray
from zarr.codecs import BytesCodec, Crc32cCodec

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.storage.checkpoint import Checkpoints
from kpca_stream.storage.rows import NpyRows, Rows, ZarrRows

Array = NDArray[Any]

FORMAT_VERSION = 1
LEFTOVER_SECONDS = 86400.0
TILE_KEY = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, eq=False)
class RunStore:
    """An open store of one run."""

    path: Path
    group: zarr.Group

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
        cls.check(path)
        path = path.absolute()  # tasks carry it to workers that may stand elsewhere
        path.mkdir(parents=True, exist_ok=True)
        try:
            store = cls(path, zarr.open_group(path, mode="a", zarr_format=3))
            other = not store.identity and set(store.group.attrs)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}/zarr.json is damaged ({error}); restore it from a copy, or remove the store"
            ) from error
        if other:
            raise ConfigError(
                f"{path} is another Zarr group than a run's store; choose a new path as gram.path"
            )
        return store

    @staticmethod
    def check(path: Path) -> None:
        """Refuse a path where something other than a run's store is."""
        if not path.exists() or (path / "zarr.json").exists():
            return
        if path.is_file() or any(entry.name != "lock" for entry in path.iterdir()):
            raise ConfigError(
                f"{path} is not a run's store (it has no zarr.json); choose a new path as gram.path"
            )

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of this run."""
        return Checkpoints(self.path / "checkpoints")

    @property
    def identity(self) -> dict[str, Any]:
        """What the stored values depend on; empty in a new store."""
        identity = self.group.attrs.get("identity", {})
        return dict(identity) if isinstance(identity, dict) else {}

    def claim(self, identity: dict[str, Any]) -> None:
        """Make this the store of `identity`, or check that it is.

        Raises
        ------
        DataError
            If the store belongs to other data, another kernel or another plan; says what differs.
        """
        identity = json.loads(json.dumps({"format_version": FORMAT_VERSION, **identity}))
        held = self.identity
        if not held and (self.path / "tiles").exists():
            raise DataError(
                f"{self.path} has tiles, but does not say of which data and kernel; remove the store"
            )
        if held:
            self.refuse_other(identity, held.keys() | identity.keys())
        else:
            self.group.attrs["identity"] = identity

    def refuse_other(self, identity: dict[str, Any], keys: Iterable[str]) -> None:
        """Check that a store in use has this identity, as far as `keys` go.

        Raises
        ------
        DataError
            If not; says what differs.
        """
        held = self.identity
        differences = [
            f"{key}: {held.get(key)!r} there, {identity.get(key)!r} now"
            for key in sorted(keys)
            if held and held.get(key) != identity.get(key)
        ]
        if differences:
            raise DataError(
                f"{self.path} holds another run ({'; '.join(differences)}); choose another gram.path, or "
                "remove the store"
            )

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
        array = self.group.get("tiles")
        if not isinstance(array, zarr.Array):
            array = create_array(
                self.group,
                "tiles",
                (n_samples, n_samples),
                (tile_rows, tile_rows),
                dtype,
                dimensions=("row", "column"),
            )
        held, asked = (array.shape[0], array.chunks[0], array.dtype), (n_samples, tile_rows, np.dtype(dtype))
        if held != asked:
            raise DataError(
                f"{self.path} holds tiles of (rows, tile_rows, type) {held}, asked for {asked}; "
                "remove the store"
            )
        return array

    def present_tiles(self) -> set[tuple[int, int]]:
        """The tiles that are there, by listing; sweeps what interrupted writes left."""
        found = set()
        folder = self.path / "tiles" / "c"
        for file in folder.glob("*/*"):
            if file.suffix == ".partial":
                file.unlink(missing_ok=True)
            elif match := TILE_KEY.fullmatch(file.relative_to(folder).as_posix()):
                found.add((int(match[1]), int(match[2])))
        return found

    def publish_vectors(self, V: Array) -> Rows:
        """Write the block that a pass multiplies, (n, w), where every worker can read its part."""
        path = self.path / "vectors.npy"
        partial = path.with_suffix(".npy.partial")
        with partial.open("wb") as file:
            np.save(file, V, allow_pickle=False)
        partial.replace(path)
        return NpyRows.whole(path)

    def write_means(self, row_means: Array, diagonal: Array, *, grand_mean: float, trace: float) -> None:
        """Keep the means and the diagonal of K, its grand mean, and the trace of the centred matrix."""
        for name, values in (("row_means", row_means), ("diagonal", diagonal)):
            write_array(self.group, name, values, dimensions=("row",))
        self.group.attrs.update({"grand_mean": grand_mean, "trace": trace})

    def finish(self) -> None:
        """Remove what only a run under way needs."""
        self.checkpoints.clear()
        (self.path / "vectors.npy").unlink(missing_ok=True)


def read_tile(tiles: zarr.Array[Any], grid: TileGrid, tile: Tile) -> Array | None:
    """A stored tile, or None where it is missing or its checksum does not hold."""
    (a, b), (c, d) = (grid.rows(t) for t in tile)
    try:
        T = np.asarray(tiles[a:b, c:d])
    except (ValueError, RuntimeError):  # what Zarr's codecs raise for a cut or changed chunk
        return None
    return None if np.isnan(T[0, 0]) else T  # a missing tile reads as NaN, a kernel value never is


def create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: DTypeLike,
    *,
    dimensions: tuple[str, ...],
    fill_value: Any = np.nan,
) -> zarr.Array[Any]:
    """A new array with a checksum a chunk and no compression, which kernel values do not reward.

    A chunk that is not there reads as NaN, never as zeros.
    """
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=np.dtype(dtype),
        serializer=BytesCodec(endian="little"),
        compressors=[Crc32cCodec()],
        fill_value=fill_value,
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


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file whole or not at all."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def sweep_leftovers(folder: Path) -> None:
    """Remove what interrupted writes left in `folder`: hidden ``.partial`` entries untouched for a day."""
    for path in folder.glob(".*.partial"):
        with suppress(FileNotFoundError):  # another process sweeps too
            if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink()


def remove_tree(path: Path) -> None:
    """Remove a folder that may not be there."""
    if path.exists():
        shutil.rmtree(path)
