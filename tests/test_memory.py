"""The memory of whole runs of the command, against the limit and against the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from memory import result_and_peak

MB = 10**6


def write_rows(path: Path, n_samples: int, n_features: int, dtype: str, group_rows: int = 1024) -> None:
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
                writer.write_table(
                    pa.table(list(block.T.astype(dtype)), schema=schema), row_group_size=group_rows
                )


def configure(folder: Path, suffix: str, shape: tuple[int, int], dtype: str, changes: dict[str, Any]) -> None:
    """Rows to fit, 200 rows to score, and a configuration of both."""
    write_rows(folder / f"rows{suffix}", *shape, dtype)
    write_rows(folder / "new.npy", 200, shape[1], dtype)
    defaults: dict[str, Any] = {
        "kernel": {"name": "rbf", "gamma": 0.01},
        "solver": {"n_components": 4},
        "gram": {"path": "gram.zarr"},
        "cluster": {"n_workers": 2},
    }
    sections = {key: {**value, **changes.get(key, {})} for key, value in defaults.items()}
    text = {
        "name": "rows",
        "data": {"train": {"path": f"rows{suffix}"}, **changes.get("data", {})},
        **sections,
        "limits": changes.get("limits", {}),
        "nystrom": changes.get("nystrom", {}),
        "models": {"path": "models"},
        "score": {"input": {"path": "new.npy", "part_rows": 100}, "output": "scores"},
    }
    (folder / "c.yaml").write_text(json.dumps(text), encoding="utf-8")


def planned_and_taken(folder: Path) -> tuple[int, int]:
    """Memory as `plan` tells it and as `run` takes it, imports included."""
    planned = result_and_peak(folder, "plan", "c.yaml")[0]["memory_total"]
    result, watched = result_and_peak(folder, "run", "c.yaml")
    taken = max(watched, result["fit"]["peak_memory"])
    print(f"{taken / MB:.0f} MB taken, {planned / MB:.0f} MB planned: {planned / taken:.2f}")
    return planned, taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "shape"),
    [(".npy", (12_500, 8_000)), (".zarr", (12_500, 8_000)), (".parquet", (33_000, 3_000))],
)
def test_rows_larger_than_the_limit_are_fitted_and_scored_within_it(
    suffix: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    """A run by recomputed tiles of over 760 MB of rows stays below plan and limit, imports included."""
    limit = 760 * MB
    changes = {
        "data": {"merge_duplicates": False},
        "kernel": {"gamma": 2e-5},
        "solver": {"tol": 0.1, "precision": "float32", "n_components": 2},
        "gram": {"storage": "recompute"},
        "limits": {"memory": limit},
    }
    configure(tmp_path, suffix, shape, "float64", changes)
    planned, taken = planned_and_taken(tmp_path)
    assert taken <= planned <= limit < shape[0] * shape[1] * 8


F32, F64, MIXED = ({"precision": precision} for precision in ("float32", "float64", "mixed"))
CASES: dict[str, tuple[str, tuple[int, int], str, dict[str, Any]]] = {
    "recompute": (".npy", (12_000, 20), "float32", {"gram": {"storage": "recompute"}}),
    "random start": (".npy", (4_900, 30), "float32", {"gram": {"storage": "recompute"}, "solver": F32}),
    "float64 in Zarr": (".npy", (10_000, 20), "float64", {"gram": {"storage": "zarr"}, "solver": F64}),
    "memory": (".npy", (8_000, 300), "float32", {"gram": {"storage": "memory"}}),
    "dense": (".npy", (2_500, 30), "float64", {"solver": {"method": "dense"}}),
    "many components": (
        ".npy",
        (12_000, 10),
        "float32",
        {
            "kernel": {"gamma": 0.05},
            "gram": {"storage": "recompute"},
            "solver": {"n_components": 40, "tol": 1e-2},
        },
    ),
    "mixed": (".zarr", (6_000, 100), "float64", {"gram": {"storage": "recompute"}, "solver": MIXED}),
    "laplacian": (".npy", (6_000, 10), "float32", {"kernel": {"name": "laplacian"}}),
    "Parquet": (".parquet", (8_000, 40), "float64", {"gram": {"storage": "recompute"}, "solver": MIXED}),
    "merging": (
        ".npy",
        (16_000, 50),
        "float32",
        {
            "data": {"merge_duplicates": True},
            "gram": {"storage": "recompute"},
            "solver": {"tol": 1e-2},
        },
    ),
    "landmarks among all rows": (
        ".npy",
        (400_000, 40),
        "float32",
        {
            "kernel": {"gamma": 0.5},
            "solver": {"method": "nystrom", "tol": 0.1},
            "nystrom": {"landmarks": 150, "method": "rpcholesky", "pool": "all"},
        },
    ),
    "two processes": (
        ".npy",
        (8_000, 50),
        "float32",
        {"gram": {"storage": "zarr"}, "cluster": {"kind": "local"}},
    ),
    "tiles on two processes": (
        ".npy",
        (12_000, 20),
        "float32",
        {"gram": {"storage": "memory"}, "cluster": {"kind": "local"}},
    ),
}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_an_upper_bound_and_a_near_one(tmp_path: Path, name: str) -> None:
    """The planned memory is at least what the largest process takes, imports included, at most 1.5 times."""
    configure(tmp_path, *CASES[name])
    planned, taken = planned_and_taken(tmp_path)
    assert taken <= planned <= 1.5 * taken
