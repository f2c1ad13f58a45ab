"""Columns of Arrow's types, as the formats that hold them have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpca_stream.storage.sources.table import Column, common_float_type, float_type


def number_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """NumPy's type for numbers; None for text, times and nested values."""
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(np.float64) if pa.types.is_null(kind) else None


@np.errstate(invalid="ignore")  # NaN with odd bits stays NaN
def as_array(
    batch: pa.RecordBatch, columns: Sequence[Column], after_each: Callable[[], None] = lambda: None
) -> NDArray[Any]:
    """Some columns of a batch, cast to the narrowest common type of floats; nulls become NaN.

    `after_each` is called when a column is copied.
    """
    types = [column.dtype for column in columns if column.dtype is not None]
    block = np.empty((batch.num_rows, len(columns)), common_float_type(types))
    for j, (column, dtype) in enumerate(zip(columns, types, strict=True)):
        values = pc.cast(batch.column(column.name), pa.from_numpy_dtype(float_type(dtype)), safe=False)
        block[:, j] = values.to_numpy(zero_copy_only=False)
        after_each()
    return block
