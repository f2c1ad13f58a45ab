"""Tables in datasets of HDF5 files."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.parameters import nearest
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.object_stamp import ObjectStamp
from kpca_stream.storage.sources.arrays import pick
from kpca_stream.storage.sources.table import (
    Column,
    FileTable,
    aligned_rows,
    check_array,
    numbered,
    stamped,
    steps,
)
from kpca_stream.storage.stamp import FileStamp

SEPARATOR = "::"
_CACHE_BYTES = 8 * 2**20
_REMEDY = "restore the file or write it again"


@dataclass(frozen=True)
class Hdf5Table(FileTable):
    """A two-dimensional dataset; `chunk_rows` is the height of its chunks, 1 where it has none."""

    dataset: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_rows: int

    @property
    def short_name(self) -> str:
        """The file's name without folders, and the dataset's where one was chosen."""
        path, separator, dataset = self.name.partition(SEPARATOR)
        return f"{Path(path).name}{separator}{dataset}"

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.shape[0]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Positions."""
        return numbered(self.shape[1], self.dtype)

    def reading_bytes(self, picked: tuple[int, ...]) -> int:  # noqa: ARG002 - chunks hold all columns
        """The rows of chunks that are read at once, the chunks that are decoded, and HDF5's own cache."""
        return self._height() * self.shape[1] * self.dtype.itemsize + 2 * self._chunk_bytes() + _CACHE_BYTES

    def _height(self) -> int:
        return aligned_rows(self.chunk_rows, self.shape[1], self._chunk_bytes())

    def _chunk_bytes(self) -> int:
        return self.chunk_rows * self.shape[1] * self.dtype.itemsize

    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Read whole rows of chunks, so that none is decoded twice unless it is very large."""
        height = self._height()
        library = _library(self.name)
        problem = f"{self.name}, rows {start} to {stop - 1}: cannot be read"
        with told_as(problem, _REMEDY), _open(library, self.file) as file:
            dataset = file[self.dataset]
            for a, b in steps(start - start % height, stop, height):
                yield pick(dataset[max(a, start) : b], picked)


def open_hdf5(name: str, path: Location, dataset: str | None = None) -> Hdf5Table:
    """Read the layout of a dataset of an HDF5 file.

    Parameters
    ----------
    name : str
        How messages name the file.
    path : Path or Address
        The file.
    dataset : str, optional
        Its name in the file, such as ``group/x``; by default the only matrix of numbers there.

    Raises
    ------
    ConfigError
        If h5py is not installed, or there is no such dataset.
    DataError
        If it is no HDF5 file, holds other than one matrix of numbers and none was chosen, or keeps the
        values of the dataset in other files.
    """
    library = _library(name)
    stamp = stamped(name if dataset is None else f"{name}{SEPARATOR}{dataset}", path)
    with told_as(f"{name}: not a whole HDF5 file", _REMEDY), _open(library, stamp) as file:
        return _table(stamp, _chosen(library, name, file, dataset))


def _library(name: str) -> ModuleType:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise ConfigError(
            f"{name}: HDF5 files need h5py, which is not installed; pip install 'kpca-stream[hdf5]'"
        ) from error


def _open(library: ModuleType, stamp: FileStamp | ObjectStamp) -> Any:
    if isinstance(stamp, FileStamp):
        return library.File(stamp.path, "r")
    try:
        return library.File(stamp.open(), "r")
    except Exception as error:
        # What h5py's frames hold would call Python when the process ends, and crash where that has ended.
        traceback.clear_frames(error.__traceback__)
        raise


def _chosen(library: ModuleType, name: str, file: Any, asked: str | None) -> Any:
    found: dict[str, Any] = {}

    def note(key: str, node: Any) -> None:
        if isinstance(node, library.Dataset):
            found[key] = node

    file.visititems(note)  # follows no links to other files
    if asked is not None:
        if asked.strip("/") not in found:
            close = nearest(asked, found)
            hint = f"did you mean {close!r}?" if close else f"expected one of {', '.join(list(found)[:20])}"
            raise ConfigError(f"{name}: the file has no dataset {asked!r}, {hint}")
        return found[asked.strip("/")]
    matrices = [key for key, node in found.items() if node.ndim == 2 and node.dtype.kind in "biuf"]
    if len(matrices) != 1:
        held = f" ({', '.join(matrices[:20])})" if matrices else ""
        raise DataError(
            f"{name}: got {len(matrices)} two-dimensional datasets of numbers{held}, expected exactly one; "
            f"choose one as '{name}{SEPARATOR}dataset'"
        )
    return found[matrices[0]]


def _table(stamp: FileStamp | ObjectStamp, dataset: Any) -> Hdf5Table:
    if dataset.shape is None:
        raise DataError(f"{stamp.name}: got a dataset without a shape, expected rows and columns")
    check_array(stamp.name, dataset.shape, dataset.dtype)
    if dataset.is_virtual or dataset.external:
        raise DataError(
            f"{stamp.name}: got a dataset whose values lie in other files, expected them in this one; "
            "copy it to a dataset of its own"
        )
    _check_written(stamp.name, dataset)
    chunk_rows = dataset.chunks[0] if dataset.chunks else 1
    return Hdf5Table(stamp, dataset.name, dataset.shape, dataset.dtype, chunk_rows)


def _check_written(name: str, dataset: Any) -> None:
    """Refuse what was never written, which HDF5 reads as zeros."""
    if dataset.chunks is None:
        n_written, n_all = dataset.id.get_storage_size(), dataset.size * dataset.dtype.itemsize
        unit = "bytes"
    else:
        grid = (-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        n_written, n_all = dataset.id.get_num_chunks(), math.prod(grid)
        unit = "chunks"
    if n_written < n_all:
        raise DataError(
            f"{name}: got a dataset of which {n_written} of {n_all} {unit} are written, expected all; "
            "write the rest, or cut the dataset to the rows that are there"
        )
