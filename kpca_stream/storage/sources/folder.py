"""A folder of files of one kind, read as one table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import DataError
from kpca_stream.storage.located import names_in
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.sources.table import Column, Picked, Piece, Table

_IGNORED_STARTS = (".", "_")
_IGNORED_ENDS = (".tmp", ".partial", ".part", ".filepart", ".crdownload")


@dataclass(frozen=True, eq=False)
class FolderTable:
    """Tables with the same columns, one after the other."""

    name: str
    tables: tuple[Table, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First row of each table, and the number of rows."""
        return (0, *accumulate(table.n_rows for table in self.tables))

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.offsets[-1]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those of the first table, with types that hold the values of all."""
        by_position = zip(*(table.columns for table in self.tables), strict=True)
        return tuple(Column(same[0].name, _common_type(same)) for same in by_position)

    @property
    def span(self) -> int:
        """The largest of the tables' own."""
        return max(table.span for table in self.tables)

    def reading_bytes(self, picked: tuple[int, ...]) -> int:
        """The largest of the tables' own."""
        return max(table.reading_bytes(picked) for table in self.tables)

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """The rows of each table in turn."""
        for table, a, b in self._cut(start, stop):
            yield from table.read(a, b, picked)

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same rows of columns of any type."""
        for table, a, b in self._cut(start, stop):
            yield from table.carried(a, b, picked)

    def _cut(self, start: int, stop: int) -> Iterator[tuple[Table, int, int]]:
        for table, offset in zip(self.tables, self.offsets, strict=False):
            a, b = max(start - offset, 0), min(stop - offset, table.n_rows)
            if a < b:
                yield table, a, b

    def locate(self, row: int) -> str:
        """Name of a row for messages."""
        index = bisect_right(self.offsets, row) - 1
        return self.tables[index].locate(row - self.offsets[index])

    def rows(self, start: int, stop: int) -> Rows | None:  # noqa: ARG002 - no rows lie in place
        """None: rows of several files have no single address."""
        return None

    def narrow(self, start: int, stop: int) -> tuple[FolderTable, int]:
        """Only the tables that hold these rows."""
        first = bisect_right(self.offsets, start) - 1
        last = bisect_right(self.offsets, max(start, stop - 1)) - 1
        return replace(self, tables=self.tables[first : last + 1]), start - self.offsets[first]

    def pieces(self) -> tuple[Piece, ...]:
        """One for each file."""
        return tuple(
            replace(piece, start=offset, stop=offset + piece.stop)
            for table, offset in zip(self.tables, self.offsets, strict=False)
            for piece in table.pieces()
        )


def folder_table(name: str, tables: tuple[Table, ...]) -> FolderTable:
    """Join tables after a check that their columns agree.

    Raises
    ------
    DataError
        If names, their order, or which of them hold numbers differ.
    """
    first = tables[0]
    for table in tables[1:]:
        _check_agreement(first, table)
    return FolderTable(name, tables)


def members(path: Location, kind_of: Callable[[Location], str], expected: str) -> list[Location]:
    """The files of a folder in order of their names, without hidden and unfinished ones.

    Those that come later are not seen. `expected` names the kinds that there are.

    Raises
    ------
    DataError
        If there are none, or of several kinds.
    """
    files = [path / name for name in sorted(names_in(path)) if not is_ignored(name)]
    if not files:
        raise DataError(f"{path}: got an empty folder, expected {expected}; add some")
    for file in files[1:]:
        if kind_of(file) != kind_of(files[0]):
            raise DataError(
                f"{path}: got {files[0].name} and {file.name}, expected files of one kind; "
                "move the others to a folder of their own"
            )
    return files


def is_ignored(name: str) -> bool:
    """Whether a file of this name is hidden, or is renamed when it is whole."""
    return name.startswith(_IGNORED_STARTS) or name.endswith(_IGNORED_ENDS)


def _check_agreement(first: Table, other: Table) -> None:
    expected, got = first.columns, other.columns
    where = f"{other.name}: its columns differ from those of {Path(first.name).name}"
    if len(got) != len(expected):
        raise DataError(f"{where}, got {len(got)}, expected {len(expected)}; give all files the same columns")
    for position, (a, b) in enumerate(zip(expected, got, strict=True)):
        if a.name != b.name:
            raise DataError(
                f"{where}, column {position}: got {b.name!r}, expected {a.name!r}; "
                "give all files the same columns in the same order"
            )
        if (a.dtype is None) != (b.dtype is None):
            kinds = ("text", "numbers") if b.dtype is None else ("numbers", "text")
            raise DataError(
                f"{where}, column {a.name!r}: got {kinds[0]}, expected {kinds[1]}; "
                "repair the file or name the columns to use in data.columns"
            )


def _common_type(columns: tuple[Column, ...]) -> np.dtype[Any] | None:
    types = {column.dtype for column in columns}
    return None if None in types else np.result_type(*[dtype for dtype in types if dtype is not None])
