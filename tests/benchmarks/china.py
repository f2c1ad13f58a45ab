"""China: 66,570 image patches on a laptop's memory; tiles on disk against tiles computed again.

``python -m tests.benchmarks.china``: scikit-learn's ``china.jpg`` as 8×8 grey patches at stride 2, rbf with
the median γ, 10 components, tol 1e-6, float32, through the command line. The matrix takes 17.7 GB; needs 10
GB of disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.commandline import configure, fit
from tests.benchmarks.data import china_patches, thinned
from tests.benchmarks.harness import Answer, Figure, Question, main

SETTINGS = {
    "kernel.name": "rbf",
    "kernel.gamma": "median",
    "solver.n_components": 10,
    "solver.tol": 1e-6,
    "solver.precision": "float32",
    "limits.memory": "1GiB",
}
STORAGES = ("recompute", "zarr")


def answer(*, quick: bool) -> Answer:
    """Fit with both storages and compare."""
    X = thinned(china_patches(), 6000 if quick else 10**9)
    with tempfile.TemporaryDirectory() as folder:
        configure(Path(folder), X)
        found = {storage: fit(Path(folder), {**SETTINGS, "gram.storage": storage}) for storage in STORAGES}
    recomputed, stored = (np.array(each["result"]["eigenvalues"]) for each in found.values())
    figures = [
        Figure(
            "eigenvalues, largest relative difference", float(np.abs(stored / recomputed - 1).max()), 1e-5
        ),
        Figure("peak memory, GB", max(each["peak"] for each in found.values()) / 1e9, 1.5),
        Figure("passes", max(each["result"]["n_passes"] for each in found.values()), 8),
    ]
    return Answer([_row(storage, each) for storage, each in found.items()], figures)


def _row(storage: str, found: dict[str, Any]) -> dict[str, Any]:
    result = found["result"]
    return {
        "storage": storage,
        "seconds": found["seconds"],
        "passes": result["n_passes"],
        "peak GB": found["peak"] / 1e9,
        "first eigenvalue": result["eigenvalues"][0],
        "largest residual": max(result["residual_norms"]),
    }


QUESTION = Question("China: china.jpg, 66,570 × 64, rbf, float32, tol 1e-6", answer)

if __name__ == "__main__":
    main(QUESTION)
