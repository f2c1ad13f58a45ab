"""Kept rows are moved together."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from kpca_stream.storage import compaction
from kpca_stream.storage.compaction import close_gaps
from kpca_stream.storage.sources import table


@given(
    n_kept=st.lists(st.integers(0, 8), min_size=1, max_size=6).filter(any),
    height=st.sampled_from([1, 2, 4, 8]),
)
def test_any_gaps_are_closed(n_kept: list[int], height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept rows lie together in their order, and nothing lies behind them, for any block height."""
    monkeypatch.setattr(table, "block_rows", lambda _: height)
    monkeypatch.setattr(compaction, "block_rows", lambda _: height)
    X = np.arange(16.0 * len(n_kept)).reshape(-1, 2)
    array = zarr.array(X, chunks=(2, 2))
    close_gaps(array, 8, n_kept)
    expected = np.concatenate([X[8 * window : 8 * window + n] for window, n in enumerate(n_kept)])
    np.testing.assert_array_equal(np.asarray(array[...]), expected)
