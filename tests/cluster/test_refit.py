"""Re-fits on processes, with the bits of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kpca_stream.config import Config
from kpca_stream.pipeline import score_config
from kpca_stream.telemetry import silent
from tests.jobs import contents
from tests.refits import land, landed, model, refit, registry, week
from tests.schedulers import processes

pytestmark = pytest.mark.cluster

N_WEEKS = 4


def job(folder: Path, data: Path, method: str, cluster: dict[str, Any]) -> Config:
    folder.mkdir()
    return model(
        folder,
        method,
        data__train__path=str(data / "weeks"),
        gram__tile_rows=64,
        score={
            "input": {"path": str(data / "new.npy"), "part_rows": 40, "settle_seconds": 0},
            "output": str(folder / "scores"),
        },
        cluster=cluster,
    )


def versions(folder: Path) -> list[dict[str, bytes]]:
    found = registry(folder)
    return [contents(found.basis_path(version)) for version in found.versions()]


def scores(folder: Path) -> list[Any]:
    return [pq.read_table(path) for path in sorted((folder / "scores").glob("*.parquet"))]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lanczos", "nystrom"])
def test_refit_and_scoring_have_the_bits_of_threads(method: str, tmp_path: Path) -> None:
    """A first fit, a warm one to more rows, and scoring leave equal versions and scores on processes."""
    landed(tmp_path, N_WEEKS)
    np.save(tmp_path / "new.npy", week(50, 120))
    with processes(tmp_path / "cluster") as cluster:
        sections: dict[str, dict[str, Any]] = {
            "threads": {"kind": "threads", "n_workers": 2},
            "local": {"kind": "local", "n_workers": 2},
            "address": {"kind": "address", "address": cluster.address, "min_workers": 2},
        }
        configs = {name: job(tmp_path / name, tmp_path, method, kind) for name, kind in sections.items()}
        assert {refit(config).action for config in configs.values()} == {"promoted"}
        land(tmp_path, N_WEEKS, week(N_WEEKS))
        found = {name: refit(config) for name, config in configs.items()}
        for config in configs.values():
            score_config(config, silent())
    assert {each.action for each in found.values()} == {"promoted"}
    expected, expected_scores = versions(tmp_path / "threads"), scores(tmp_path / "threads")
    assert len(expected) == 2
    assert len(expected_scores) == 3
    for name in ("local", "address"):
        for one, other in zip(versions(tmp_path / name), expected, strict=True):
            assert [key for key in other if one.get(key) != other[key]] == []
        for table, other_table in zip(scores(tmp_path / name), expected_scores, strict=True):
            assert table.equals(other_table)
