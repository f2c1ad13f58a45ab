"""Turbidity: all 9,331,200 cells of the world's turbidity grid × 12 months, rbf, by 1,000 landmarks.

``python -m tests.benchmarks.turbidity``: ``kpca-stream fit`` from a Zarr array, median γ, 10 components,
precision float32; between two fits, the GEMMs and exps of the same pass alone: same rows, landmarks, type and
threads. A third of the rows differ, which a fit by default finds out and makes use of. With the default
tolerance similarities are float64, since by float32 ones 0.1 % of the trace is out of reach: a tolerance of
1 % takes float32. Seconds are those of the whole process, its start and imports included.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from dask.system import CPU_COUNT

from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.commandline import configure_zarr, fit
from tests.benchmarks.data import thinned, turbidity
from tests.benchmarks.harness import Answer, Figure, Question, main, median_of

N_LANDMARKS = 1000
SETTINGS = {
    "kernel.name": "rbf",
    "kernel.gamma": "median",
    "solver.method": "nystrom",
    "solver.n_components": 10,
    "solver.precision": "float32",
    "nystrom.landmarks": N_LANDMARKS,
}
WAYS: dict[str, dict[str, Any]] = {
    "every row, tol 0.01": {"data.merge_duplicates": False, "solver.tol": 0.01},
    "merged, tol 0.01": {"solver.tol": 0.01},
    "merged": {},
}
SECONDS = 150


def answer(*, quick: bool) -> Answer:
    """Each way of fitting, in turns with its arithmetic."""
    X = thinned(turbidity(), 200_000) if quick else turbidity()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = configure_zarr(folder, X)
        del X
        rows = [_row(way, folder, path, quick=quick) for way in WAYS]
    figures = [
        Figure("peak memory, GB", max(row["peak GB"] for row in rows), 2.0),
        Figure("seconds", max(row["seconds"] for row in rows), SECONDS),
        *(Figure(f"{row['rows']}: time / its GEMMs and exps", row["ratio"], 1.5) for row in rows),
    ]
    return Answer(rows, figures)


def _row(way: str, folder: Path, path: Path, *, quick: bool) -> dict[str, Any]:
    settings = {**SETTINGS, **WAYS[way]}
    fits = [_fit(folder, settings)]
    result, precision = fits[0]["result"], fits[0]["precision"]
    n_rows = result["n_distinct"] or result["n_samples"]
    alone = partial(in_child, "turbidity:alone", path=str(path), gamma=result["gamma"], precision=precision)
    bare = [alone(n_rows=n_rows) for _ in range(1 if quick else 2)]
    fits += [] if quick else [_fit(folder, settings)]
    seconds, floor = median_of(fits, "seconds"), median_of(bare, "seconds")
    return {
        "rows": way,
        "distinct": result["n_distinct"] or "-",
        "similarities": precision,
        "seconds": seconds,
        "GEMMs and exps s": floor,
        "ratio": seconds / floor,
        "peak GB": max(each["peak"] for each in fits) / 1e9,
        "first eigenvalue": result["eigenvalues"][0],
    }


def _fit(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    from kpca_stream.storage.basis import open_basis

    began = time.perf_counter()
    found = fit(folder, settings)
    found["seconds"] = time.perf_counter() - began
    found["precision"] = open_basis(folder / found["result"]["basis"]).precision
    return found


def alone(path: str, n_rows: int, gamma: float, precision: str) -> dict[str, Any]:
    """The child's side: the arithmetic of a pass over the first rows."""
    import zarr

    from kpca_stream.numerics.forecast import Shape
    from kpca_stream.numerics.rowcut import RowCut
    from tests.benchmarks.bare import BareRowPass

    X = np.asarray(zarr.open_array(path, mode="r")[:n_rows])
    dtype = np.dtype(precision)
    cut = RowCut.of(Shape(*X.shape, 1, "rbf", dtype.itemsize), N_LANDMARKS)
    bare = BareRowPass(X, X[:N_LANDMARKS], gamma, dtype, cut.block_rows, CPU_COUNT)
    return cost_of(bare.run)


QUESTION = Question("Turbidity: 9,331,200 × 12, rbf, 1,000 landmarks, through the command line", answer)

if __name__ == "__main__":
    main(QUESTION)
