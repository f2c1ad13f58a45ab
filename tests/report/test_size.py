"""What a report takes does not grow with the rows that it is about."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.disturb import write_yaml
from tests.memory import result_and_peak
from tests.report.pages import rows

FEW, MANY = 200_000, 1_000_000
LIMIT = 2_000_000


class Cost(NamedTuple):
    n_bytes: int
    peak: int


def reported(folder: Path, n_rows: int) -> Cost:
    """The page about a fit by landmarks of so many rows, all of them scored: bytes, and peak memory."""
    np.save(folder / "rows.npy", rows(n_rows).astype(np.float32))
    sections = {
        "name": "rows",
        "data": {"train": {"path": "rows.npy"}},
        "kernel": {"name": "rbf", "gamma": 0.05},
        "solver": {"method": "nystrom", "n_components": 6},
        "nystrom": {"landmarks": 60},
        "gram": {"path": "gram.zarr"},
        "score": {"input": {"path": "rows.npy", "settle_seconds": 0}, "output": "scores"},
    }
    write_yaml(folder / "c.yaml", sections)
    result_and_peak(folder, "run", "c.yaml")
    told, peak = result_and_peak(folder, "report", "c.yaml")
    assert told["n_rows"] == n_rows
    return Cost(told["n_bytes"], peak)


@pytest.mark.slow
def test_a_report_of_many_rows_is_as_small_as_one_of_few(tmp_path: Path) -> None:
    """Five times the rows take hardly more bytes of page and of memory, and the page stays below 2 MB."""
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, many = reported(tmp_path / "few", FEW), reported(tmp_path / "many", MANY)
    print(
        f"{few.n_bytes:,} and {many.n_bytes:,} bytes, peaks {few.peak / 1e6:.0f} and {many.peak / 1e6:.0f} MB"
    )
    assert many.n_bytes < LIMIT
    assert many.n_bytes < 1.3 * few.n_bytes
    # Scores, errors and T² of the rows that are more are 51 MB.
    assert many.peak < few.peak + 25e6
