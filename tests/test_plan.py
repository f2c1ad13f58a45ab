"""`plan`: what a fit would cost, and what is refused before it begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import command, configured

from kpca_stream.errors import ConfigError
from kpca_stream.pipeline import fit_config, plan_config
from kpca_stream.results import Plan
from kpca_stream.telemetry import silent

TB = 10**12


def planned(folder: Path, shape: tuple[int, int] | None, changes: dict[str, Any] | None = None) -> Plan:
    base = {"gram.tile_rows": "auto", "solver.n_components": 10}
    return plan_config(configured(folder, {**base, **(changes or {})}), silent(), shape=shape)


def test_a_million_rows_of_50_columns(tmp_path: Path) -> None:
    """The plan counts tiles, padded bytes, evaluations, memory and tasks, and reads no data."""
    found = planned(tmp_path, (1_000_000, 50), {"limits.disk": 4 * TB})
    side = -(-1_000_000 // 2048)
    assert (found.tile_rows, found.n_tiles) == (2048, side * (side + 1) // 2)
    assert found.precision == "mixed"
    assert found.disk_tiles == found.n_tiles * 2048**2 * 4
    assert found.disk_rows == 1_000_000 * 50 * 8
    assert found.disk_total == found.disk_tiles + found.disk_rows + found.disk_vectors
    assert found.evaluations >= 1_000_000 * 1_000_001 // 2
    assert found.n_tasks <= 5000
    assert found.memory_total <= found.memory_limit
    assert found.seconds > 60
    assert found.refusals == ()


def test_too_little_disk_names_the_way_out(tmp_path: Path) -> None:
    """Two terabytes of tiles do not fit 100 GiB: recompute them, which then is planned without refusal."""
    found = planned(tmp_path, (1_000_000, 50))
    assert len(found.refusals) == 1
    assert "of disk, limits.disk is 100.0 GiB" in found.refusals[0]
    assert "gram.storage: recompute" in found.refusals[0]
    assert planned(tmp_path, (1_000_000, 50), {"gram.storage": "recompute"}).refusals == ()


@pytest.mark.parametrize(
    ("changes", "way_out"),
    [
        ({"gram.storage": "memory"}, "gram.storage: recompute"),
        ({"solver.method": "dense"}, "solver.method: lanczos"),
        ({"gram.storage": "recompute", "limits.memory": 10**8}, "raise limits.memory"),
    ],
)
def test_too_little_memory_names_the_way_out(tmp_path: Path, changes: dict[str, Any], way_out: str) -> None:
    """What does not fit the memory is refused with both sizes and what to change."""
    found = planned(tmp_path, (1_000_000, 50), {"limits.disk": 4 * TB, **changes})
    assert any("of memory, limits.memory is" in text and way_out in text for text in found.refusals)


def test_a_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A fit that its plan refuses ends at once, and leaves no store, unless merging may rescue it."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((3000, 4)))
    with pytest.raises(ConfigError, match=r"of disk, limits\.disk is"):
        fit_config(configured(tmp_path, {"limits.disk": 10**6, "data.merge_duplicates": False}), silent())
    assert not (tmp_path / "gram.zarr").exists()


def test_the_plan_of_a_source_is_that_of_its_shape(tmp_path: Path) -> None:
    """Planning for a file reads its shape and type, and gives what the fit then does."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((300, 4)))
    found = planned(tmp_path, None, {"gram.tile_rows": 64})
    done = fit_config(configured(tmp_path, {"solver.n_components": 10}), silent())
    for name in ("n_samples", "n_features", "precision", "storage", "method", "tile_rows", "n_tiles"):
        assert getattr(found, name) == getattr(done, name)


def test_the_command_prints_the_plan_and_refuses(tmp_path: Path) -> None:
    """`plan --shape` prints one JSON object; it ends with 2 and the way out where the plan is refused."""
    (tmp_path / "c.yaml").write_text(json.dumps(configured(tmp_path).model_dump(mode="json")))
    sized = ("plan", "c.yaml", "--shape", "1000000x50", "--json", "--set", "gram.tile_rows=1000")
    refused = command(tmp_path, *sized)
    found = json.loads(refused.stdout)["result"]
    assert refused.returncode == 2
    assert (found["n_tiles"], found["n_tasks"] <= 5000) == (500_500, True)
    assert "gram.storage: recompute" in found["refusals"][0]
    allowed = command(tmp_path, *sized, "--set", "gram.storage=recompute")
    assert (allowed.returncode, json.loads(allowed.stdout)["result"]["refusals"]) == (0, [])
