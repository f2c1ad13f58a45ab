"""Tables in Parquet files.

What a reader takes grows with the number of columns, a dictionary and a page of each (1 MiB both unless the
writer chose otherwise), and by its footer with the number of row groups, not with their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import DataError
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.object_stamp import ObjectStamp
from kpca_stream.storage.sources.columnar import as_array, number_type
from kpca_stream.storage.sources.selection import check_names
from kpca_stream.storage.sources.table import Column, FileTable, Picked, block_rows, check_not_empty, stamped
from kpca_stream.storage.stamp import FileStamp

_BUFFER_BYTES = 64 * 1024
_REQUEST_BYTES = _PAGE_BYTES = 2**20
_FOOTER_BYTES = 1000
"""What a reader holds of each column of each row group."""
_BATCHES_PER_BLOCK = 4
_REMEDY = "restore the file or write it again"


@dataclass(frozen=True)
class ParquetTable(FileTable):
    """A Parquet file.

    Parameters
    ----------
    columns : tuple of Column
    offsets : tuple of int
        First row of each row group, and the number of rows.
    group_bytes : int
        Bytes of the largest row group, unpacked.
    """

    columns: tuple[Column, ...]
    offsets: tuple[int, ...]
    group_bytes: int

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.offsets[-1]

    @property
    def span(self) -> int:
        """The largest row group: its rows are decoded from its first on."""
        return max(np.diff(self.offsets).tolist())

    def reading_bytes(self, picked: tuple[int, ...]) -> int:
        """The footer, and a dictionary and a page of each column, but no more than two row groups.

        From a bucket, what two requests for each column bring, too.
        """
        footer = len(self.columns) * (len(self.offsets) - 1) * _FOOTER_BYTES
        buffers = 0 if isinstance(self.file, FileStamp) else 2 * len(picked) * _REQUEST_BYTES
        return footer + buffers + min(len(picked) * 4 * _PAGE_BYTES, 2 * self.group_bytes)

    def read_pieces(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Decode small batches, cast to the narrowest common type of floats."""
        columns = [self.columns[position] for position in picked]
        with self._reading(start, stop) as file:
            for batch in self._batches(file, start, stop, columns):
                yield as_array(batch, columns)

    def carried(self, start: int, stop: int, picked: Picked) -> Iterator[pa.RecordBatch]:
        """The same batches of columns of any type."""
        return self.unchanged(
            self._carried(start, stop, [self.columns[position] for position in picked.values()])
        )

    def _carried(self, start: int, stop: int, columns: list[Column]) -> Iterator[pa.RecordBatch]:
        with self._reading(start, stop) as file:
            yield from self._batches(file, start, stop, columns)

    @contextmanager
    def _reading(self, start: int, stop: int) -> Iterator[pq.ParquetFile]:
        problem = f"{self.name}, rows {start} to {stop - 1}: cannot be read"
        with told_as(problem, _REMEDY), _open(self.file) as file:
            yield file

    def _batches(
        self, file: pq.ParquetFile, start: int, stop: int, columns: list[Column]
    ) -> Iterator[pa.RecordBatch]:
        groups = self._groups(start, stop)
        at = self.offsets[groups[0]]
        steps = [groups] if isinstance(self.file, FileStamp) else [[group] for group in groups]
        for batch in chain.from_iterable(self._batches_of(file, step, columns) for step in steps):
            low, high = max(start - at, 0), min(stop - at, batch.num_rows)
            if low < high:
                yield batch.slice(low, high - low)
            at += batch.num_rows

    def _batches_of(
        self, file: pq.ParquetFile, groups: list[int], columns: list[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Of some row groups, of whose columns a buffer each is held until all are read."""
        found: Iterator[pa.RecordBatch] = file.iter_batches(
            batch_size=max(1, block_rows(len(columns)) // _BATCHES_PER_BLOCK),
            row_groups=groups,
            columns=[column.name for column in columns],
            use_threads=False,
        )
        return found

    def _groups(self, start: int, stop: int) -> list[int]:
        bounds = zip(self.offsets, self.offsets[1:], strict=False)
        return [group for group, (a, b) in enumerate(bounds) if a < stop and b > start]


def open_parquet(name: str, path: Location) -> ParquetTable:
    """Read the footer of a Parquet file.

    Raises
    ------
    DataError
        If it is not a Parquet file, has no rows, or two columns of one name.
    """
    stamp = stamped(name, path)
    with told_as(f"{name}: not a whole Parquet file", _REMEDY), _open(stamp) as file:
        schema, metadata = file.schema_arrow, file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        heights = [group.num_rows for group in groups]
        group_bytes = max((group.total_byte_size for group in groups), default=0)
    if min(heights, default=0) < 0:
        raise DataError(f"{name}: not a whole Parquet file (a row group of {min(heights)} rows); {_REMEDY}")
    check_not_empty(name, sum(heights), len(schema))
    columns = tuple(Column(field.name, number_type(field.type)) for field in schema)
    check_names(name, columns)
    return ParquetTable(stamp, columns, (0, *np.cumsum(heights).tolist()), group_bytes)


def _open(stamp: FileStamp | ObjectStamp) -> pq.ParquetFile:
    source: Any = stamp.open(buffered=False) if isinstance(stamp, ObjectStamp) else stamp.path
    buffer_bytes = _REQUEST_BYTES if isinstance(stamp, ObjectStamp) else _BUFFER_BYTES
    # Without pre-buffering and with a small buffer, a column chunk is read as it is decoded, not whole.
    return pq.ParquetFile(
        source,
        pre_buffer=False,
        buffer_size=buffer_bytes,
        page_checksum_verification=True,
        memory_map=False,
    )
