"""The memory of scoring: that of a basis and a few blocks, however many rows come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.memory import result_and_peak
from tests.test_memory import MB, write_rows

N_FEATURES = 100
LIMIT = 460 * MB
GROUP_ROWS = 8192
"""A Parquet footer of many small groups takes memory of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_memory_does_not_grow_with_the_file(suffix: str, tmp_path: Path) -> None:
    """A file larger than the limit is scored within it, in the memory that a tenth of the rows take."""
    write_rows(tmp_path / "train.npy", 2_000, N_FEATURES, "float32")
    n_few, n_many = 120_000, 1_200_000
    peaks = {}
    for n_rows in (n_few, n_many):
        path = tmp_path / f"rows{n_rows}{suffix}"
        write_rows(path, n_rows, N_FEATURES, "float32", GROUP_ROWS)
        configure(tmp_path, path.name)
        result_and_peak(tmp_path, "fit", "c.yaml")
        found, peaks[n_rows] = result_and_peak(tmp_path, "score", "c.yaml")
        assert found["n_rows"] == found["rows_written"] == n_rows
    print({n: f"{peak / MB:.0f} MB" for n, peak in peaks.items()})
    assert peaks[n_many] <= LIMIT < n_many * N_FEATURES * 4
    assert peaks[n_many] <= peaks[n_few] + 100 * MB


def configure(folder: Path, name: str) -> None:
    """A small fit, and rows to score in parts."""
    config = {
        "name": "rows",
        "data": {"train": {"path": "train.npy"}},
        "kernel": {"name": "rbf", "gamma": 0.01},
        "solver": {"n_components": 4},
        "gram": {"path": "gram.zarr"},
        "cluster": {"n_workers": 2},
        "limits": {"memory": LIMIT},
        "models": {"path": "models"},
        "score": {"input": {"path": name, "part_rows": 50_000}, "output": f"scores of {name}"},
    }
    (folder / "c.yaml").write_text(json.dumps(config), encoding="utf-8")
