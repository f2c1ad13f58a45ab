"""What every kind of table offers, and the sizes in which rows travel.

A table is a whole file or array with all its columns. `kpca_stream.storage.source.Source` cuts rows
and columns out of it; a table only says what it holds and reads pieces of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import DataError
from kpca_stream.storage.object_stamp import ObjectStamp
from kpca_stream.storage.rows import Rows
from kpca_stream.storage.stamp import FileStamp, changed

if TYPE_CHECKING:
    import pyarrow as pa

P = TypeVar("P")

Picked = dict[str, int]
"""Names of some columns, and their positions."""

WINDOW_ROWS = 65_536
BLOCK_BYTES = 2 * 2**20
LARGEST_CHUNK_BYTES = 4 * BLOCK_BYTES


class Column(NamedTuple):
    """Name and type of one column; no type where it does not hold numbers."""

    name: str
    dtype: np.dtype[Any] | None


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``stop`` of a table that come from one file or array."""

    name: str
    stamp: str
    start: int
    stop: int
    first: int  # position of row `start` in that file

    def label(self, start: int, stop: int) -> tuple[str, str]:
        """Name and identity of rows ``start`` to ``stop`` of the table, all of this piece."""
        a, b = start - self.start + self.first, stop - self.start + self.first
        is_whole = (start, stop) == (self.start, self.stop)
        name = self.name if is_whole else f"{self.name}, rows {a} to {b - 1}"
        return name, f"{self.name}:{self.stamp}:{a}:{b}"


class Table(Protocol):
    """A frozen, picklable value that reads pieces of one file, array or folder."""

    @property
    def name(self) -> str:
        """How messages name it."""

    @property
    def n_rows(self) -> int:
        """Number of data rows."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns in order."""

    @property
    def span(self) -> int:
        """Rows that are best read in one go: starting inside them costs reading those before."""

    def reading_bytes(self, picked: tuple[int, ...]) -> int:
        """Upper estimate of what a reader of columns `picked` holds beside the piece that it gives."""

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Rows ``start`` to ``stop`` in pieces of any height, columns `picked`, any real type."""

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same rows of columns of any type, as they are stored; of a CSV file as text."""

    def locate(self, row: int) -> str:
        """Name of a row for messages: file and 0-based data row."""

    def rows(self, start: int, stop: int) -> Rows | None:
        """A handle of these rows with all columns, where they can be used as they lie there."""

    def narrow(self, start: int, stop: int) -> tuple[Table, int]:
        """A table that still holds rows ``start`` to ``stop``, and the position of `start` in it."""

    def pieces(self) -> tuple[Piece, ...]:
        """The files that it consists of, in order."""


class Whole(ABC):
    """What tables made of one file or array have in common."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How messages name it."""

    @property
    def short_name(self) -> str:
        """The name without folders."""
        return Path(self.name).name

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of data rows."""

    @property
    def span(self) -> int:
        """Any row can be reached at the same cost."""
        return 1

    def reading_bytes(self, picked: tuple[int, ...]) -> int:  # noqa: ARG002 - nothing but the piece
        """Rows are read as they are needed, with nothing beside them."""
        return 0

    @abstractmethod
    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Rows ``start`` to ``stop`` in pieces of any height, columns `picked`, any real type."""

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same rows of columns of any type, as they are stored."""
        import pyarrow as pa

        for piece in self.read(start, stop, tuple(picked.values())):
            yield pa.record_batch([np.ascontiguousarray(column) for column in piece.T], names=list(picked))

    def locate(self, row: int) -> str:
        """Name of a row for messages."""
        return f"{self.short_name}, row {row}"

    def rows(self, start: int, stop: int) -> Rows | None:  # noqa: ARG002 - no rows lie in place
        """None: these rows must be parsed first."""
        return None

    def narrow(self, start: int, stop: int) -> tuple[Self, int]:  # noqa: ARG002 - all stays
        """The table itself, since it pickles to a path."""
        return self, start

    def pieces(self) -> tuple[Piece, ...]:
        """One piece."""
        return (Piece(self.short_name, self.stamp(), 0, self.n_rows, 0),)

    def stamp(self) -> str:
        """What tells this version of the data from others, beside their name."""
        return ""


@dataclass(frozen=True)
class FileTable(Whole):
    """What tables made of one file have in common."""

    file: FileStamp | ObjectStamp

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.file.name

    def stamp(self) -> str:
        """Size and time of a file, size and ETag of an object."""
        return self.file.text

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Rows ``start`` to ``stop`` in pieces, as long as the file stays what it was.

        Raises
        ------
        DataError
            If it changed since it was opened, and for all that cannot be read.
        """
        yield from self.unchanged(self.read_pieces(start, stop, picked))

    def unchanged(self, pieces: Iterator[P]) -> Iterator[P]:
        """`pieces` of the file, as long as it stays what it was."""
        self.file.check()
        try:
            for piece in pieces:
                self.file.check()
                yield piece
        except DataError:
            self.file.check()  # a change explains every other fault
            raise

    @abstractmethod
    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Rows ``start`` to ``stop``, whatever became of the file."""


def stamped(name: str, place: Location) -> FileStamp | ObjectStamp:
    """The file or object at `place` as it is now, called `name` in messages."""
    return FileStamp.of(name, place) if isinstance(place, Path) else ObjectStamp.of(name, place)


def numbered(n_columns: int, dtype: np.dtype[Any]) -> tuple[Column, ...]:
    """Columns named by their positions, all of one type."""
    return tuple(Column(str(position), dtype) for position in range(n_columns))


def block_rows(n_columns: int) -> int:
    """Rows of a block: the largest power of two, at most a window, that fits `BLOCK_BYTES` as float64.

    A window is then cut into equal blocks, the same for every kind of table.
    """
    fitting = max(1, BLOCK_BYTES // (8 * n_columns))
    return min(WINDOW_ROWS, 1 << (fitting.bit_length() - 1))


def aligned_rows(chunk_rows: int, n_columns: int, chunk_bytes: int) -> int:
    """Rows to read at once from an array in chunks, `chunk_bytes` the size of one row of them.

    Whole chunks, so that none is decoded twice, unless they are very large.
    """
    fitting = block_rows(n_columns)
    if chunk_rows <= fitting:
        return fitting - fitting % chunk_rows
    return chunk_rows if chunk_bytes <= LARGEST_CHUNK_BYTES else fitting


def steps(start: int, stop: int, height: int) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive blocks of `height` rows."""
    return ((at, min(at + height, stop)) for at in range(start, stop, height))


def even_blocks(
    pieces: Iterable[NDArray[Any]], n_rows: int, n_columns: int, dtype: np.dtype[Any], *, name: str
) -> Iterator[NDArray[Any]]:
    """Blocks of equal height and one type from `n_rows` rows in pieces of any; copies what it must.

    Raises
    ------
    DataError
        At the end, if there were more or fewer rows.
    """
    height = min(block_rows(n_columns), n_rows)
    block, filled = np.empty((0, n_columns), dtype), 0
    for piece in pieces:
        at = 0
        while at < len(piece):
            taken = min(height - filled, len(piece) - at)
            if taken == 0:
                raise changed(name, "has more rows")
            if taken == height:
                block = np.ascontiguousarray(piece[at : at + taken], dtype)
            else:
                block = block if filled else np.empty((height, n_columns), dtype)
                block[filled : filled + taken] = piece[at : at + taken]
            at, filled = at + taken, filled + taken
            if filled == height:
                yield block
                n_rows, filled = n_rows - height, 0
                height = min(height, n_rows)
    if n_rows:
        raise changed(name, "has fewer rows")


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The narrowest of float32 and float64 that holds every value of `dtype` (float64 for wide integers)."""
    is_short = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if is_short else np.float64)


def common_float_type(dtypes: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """float32 where it holds every one of the types, else float64."""
    return max((float_type(dtype) for dtype in set(dtypes)), key=lambda dtype: dtype.itemsize)


def check_array(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what is not a matrix of real numbers.

    Raises
    ------
    DataError
        For other than two dimensions, no rows or columns, object, complex, text and time types.
    """
    if len(shape) != 2:
        raise DataError(
            f"{name}: got an array of shape {shape}, expected rows and columns; "
            "reshape a single column to (n, 1), a single row to (1, d)"
        )
    if dtype.kind not in "biuf":
        raise DataError(f"{name}: got values of type {dtype}, expected real numbers; convert the array first")
    check_not_empty(name, shape[0], shape[1])


def check_not_empty(name: str, n_rows: int, n_columns: int) -> None:
    """Refuse a table without rows or without columns."""
    if n_rows == 0 or n_columns == 0:
        raise DataError(
            f"{name}: got {n_rows} rows and {n_columns} columns, expected at least one of each; "
            "take the file out or fill it"
        )


def is_usable(dtype: np.dtype[Any]) -> bool:
    """Whether values of this type can be used as they are stored."""
    return dtype in (np.dtype(np.float32), np.dtype(np.float64))
