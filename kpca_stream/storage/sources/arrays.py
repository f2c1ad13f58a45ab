"""Tables in memory, in ``.npy`` files and in Zarr arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.parameters import nearest
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.located import address_of, open_node
from kpca_stream.storage.npy import npy_header
from kpca_stream.storage.object_stamp import ObjectStamp, ZarrObjectsStamp
from kpca_stream.storage.rows import ArrayRows, NpyRows, Rows, ZarrRows
from kpca_stream.storage.sources.table import (
    BLOCK_BYTES,
    LARGEST_CHUNK_BYTES,
    Column,
    FileTable,
    Piece,
    Whole,
    aligned_rows,
    block_rows,
    check_array,
    is_usable,
    numbered,
    stamped,
    steps,
)
from kpca_stream.storage.stamp import ZarrStamp, changed

SKLEARN_NAMES = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")


@dataclass(frozen=True, eq=False)
class ArrayTable(Whole):
    """Rows in memory; `first` is the position of row 0 in the array that it was cut from."""

    title: str
    array: NDArray[Any]
    labels: tuple[str, ...] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        """Check shape and type."""
        check_array(self.title, self.array.shape, self.array.dtype)

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.title

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return int(self.array.shape[0])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The given names, else positions."""
        if self.labels is None:
            return numbered(self.array.shape[1], self.array.dtype)
        return tuple(Column(label, self.array.dtype) for label in self.labels)

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Views, or copies of the `picked` columns."""
        for a, b in steps(start, stop, block_rows(self.array.shape[1])):
            yield pick(self.array[a:b], picked)

    def locate(self, row: int) -> str:
        """Name of a row for messages."""
        return f"{self.name}, row {self.first + row}"

    def rows(self, start: int, stop: int) -> Rows | None:
        """A view, where the array is contiguous and of a usable type."""
        part = self.array[start:stop]
        return ArrayRows(part) if is_usable(part.dtype) and part.flags.c_contiguous else None

    def narrow(self, start: int, stop: int) -> tuple[ArrayTable, int]:
        """A view, so that only these rows are pickled."""
        return ArrayTable(self.name, self.array[start:stop], self.labels, self.first + start), 0

    def pieces(self) -> tuple[Piece, ...]:
        """One piece."""
        return (Piece(self.name, "", 0, self.n_rows, self.first),)


def open_sklearn(name: str) -> ArrayTable:
    """A data set that comes with scikit-learn, by its name there.

    Raises
    ------
    ConfigError
        If there is no such set.
    """
    if name not in SKLEARN_NAMES:
        close = nearest(name, SKLEARN_NAMES)
        hint = f"did you mean {close!r}? " if close else ""
        raise ConfigError(
            f"unknown data set, got 'sklearn:{name}', {hint}expected one of {', '.join(SKLEARN_NAMES)}"
        )
    from sklearn import datasets  # half a second that files do not need

    bunch = getattr(datasets, f"load_{name}")()
    return ArrayTable(f"sklearn:{name}", bunch.data, tuple(str(label) for label in bunch.feature_names))


@dataclass(frozen=True)
class NpyTable(FileTable):
    """A two-dimensional ``.npy`` file."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    offset: int
    by_columns: bool

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.shape[0]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Positions."""
        return numbered(self.shape[1], self.dtype)

    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Read without a memory map, whose pages would count as used memory."""
        load = self._load_columns if self.by_columns else self._load_rows
        with self._opened() as file:
            for a, b in steps(start, stop, block_rows(self.shape[1])):
                yield load(file, a, b, picked)

    def _opened(self) -> BinaryIO:
        """What is read is asked for by exact ranges, of which an object needs no buffer."""
        return self.file.open(buffered=False) if isinstance(self.file, ObjectStamp) else self.file.open()

    def reading_bytes(self, picked: tuple[int, ...]) -> int:  # noqa: ARG002 - rows are read whole
        """Of an object the bytes that came, before they are put where they belong."""
        return 2 * BLOCK_BYTES if isinstance(self.file, ObjectStamp) else 0

    def _load_rows(self, file: BinaryIO, start: int, stop: int, picked: tuple[int, ...]) -> NDArray[Any]:
        width = self.shape[1]
        flat = self._values(file, start * width, (stop - start) * width)
        return pick(flat.reshape(stop - start, width), picked)

    def _load_columns(self, file: BinaryIO, start: int, stop: int, picked: tuple[int, ...]) -> NDArray[Any]:
        piece = np.empty((stop - start, len(picked)), self.dtype)
        for j, position in enumerate(picked):
            piece[:, j] = self._values(file, position * self.shape[0] + start, stop - start)
        return piece

    def _values(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        file.seek(self.offset + first * self.dtype.itemsize)
        values = np.empty(count, self.dtype)
        if file.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise changed(self.name, "is shorter")
        return values

    def rows(self, start: int, stop: int) -> Rows | None:
        """The file as it is, where it lies on disk row by row in a usable type."""
        if self.by_columns or not is_usable(self.dtype) or isinstance(self.file, ObjectStamp):
            return None
        return NpyRows(self.file, start, stop, self.shape[1], self.dtype, self.offset, self.shape[0])


def open_npy(name: str, path: Location) -> NpyTable:
    """Read the header of an ``.npy`` file.

    Raises
    ------
    DataError
        If it is no such file, cut short, or not a matrix of real numbers.
    """
    file = stamped(name, path)
    with (
        told_as(f"{name}: not a whole .npy file of numbers", "write it again with numpy.save"),
        file.open() as opened,
    ):
        shape, is_fortran, dtype = npy_header(opened)
        offset = opened.tell()
        if dtype.hasobject or min(shape, default=0) < 0:
            raise ValueError(f"got shape {shape} of {dtype}")
        if offset + math.prod(shape) * dtype.itemsize > file.size:
            raise ValueError(f"got {file.size} bytes for shape {shape} of {dtype}")
    check_array(name, shape, dtype)
    n_rows, n_columns = shape
    return NpyTable(file, (n_rows, n_columns), dtype, offset, by_columns=is_fortran and min(shape) > 1)


@dataclass(frozen=True, eq=False)
class ZarrTable(Whole):
    """A two-dimensional Zarr array; `written` is None where changes to it cannot be seen."""

    title: str
    array: zarr.Array[Any]
    written: ZarrStamp | ZarrObjectsStamp | None

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.title

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.array.shape[0]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Positions."""
        return numbered(self.array.shape[1], np.dtype(self.array.dtype))

    def reading_bytes(self, picked: tuple[int, ...]) -> int:  # noqa: ARG002 - chunks hold all columns
        """The rows of chunks that are read at once: as stored, decoded one by one, joined, and cut."""
        return 4 * self._height() * self.array.shape[1] * self.array.dtype.itemsize + 2 * self._chunk_bytes()

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Read whole rows of chunks, as long as they stay what they were."""
        height = self._height()
        for a, b in steps(start - start % height, stop, height):
            yield pick(self._load(max(a, start), b), picked)

    def _height(self) -> int:
        return aligned_rows(self.array.chunks[0], self.array.shape[1], self._chunk_bytes())

    def _chunk_bytes(self) -> int:
        return int(self.array.chunks[0] * self.array.shape[1] * self.array.dtype.itemsize)

    def _load(self, start: int, stop: int) -> NDArray[Any]:
        problem = f"{self.name}, rows {start} to {stop - 1}: cannot be read"
        try:
            with told_as(problem, "restore these chunks or write them again"):
                return np.asarray(self.array[start:stop])
        finally:
            self._check_unchanged(start, stop)  # a change explains every other fault

    def _check_unchanged(self, start: int, stop: int) -> None:
        if self.written is not None:
            self.written.check(start, stop)

    def rows(self, start: int, stop: int) -> Rows | None:
        """The array as it is, where it is on disk, its type usable and a row of chunks fits a few blocks."""
        if not is_usable(np.dtype(self.array.dtype)) or self._chunk_bytes() > LARGEST_CHUNK_BYTES:
            return None
        if isinstance(self.written, ZarrObjectsStamp):
            return None
        return ZarrRows(self.array, start, stop, self.written)

    def stamp(self) -> str:
        """Time of the last change; of objects a digest of their ETags."""
        return "" if self.written is None else self.written.text


def open_zarr(name: str, path: Location) -> ZarrTable:
    """Open a Zarr array, or the only matrix of a Zarr group.

    Raises
    ------
    DataError
        If there is none, or not exactly one.
    """
    with told_as(f"{name}: not a readable Zarr array", "name the array's own folder, or restore it"):
        node = open_node(path)
        matrices = [node] if isinstance(node, zarr.Array) else [a for _, a in node.arrays() if a.ndim == 2]
    if len(matrices) != 1:
        raise DataError(
            f"{name}: got a Zarr group with {len(matrices)} two-dimensional arrays, expected exactly one; "
            "name the array inside the group"
        )
    return zarr_table(name, matrices[0])


def zarr_table(name: str, array: zarr.Array[Any]) -> ZarrTable:
    """The table of an open array, after a check of shape and type."""
    check_array(name, array.shape, np.dtype(array.dtype))
    return ZarrTable(name, array, _stamp_of(name, array))


def _stamp_of(name: str, array: zarr.Array[Any]) -> ZarrStamp | ZarrObjectsStamp | None:
    bucket = address_of(array.store_path.store)
    return ZarrStamp.of(name, array) if bucket is None else ZarrObjectsStamp.of(name, array, bucket)


def pick(block: NDArray[Any], picked: tuple[int, ...]) -> NDArray[Any]:
    """Columns `picked` of a block; the block itself where these are all of its columns."""
    return block if picked == tuple(range(block.shape[1])) else block[:, list(picked)]
