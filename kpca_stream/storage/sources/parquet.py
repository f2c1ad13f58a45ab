"""Tables in Parquet files.

What a reader takes grows with the number of columns, a dictionary and a page of each (1 MiB both unless the
writer chose otherwise), not with the number of rows or the size of the row groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.sources.table import (
    Column,
    Whole,
    block_rows,
    check_not_empty,
    common_float_type,
    file_stamp,
    first_line,
    float_type,
)

_BUFFER_BYTES = 64 * 1024
_BATCHES_PER_BLOCK = 4


@dataclass(frozen=True)
class ParquetTable(Whole):
    """A Parquet file; `offsets` are the first rows of its row groups, and the number of rows."""

    name: str
    path: Path
    columns: tuple[Column, ...]
    offsets: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return self.offsets[-1]

    @property
    def span(self) -> int:
        """The largest row group: its rows are decoded from its first on."""
        return max(np.diff(self.offsets).tolist())

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Decode small batches, cast to the narrowest common type of floats."""
        try:
            with _open(self.path) as file:
                yield from self._read(file, start, stop, picked)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{self.name}, rows {start} to {stop - 1}: cannot be read ({first_line(error)}); "
                "restore or rewrite the file"
            ) from error

    def _read(
        self, file: pq.ParquetFile, start: int, stop: int, picked: tuple[int, ...]
    ) -> Iterator[NDArray[Any]]:
        columns = [self.columns[position] for position in picked]
        groups = self._groups(start, stop)
        at = self.offsets[groups[0]]
        batches = file.iter_batches(
            batch_size=max(1, block_rows(len(picked)) // _BATCHES_PER_BLOCK),
            row_groups=groups,
            columns=[column.name for column in columns],
            use_threads=False,
        )
        for batch in batches:
            low, high = max(start - at, 0), min(stop - at, batch.num_rows)
            if low < high:
                yield _as_array(batch.slice(low, high - low), columns)
            at += batch.num_rows

    def _groups(self, start: int, stop: int) -> list[int]:
        bounds = zip(self.offsets, self.offsets[1:], strict=False)
        return [group for group, (a, b) in enumerate(bounds) if a < stop and b > start]

    def stamp(self) -> str:
        """Size and time of the file."""
        return file_stamp(self.path)


def open_parquet(name: str, path: Path) -> ParquetTable:
    """Read the footer of a Parquet file.

    Raises
    ------
    DataError
        If it is not a Parquet file, has no rows, or two columns of one name.
    """
    try:
        with _open(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            heights = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name}: not a whole Parquet file ({first_line(error)}); write it again") from error
    check_not_empty(name, sum(heights), len(schema))
    for label in schema.names:
        if schema.names.count(label) > 1:
            raise DataError(f"{name}: got two columns named {label!r}, expected one; rename one of them")
    columns = tuple(Column(field.name, _number_type(field.type)) for field in schema)
    return ParquetTable(name, path, columns, (0, *np.cumsum(heights).tolist()))


def _open(path: Path) -> pq.ParquetFile:
    # Without pre-buffering and with a small buffer, a column chunk is read as it is decoded, not whole.
    return pq.ParquetFile(
        path, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True, memory_map=False
    )


def _number_type(kind: pa.DataType) -> np.dtype[Any] | None:
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(np.float64) if pa.types.is_null(kind) else None


def _as_array(batch: pa.RecordBatch, columns: list[Column]) -> NDArray[Any]:
    types = [column.dtype for column in columns if column.dtype is not None]
    block = np.empty((batch.num_rows, len(columns)), common_float_type(types))
    for j, (column, dtype) in enumerate(zip(columns, types, strict=True)):
        values = pc.cast(batch.column(column.name), pa.from_numpy_dtype(float_type(dtype)), safe=False)
        block[:, j] = values.to_numpy(zero_copy_only=False)
    return block
