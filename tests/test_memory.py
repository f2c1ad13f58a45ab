"""The memory of whole fits, measured in a process of its own, against the limit and against the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from memory import peak_above_imports

from kpca_stream.fitting import FitSettings, make_plan
from kpca_stream.numerics.resolve import KernelSpec

MB = 10**6

CHILD = """
import warnings
from pathlib import Path

import numpy as np

from kpca_stream.config import Config
from kpca_stream.pipeline import run_config
from kpca_stream.telemetry import silent


def configured(train, new, folder, changes):
    kernel, solver, gram, limits = (changes.get(key, {}) for key in ("kernel", "solver", "gram", "limits"))
    return Config.model_validate({
        "name": "big",
        "data": {"train": {"path": train}, **changes.get("data", {})},
        "kernel": {"name": "rbf", **kernel},
        "solver": {"n_components": 4, **solver},
        "gram": {"path": folder + "/gram.zarr", **gram},
        "cluster": {"n_workers": 2},
        "models": {"path": folder + "/models"},
        "score": {"input": {"path": new, "part_rows": 100}, "output": folder + "/scores"},
        "limits": limits,
    })


def warm_up(path, new, tiny, folder, changes):
    Path(folder, "warm").mkdir()
    run_config(configured(tiny, tiny, folder + "/warm", changes), silent())


def work(path, new, tiny, folder, changes):
    run_config(configured(path, new, folder, changes), silent())
"""


def tiny_rows() -> Any:
    return np.random.default_rng(1).standard_normal((60, 3)) * [3.0, 2.0, 1.0]


def write_rows(path: Path, n_samples: int, n_features: int, dtype: str) -> None:
    """Rows of a few directions and noise, block by block, as npy, Zarr or Parquet."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((6, n_features))
    step = max(1, 4 * MB // n_features)
    blocks = (
        (rng.standard_normal((min(step, n_samples - at), 6)) * 0.5 ** np.arange(6)) @ directions
        + 0.05 * rng.standard_normal((min(step, n_samples - at), n_features))
        for at in range(0, n_samples, step)
    )
    if path.suffix == ".npy":
        array = np.lib.format.open_memmap(path, "w+", dtype, (n_samples, n_features))
        at = 0
        for block in blocks:
            array[at : at + len(block)] = block
            at += len(block)
        array.flush()
    elif path.suffix == ".zarr":
        stored = zarr.create_array(path, shape=(n_samples, n_features), chunks=(256, n_features), dtype=dtype)
        at = 0
        for block in blocks:
            stored[at : at + len(block)] = block
            at += len(block)
    else:
        schema = pa.schema(
            [(str(j), pa.float32() if dtype == "float32" else pa.float64()) for j in range(n_features)]
        )
        with pq.ParquetWriter(path, schema) as writer:
            for block in blocks:
                writer.write_table(pa.table(list(block.T.astype(dtype)), schema=schema), row_group_size=1024)


def measured(tmp_path: Path, suffix: str, shape: tuple[int, int], dtype: str, changes: dict[str, Any]) -> int:
    path, new, tiny = tmp_path / f"rows{suffix}", tmp_path / "new.npy", tmp_path / "tiny.npy"
    write_rows(path, *shape, dtype)
    write_rows(new, 200, shape[1], dtype)
    np.save(tiny, tiny_rows().astype(dtype))
    return peak_above_imports(CHILD, path, new, tiny, tmp_path, changes)


def planned(shape: tuple[int, int], dtype: str, changes: dict[str, Any]) -> int:
    settings = FitSettings(
        kernel=KernelSpec(**{"name": "rbf", **changes.get("kernel", {})}),
        memory_limit=changes["limits"]["memory"],
        **{"n_components": 4, "tol": 1e-6, **changes.get("solver", {})},
        **{key: value for key, value in changes.get("gram", {}).items() if key != "path"},
    )
    return make_plan(settings, *shape, np.dtype(dtype), with_store=True).memory_total(2)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_rows_of_800_mb_are_fitted_and_scored_within_600_mb(tmp_path: Path, suffix: str) -> None:
    """A fit by recomputed tiles of a source larger than the limit stays below limit and plan."""
    shape, limit = (12_500, 8_000), 600 * MB
    changes = {
        "kernel": {"gamma": 2e-5},
        "solver": {"tol": 0.1, "precision": "float32", "n_components": 2},
        "gram": {"storage": "recompute"},
        "limits": {"memory": limit},
    }
    peak = measured(tmp_path, suffix, shape, "float64", changes)
    plan = planned(shape, "float64", changes)
    print(f"{peak / MB:.0f} MB measured, {plan / MB:.0f} MB planned")
    assert peak <= plan <= limit


@pytest.mark.slow
def test_parquet_larger_than_the_limit_is_fitted_within_it(tmp_path: Path) -> None:
    """Rows of a Parquet file, which are copied to the store once, never lie in memory as a whole."""
    shape, limit = (24_000, 2_000), 360 * MB
    changes = {
        "data": {"merge_duplicates": False},
        "kernel": {"name": "linear"},
        "solver": {"tol": 0.1, "precision": "float32", "n_components": 2},
        "gram": {"storage": "recompute"},
        "limits": {"memory": limit},
    }
    peak = measured(tmp_path, ".parquet", shape, "float64", changes)
    plan = planned(shape, "float64", changes)
    print(f"{peak / MB:.0f} MB measured, {plan / MB:.0f} MB planned")
    # The plan does not count the columns of a row group, which Parquet holds while it decodes them.
    assert max(peak, plan) <= limit < shape[0] * shape[1] * 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype", "changes"),
    [
        ((12_000, 20), "float32", {"gram": {"storage": "recompute"}}),
        ((10_000, 20), "float64", {"gram": {"storage": "zarr"}, "solver": {"precision": "float64"}}),
        ((8_000, 300), "float32", {"gram": {"storage": "memory"}}),
        ((2_500, 30), "float64", {"solver": {"method": "dense"}}),
        ((20_000, 10), "float32", {"kernel": {"gamma": 0.05}, "solver": {"n_components": 40, "tol": 1e-2}}),
    ],
    ids=["recompute", "zarr", "memory", "dense", "many components"],
)
def test_the_plan_is_an_upper_bound_and_no_absurd_one(
    tmp_path: Path, shape: tuple[int, int], dtype: str, changes: dict[str, Any]
) -> None:
    """The planned memory is at least what a fit takes, and at most four times as much."""
    changes = {
        **changes,
        "kernel": {"gamma": 0.01} | changes.get("kernel", {}),
        "limits": {"memory": 2000 * MB},
    }
    peak = measured(tmp_path, ".npy", shape, dtype, changes)
    plan = planned(shape, dtype, changes)
    print(f"{shape}: {peak / MB:.0f} MB measured, {plan / MB:.0f} MB planned")
    assert peak <= plan <= 4 * peak
