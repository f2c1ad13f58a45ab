"""Rows to train on or to score: open, cut, cast, read in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import Address, Location, located
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.parameters import nearest
from kpca_stream.storage.located import is_file, is_there
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.sources.arrays import (
    ArrayTable,
    open_npy,
    open_sklearn,
    open_zarr,
    zarr_table,
)
from kpca_stream.storage.sources.arrowfile import open_arrow
from kpca_stream.storage.sources.delimited import open_csv
from kpca_stream.storage.sources.folder import folder_table, members
from kpca_stream.storage.sources.hdf5 import SEPARATOR, open_hdf5
from kpca_stream.storage.sources.parquet import open_parquet
from kpca_stream.storage.sources.selection import label_columns, picked_columns, row_range
from kpca_stream.storage.sources.table import BLOCK_BYTES, Table, common_float_type, even_blocks, steps

__all__ = ["BLOCK_BYTES", "Part", "Source", "open_source"]

_OPENERS: dict[str, Callable[[str, Location], Table]] = {
    "npy": open_npy,
    "zarr": open_zarr,
    "parquet": open_parquet,
    "csv": open_csv,
    "arrow": open_arrow,
    "hdf5": open_hdf5,
}
_OTHER_ENDS = {"feather": "arrow", "h5": "hdf5"}
_EXPECTED = ".npy, .zarr, .parquet, .csv, .arrow, .feather, .h5 or .hdf5"
ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")


@dataclass(frozen=True)
class Part:
    """Rows ``start`` to ``stop`` of a source that are scored as one; none reaches over two files.

    `identity` changes when the file, or the rows of it that are meant, do.
    """

    name: str
    start: int
    stop: int
    identity: str


@dataclass(frozen=True, eq=False)
class Source:
    """Some rows and columns of a table, cast to floats: a picklable value that holds no open file.

    Parameters
    ----------
    table : Table
        Where the rows come from.
    start, stop : int
        Rows of the table that belong to the source.
    picked : tuple of int
        Positions of the columns, in the order that was asked for.
    chosen : bool
        Whether somebody asked for these columns, rather than for all that hold numbers.
    """

    table: Table
    start: int
    stop: int
    picked: tuple[int, ...]
    chosen: bool = True

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.table.name

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def n_features(self) -> int:
        """Number of selected columns."""
        return len(self.picked)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the selected columns; their positions where the format has no names."""
        return tuple(self.table.columns[position].name for position in self.picked)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of columns that hold no numbers, where all others are taken unasked."""
        return () if self.chosen else tuple(each.name for each in self.table.columns if each.dtype is None)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of the blocks: float32 where it holds every value, else float64."""
        return common_float_type(self._types())

    @cached_property
    def original_dtype(self) -> np.dtype[Any]:
        """Common type of the selected columns before the cast."""
        return np.result_type(*set(self._types()))

    @property
    def span(self) -> int:
        """Rows that are best read in one go."""
        return self.table.span

    @property
    def reading_bytes(self) -> int:
        """Upper estimate of the memory of one reader of `blocks`: all that it holds, two blocks included."""
        row_bytes = 8 * len(self.table.columns)
        return 3 * max(BLOCK_BYTES, row_bytes) + self.table.reading_bytes(self.picked)

    def blocks(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Yield rows ``start`` to ``stop`` in order.

        Parameters
        ----------
        start, stop : int
            Rows of this source, from 0 to `n_samples`.

        Yields
        ------
        ndarray of shape (block_rows(n_features), n_features)
            C-contiguous, of type `dtype`, not to be written to; the last one may be lower.

        Raises
        ------
        DataError
            For text, ragged or damaged rows, with their place.
        """
        pieces = self.table.read(self.start + start, self.start + stop, self.picked)
        return even_blocks(pieces, stop - start, self.n_features, self.dtype, name=self.name)

    def carried(self, start: int, stop: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows ``start`` to ``stop`` of columns of any type, by their names, in pieces of any height."""
        picked = dict(zip(names, label_columns(self.table, names), strict=True))
        return self.table.carried(self.start + start, self.start + stop, picked)

    def locate(self, row: int) -> str:
        """Name of a row for messages: file and 0-based data row in it."""
        return self.table.locate(self.start + row)

    def rows(self) -> Rows | None:
        """A handle of the rows where they lie, if all columns are used and nothing need be cast."""
        if self.picked != tuple(range(len(self.table.columns))):
            return None
        return self.table.rows(self.start, self.stop)

    def part(self, start: int, stop: int) -> Source:
        """Only rows ``start`` to ``stop``: pickles no more of the table than these need."""
        table, first = self.table.narrow(self.start + start, self.start + stop)
        return replace(self, table=table, start=first, stop=first + stop - start)

    def parts(self, part_rows: int | None = None) -> list[Part]:
        """Parts to score one by one: the files of a folder, cut to `part_rows` rows where given."""
        return [
            Part(name, a - self.start, b - self.start, identity)
            for piece in self.table.pieces()
            for a, b in steps(max(piece.start, self.start), min(piece.stop, self.stop), part_rows or 2**62)
            for name, identity in [piece.label(a, b)]
        ]

    def _types(self) -> list[np.dtype[Any]]:
        types = (self.table.columns[position].dtype for position in self.picked)
        return [dtype for dtype in types if dtype is not None]


def open_source(
    path: str | Path | NDArray[Any] | zarr.Array[Any],
    *,
    rows: str | None = None,
    columns: Sequence[str | int] | None = None,
) -> Source:
    """Open rows without reading them (a CSV file is scanned once for the places of its rows).

    Files that appear in a folder afterwards are not seen; one that is changed is refused when it is read.

    Parameters
    ----------
    path : str, Path, ndarray or zarr.Array
        A ``.npy``, ``.zarr``, ``.parquet``, ``.csv``, ``.arrow``, ``.feather`` (version 2), ``.h5`` or
        ``.hdf5`` file, a folder of files of one of these kinds, ``"sklearn:NAME"``, or a matrix.
        ``"file.h5::group/name"`` chooses one of several datasets; so does ``"folder::group/name"``. All but
        ``sklearn:`` and matrices may lie in a bucket: ``"s3://bucket/folder"``.
    rows : str, optional
        A slice ``"start:stop"`` as in Python; either side may be left out or negative.
    columns : sequence of str or int, optional
        Names or positions; by default all that hold numbers.

    Raises
    ------
    ConfigError
        For a missing file, an unknown kind, a column that does not exist, a slice without rows.
    DataError
        For a file that is empty, damaged, ragged, or holds no numbers where some are asked.
    """
    table = _open_table(path)
    start, stop = row_range(table, rows)
    return Source(table, start, stop, picked_columns(table, columns), chosen=columns is not None)


def _open_table(path: str | Path | NDArray[Any] | zarr.Array[Any]) -> Table:
    if isinstance(path, np.ndarray):
        return ArrayTable("array", path)
    if isinstance(path, zarr.Array):
        return zarr_table(str(path.store_path), path)
    if isinstance(path, str) and path.startswith("sklearn:"):
        return open_sklearn(path.removeprefix("sklearn:"))
    if not isinstance(path, str | Path):
        raise DataError(f"got data of type {type(path).__name__}, expected a path or a NumPy or Zarr array")
    return _open_path(located(path))


def _open_path(path: Location, dataset: str | None = None) -> Table:
    if dataset is None and not _exists(path):
        text, separator, dataset = str(path).partition(SEPARATOR)
        if not (separator and dataset and _exists(located(text))):
            raise ConfigError(f"{path}: no such file or folder, expected data there; {_remedy(path)}")
        return _open_path(located(text), dataset)
    if _is_folder_of_files(path):
        files = members(path, _kind, _EXPECTED)
        return folder_table(str(path), tuple(_open_file(file, dataset) for file in files))
    return _open_file(path, dataset)


def _remedy(path: Location) -> str:
    is_elsewhere = isinstance(path, Path) and path.parts[0].endswith(":")  # http:, of which a slash is lost
    return "of a bucket an address such as s3://bucket/rows" if is_elsewhere else "correct the path"


def _is_folder_of_files(path: Location) -> bool:
    if isinstance(path, Path):
        return path.is_dir() and not is_array_folder(path)
    return not is_file(path) and not is_array_folder(path)


def _exists(path: Location) -> bool:
    try:
        return is_there(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened ({error.strerror}); correct the path") from error


def _open_file(path: Location, dataset: str | None) -> Table:
    kind = _kind(path)
    if isinstance(path, Path) and not (path.is_dir() if kind == "zarr" else path.is_file()):
        found = "folder" if path.is_dir() else "file" if path.is_file() else "thing that is neither"
        raise DataError(f"{path}: got a {found}, expected {kind} data there; correct the path")
    if dataset is not None:
        if kind != "hdf5":
            raise ConfigError(f"{path}: got {dataset!r} behind {SEPARATOR}, expected it for HDF5 files only")
        return open_hdf5(str(path), _absolute(path), dataset)
    return _OPENERS[kind](str(path), _absolute(path))


def _absolute(path: Location) -> Location:
    return path.absolute() if isinstance(path, Path) else path


def _kind(path: Location) -> str:
    if isinstance(path, Path) and path.is_dir() and is_array_folder(path):
        return "zarr"
    end = path.suffix.removeprefix(".").lower()
    kind = _OTHER_ENDS.get(end, end)
    if kind not in _OPENERS and isinstance(path, Address) and is_array_folder(path):
        return "zarr"
    if kind not in _OPENERS:
        close = nearest(end, [*_OPENERS, *_OTHER_ENDS])
        hint = f"did you mean .{close}? " if close else ""
        raise ConfigError(
            f"{path}: unknown kind of file, got {path.suffix or 'no extension'!r}, "
            f"{hint}expected {_EXPECTED}; convert the file"
        )
    return kind


def is_array_folder(path: Location) -> bool:
    """Whether a folder is a Zarr array or group rather than one of files."""
    return path.suffix.lower() == ".zarr" or any(is_file(path / mark) for mark in ZARR_MARKS)
