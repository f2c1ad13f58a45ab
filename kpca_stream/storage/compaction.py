"""Rows that were kept, moved together in their stored array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr

from kpca_stream.storage.sources.table import block_rows, even_blocks, steps


def close_gaps(array: zarr.Array[Any], window_rows: int, n_kept: Sequence[int]) -> None:
    """Move the first `n_kept` rows of each window of `window_rows` together, and cut the array behind them.

    In bounded memory and in place: a row never moves up and blocks are written one after the other, so
    what is written over has always been read.
    """
    n_columns = array.shape[1]
    height = block_rows(n_columns)
    pieces = (
        np.asarray(array[a:b])
        for window, n_rows in enumerate(n_kept)
        for a, b in steps(window * window_rows, window * window_rows + n_rows, height)
    )
    at = 0
    dtype = np.dtype(array.dtype)
    for block in even_blocks(pieces, sum(n_kept), n_columns, dtype, name=array.name):
        array[at : at + len(block)] = block
        at += len(block)
    array.resize((at, n_columns))
