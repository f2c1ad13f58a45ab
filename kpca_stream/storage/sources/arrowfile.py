"""Tables in files of Arrow's IPC format, also called Feather version 2."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.object_stamp import ObjectFile, ObjectStamp
from kpca_stream.storage.sources.columnar import as_array, number_type
from kpca_stream.storage.sources.selection import check_names
from kpca_stream.storage.sources.table import (
    BLOCK_BYTES,
    Column,
    FileTable,
    Picked,
    block_rows,
    check_not_empty,
    stamped,
    steps,
)
from kpca_stream.storage.stamp import FileStamp


@dataclass(frozen=True)
class ArrowTable(FileTable):
    """An Arrow file; `offsets` are the first rows of its record batches, and the number of rows.

    Batches that are not compressed lie in the file as they are used, and only the rows at hand are in memory
    whatever their size. A compressed one, and each one of an object in a bucket, is in memory whole, with the
    columns that are read.
    """

    columns: tuple[Column, ...]
    offsets: tuple[int, ...]
    is_compressed: bool

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.offsets[-1]

    @property
    def span(self) -> int:
        """The largest compressed batch, which is decoded whole."""
        return max(np.diff(self.offsets).tolist()) if self.is_compressed else 1

    def reading_bytes(self, picked: tuple[int, ...]) -> int:
        """A compressed batch, packed and unpacked, and what the allocator keeps of it; else a few columns."""
        if not self.is_compressed:
            return 2 * BLOCK_BYTES
        types = [self.columns[position].dtype for position in picked]
        return 6 * self.span * sum(dtype.itemsize for dtype in types if dtype)

    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Copy some rows of a record batch at a time, cast to the narrowest common type of floats."""
        columns = [self.columns[position] for position in picked]
        for mapped, batch in self._batches(start, stop, picked):
            yield as_array(batch, columns, mapped.release)

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same batches of columns of any type."""
        found = self._batches(start, stop, tuple(picked.values()))
        return self.unchanged(batch.select(list(picked)) for _, batch in found)

    def _batches(
        self, start: int, stop: int, picked: tuple[int, ...]
    ) -> Iterator[tuple[_Mapped | _Fetched, pa.RecordBatch]]:
        problem = f"{self.name}, rows {start} to {stop - 1}: cannot be read"
        with told_as(problem, "restore the file or write it again"):
            mapped = _opened(self.file, picked if self.is_compressed else ())
            for batch in self._slices(mapped, start, stop, len(picked)):
                yield mapped, batch

    def _slices(
        self, mapped: _Mapped | _Fetched, start: int, stop: int, n_columns: int
    ) -> Iterator[pa.RecordBatch]:
        for index, (first, end) in enumerate(zip(self.offsets, self.offsets[1:], strict=False)):
            a, b = max(start, first), min(stop, end)
            if a >= b:
                continue
            self.file.check()  # reading a map behind the end of its file would end the process
            batch = mapped.batch(index)
            for low, high in steps(a - first, b - first, block_rows(n_columns)):
                self.file.check()
                yield batch.slice(low, high - low)
            del batch  # before the next is decoded


class _Fetched:
    """An object, of which a record batch is in memory while it is read."""

    def __init__(self, stamp: ObjectStamp, included: tuple[int, ...] = ()) -> None:
        options = pa.ipc.IpcReadOptions(included_fields=list(included), use_threads=False)
        self.file = ObjectFile(stamp)
        with self.file.telling():
            file = pa.PythonFile(self.file, "r")
            self.reader = pa.ipc.open_file(file, options=options, memory_pool=pa.system_memory_pool())

    def batch(self, index: int) -> pa.RecordBatch:
        """A record batch whose buffers are as long as its columns need."""
        with self.file.telling():
            batch = self.reader.get_batch(index)
        batch.validate()
        return batch

    def release(self) -> None:
        """A batch goes with the last of its views."""


class _Mapped:
    """A file that lies in memory only where it was read since the last release."""

    def __init__(self, path: Path, included: tuple[int, ...] = ()) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._buffer = pa.py_buffer(self._map)
        # Choosing columns copies them, so that all are taken where these are views.
        options = pa.ipc.IpcReadOptions(included_fields=list(included), use_threads=False)
        self.reader = pa.ipc.open_file(
            pa.BufferReader(self._buffer), options=options, memory_pool=pa.system_memory_pool()
        )

    def batch(self, index: int) -> pa.RecordBatch:
        """A record batch whose buffers are as long as its columns need."""
        batch = self.reader.get_batch(index)
        batch.validate()
        self.release()
        return batch

    def release(self) -> None:
        """Give back the memory of what was read; the file still has it."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def holds(self, batch: pa.RecordBatch) -> bool:
        """Whether the values of `batch` are views of the file."""
        buffers = (buffer for column in batch.columns for buffer in column.buffers() if buffer)
        start, stop = self._buffer.address, self._buffer.address + self._buffer.size
        return all(buffer.size == 0 or start <= buffer.address < stop for buffer in buffers)


def open_arrow(name: str, path: Location) -> ArrowTable:
    """Read the schema of an Arrow file and the heights of its record batches.

    Raises
    ------
    DataError
        If it is not a file in this format, has no rows, or two columns of one name.
    """
    stamp = stamped(name, path)
    problem = f"{name}: not a whole Arrow IPC file or Feather file of version 2"
    with told_as(problem, "write it again with pyarrow.feather.write_feather"):
        whole = _opened(stamp)
        columns = tuple(Column(field.name, number_type(field.type)) for field in whole.reader.schema)
        is_compressed = isinstance(whole, _Fetched) or _is_compressed(whole)
        heights = list(_heights(stamp, _narrowest(columns) if is_compressed else ()))
    check_not_empty(name, sum(heights), len(columns))
    check_names(name, columns)
    return ArrowTable(stamp, columns, (0, *np.cumsum(heights).tolist()), is_compressed)


def _is_compressed(whole: _Mapped) -> bool:
    return whole.reader.num_record_batches > 0 and not whole.holds(whole.batch(0))


def _opened(stamp: FileStamp | ObjectStamp, included: tuple[int, ...] = ()) -> _Mapped | _Fetched:
    return _Mapped(stamp.path, included) if isinstance(stamp, FileStamp) else _Fetched(stamp, included)


def _heights(stamp: FileStamp | ObjectStamp, included: tuple[int, ...]) -> Iterator[int]:
    mapped = _opened(stamp, included)
    for index in range(mapped.reader.num_record_batches):
        yield mapped.batch(index).num_rows


def _narrowest(columns: tuple[Column, ...]) -> tuple[int, ...]:
    """The position of the column that is decoded fastest, to learn heights from."""
    sizes = [np.inf if column.dtype is None else column.dtype.itemsize for column in columns]
    return (int(np.argmin(sizes)),)
