"""Tables in CSV files, with an index of where their rows lie.

Opening scans the bytes once and keeps the place of every 65,536-th row, so that reading some rows parses
little more than these.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import DataError
from kpca_stream.storage.damage import first_line
from kpca_stream.storage.sources.lines import LONGEST_LINE, LineIndex, check_length, index_lines
from kpca_stream.storage.sources.table import (
    WINDOW_ROWS,
    Column,
    FileTable,
    Picked,
    check_not_empty,
    stamped,
)
from kpca_stream.storage.stamp import FileStamp

_BLOCK_BYTES = 2**17
_BLOCKS_AHEAD = 32  # pyarrow's own choice
_TYPE_BYTES = 2**20
_TYPE_ROWS = 1000
_NULLS = frozenset(pacsv.ConvertOptions().null_values)
_FLOAT = np.dtype(np.float64)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}


@dataclass(frozen=True)
class CsvTable(FileTable):
    """A CSV file with the index of its lines."""

    columns: tuple[Column, ...]
    lines: LineIndex

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.lines.n_rows

    def locate(self, row: int) -> str:
        """Name of a row for messages, with its line, the header's and all others counted."""
        self.file.check()
        with self.file.open() as raw:
            line = self.lines.line(self.name, raw, row)
        return super().locate(row) if line is None else f"{super().locate(row)} (line {line})"

    def reading_bytes(self, picked: tuple[int, ...]) -> int:  # noqa: ARG002 - all columns are split
        """Text of the blocks that pyarrow reads ahead, and the fields and numbers made of it."""
        return 6 * _BLOCKS_AHEAD * max(_BLOCK_BYTES, 2 * self.lines.longest)

    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Parse the byte range that holds these rows."""
        return map(_as_array, self._slices(start, stop, picked, pa.float64()))

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same rows as text, since the file tells no types."""
        found = self._slices(start, stop, tuple(picked.values()), pa.string())
        return self.unchanged(batch.rename_columns(list(picked)) for batch in found)

    def _slices(
        self, start: int, stop: int, picked: tuple[int, ...], kind: pa.DataType
    ) -> Iterator[pa.RecordBatch]:
        first, last = start // WINDOW_ROWS, -(-stop // WINDOW_ROWS)
        begin, end = first * WINDOW_ROWS, min(last * WINDOW_ROWS, self.n_rows)
        at = begin
        try:
            for batch in self._batches(first, last, picked, kind):
                low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
                at += batch.num_rows
                if stop <= at < end:
                    return
        except pa.ArrowException as error:
            raise self._fault(first, last, picked if kind == pa.float64() else (), error) from error
        if at != end:
            raise DataError(
                f"{self.name}, rows {begin} to {end - 1}: got {at - begin} rows, expected {end - begin}; "
                "the file changed while it was read, or a quote is not closed"
            )

    def _batches(
        self, first: int, last: int, picked: tuple[int, ...], kind: pa.DataType
    ) -> Iterator[pa.RecordBatch]:
        wanted = [str(position) for position in picked]
        types = dict.fromkeys(wanted, kind)
        conversion = pacsv.ConvertOptions(column_types=types, include_columns=wanted)
        with self._reader(first, last, _BLOCK_BYTES, conversion) as reader:
            yield from reader

    @contextmanager
    def _reader(
        self, first: int, last: int, block_bytes: int, conversion: pacsv.ConvertOptions | None = None
    ) -> Iterator[pacsv.CSVStreamingReader]:
        """A parser of windows ``first`` to ``last``, with columns named by position."""
        begin, end = self.lines.range(first, last)
        names = [str(position) for position in range(len(self.columns))]
        block_bytes = max(block_bytes, 2 * self.lines.longest)
        with (
            self._native() as file,
            pacsv.open_csv(
                file.get_stream(begin, end - begin),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=block_bytes),
                pacsv.ParseOptions(newlines_in_values=self.lines.is_quoted),
                conversion,
                memory_pool=pa.system_memory_pool(),
            ) as reader,
        ):
            yield reader

    def _native(self) -> pa.NativeFile:
        if isinstance(self.file, FileStamp):
            return pa.OSFile(str(self.file.path), "rb")
        return pa.PythonFile(self.file.open(), "r")

    def typed(self) -> CsvTable:
        """The same table, where columns of text have no type."""
        try:
            with self._reader(0, 1, _TYPE_BYTES) as reader:
                kinds = reader.schema.types
            text = self._text([position for position, kind in enumerate(kinds) if not _is_numeric(kind)])
        except (pa.ArrowException, csv.Error) as error:
            raise self._fault(0, 1, (), error) from error
        columns = (
            Column(column.name, None if position in text else _FLOAT)
            for position, column in enumerate(self.columns)
        )
        return replace(self, columns=tuple(columns))

    def _text(self, doubtful: list[int]) -> set[int]:
        """Those of some columns in whose first rows less than half of the values are numbers.

        In the others, what is no number is a fault that reading will name.
        """
        n_filled, n_numbers = Counter[int](), Counter[int]()
        for _, cells in islice(self._cells(0, 1), _TYPE_ROWS if doubtful else 0):
            if len(cells) != len(self.columns):
                break  # reading will say so
            filled = [position for position in doubtful if cells[position] not in _NULLS]
            n_filled.update(filled)
            n_numbers.update(position for position in filled if _is_number(cells[position]))
        return {position for position in doubtful if 2 * n_numbers[position] < max(1, n_filled[position])}

    def _fault(self, first: int, last: int, picked: tuple[int, ...], error: Exception) -> DataError:
        """The error that names the row of windows ``first`` to ``last`` that could not be parsed."""
        row = first * WINDOW_ROWS - 1
        try:
            for row, cells in self._cells(first, last):
                if problem := self._problem(cells, picked):
                    return DataError(f"{self.locate(row)}{problem}")
        except csv.Error as fault:
            return DataError(f"{self.locate(row + 1)}: cannot be parsed ({fault}); repair the row")
        return DataError(f"{self.name}: cannot be parsed ({first_line(error)}); repair the file")

    def _cells(self, first: int, last: int) -> Iterator[tuple[int, list[str]]]:
        with self.file.open() as raw:
            raw.seek(self.lines.range(first, last)[0])
            text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="")
            filled = (cells for cells in csv.reader(text) if cells)
            yield from enumerate(islice(filled, (last - first) * WINDOW_ROWS), first * WINDOW_ROWS)

    def _problem(self, cells: list[str], picked: tuple[int, ...]) -> str | None:
        if len(cells) != len(self.columns):
            return f": got {len(cells)} fields, expected {len(self.columns)}; repair the row"
        for position in picked:
            if not (cells[position] in _NULLS or _is_number(cells[position])):
                return (
                    f", column {self.columns[position].name!r}: got text {cells[position][:40]!r}, "
                    "expected a number; repair it or leave the column out of data.columns"
                )
        return None


def open_csv(name: str, path: Location) -> CsvTable:
    """Read the header, find the types in the first rows, and index the rows.

    The first line is a header unless all of its fields are numbers; 0, 1, 2, … over three or more columns,
    also after an empty field, are the names that data frames have by default. A column is one of numbers if
    at least half of the values in its first 1,000 rows are, or if it is empty.

    Raises
    ------
    DataError
        If the file is empty, has no rows, is no text in lines, or separates fields by something else.
    """
    file = stamped(name, path)
    with file.open() as raw:
        header, begin = _header(name, raw)
        if len(header) == 1:
            _check_separator(name, header[0], b"".join(_first_record(name, raw)).decode(errors="replace"))
        is_header = not _all_numbers(header) or _is_count(header)
        lines = index_lines(name, raw, begin if is_header else _bom(raw))
    check_not_empty(name, lines.n_rows, len(header))
    labels = header if is_header else [""] * len(header)
    nameless = {str(position) for position in range(len(labels))} - set(labels)
    columns = tuple(
        Column(label or (str(position) if str(position) in nameless else f"column {position}"), _FLOAT)
        for position, label in enumerate(labels)
    )
    return CsvTable(file, columns, lines).typed()


def _header(name: str, raw: BinaryIO) -> tuple[list[str], int]:
    """Fields of the first line that is not blank, and where the next line begins."""
    raw.seek(_bom(raw))
    record = b"".join(_first_record(name, raw)).strip()
    begin = raw.tell()
    if record.count(b'"') % 2:
        raise DataError(f"{name}: got a quote in the first line that is not closed; close it or take it out")
    if b"\r" in record.replace(b"\r\n", b""):
        raise DataError(f"{name}: got lines that end in CR alone, expected LF or CRLF; convert the line ends")
    try:
        fields = next(csv.reader(io.StringIO(record.decode("utf-8"), newline="")), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{name}: its first line is no CSV in UTF-8 ({error}); convert the file") from error
    check_not_empty(name, len(record), len(fields))
    return [field.strip() for field in fields], begin


def _check_separator(name: str, header: str, row: str) -> None:
    """Refuse what has no comma in its header, where something else separates the fields of a row, too."""
    for separator, told in _SEPARATORS.items():
        fields = row.strip().split(separator)
        n_numbers = sum(_is_number(field.replace(",", ".")) for field in fields)
        # Words may have spaces between them, and numbers among them.
        is_table = n_numbers == len(fields) if separator == " " else n_numbers > 0
        if 1 < len(header.split(separator)) <= len(fields) and is_table:
            raise DataError(
                f"{name}: got fields separated by {told}, expected commas; write it again with commas, and "
                "with points in its numbers"
            )


def _first_record(name: str, raw: BinaryIO) -> Iterator[bytes]:
    """Lines up to the first that is not blank and leaves no quote open."""
    n_bytes, is_filled, is_open = 0, False, False
    while line := raw.readline(LONGEST_LINE):
        yield line
        n_bytes += len(line)
        is_filled = is_filled or bool(line.strip())
        is_open ^= line.count(b'"') % 2 == 1
        if is_filled and not is_open:
            return
        check_length(name, n_bytes)


def _bom(raw: BinaryIO) -> int:
    """Bytes of the mark that some programs put before UTF-8 text."""
    raw.seek(0)
    return len(codecs.BOM_UTF8) if raw.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def _as_array(batch: pa.RecordBatch) -> NDArray[Any]:
    block = np.empty((batch.num_rows, batch.num_columns))
    for j, values in enumerate(batch.columns):
        block[:, j] = values.to_numpy(zero_copy_only=False)
    return block


def _all_numbers(fields: list[str]) -> bool:
    filled = [field for field in fields if field not in _NULLS]
    return bool(filled) and all(_is_number(field) for field in filled)


def _is_count(fields: list[str]) -> bool:
    """Whether these are a data frame's own names of columns, after a name of its index or none."""
    fields = fields[1:] if fields[:1] == [""] else fields
    return len(fields) > 2 and fields == [str(position) for position in range(len(fields))]


def _is_number(field: str) -> bool:
    """Whether pyarrow reads it as a number."""
    trimmed = field.strip(" \t")
    try:
        float(trimmed)
    except ValueError:
        return False
    return trimmed.isascii() and "_" not in trimmed and trimmed == trimmed.strip()
