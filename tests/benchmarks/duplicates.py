"""Duplicates: all 9,331,200 cells of the world's altitude grid, of which 245 differ; rbf, γ = 1e-4.

``python -m tests.benchmarks.duplicates``: ``kpca-stream fit`` with its defaults, which merge equal rows,
against the weighted kernel matrix of the 245 values in float64 and the published eigenvalues. In turns with
it, the file is read block by block, as every fit must. Beside it, the same by 300 landmarks, equal rows
merged and not.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.commandline import configure, fit
from tests.benchmarks.data import altitude, thinned
from tests.benchmarks.harness import Answer, Figure, Question, in_turns, main, median_of, rounds
from tests.benchmarks.known import distinct_eigenvalues

GAMMA = 1e-4
PUBLISHED = (3613460.278, 381316.1263, 60401.60039, 6863.204377)
SETTINGS = {"kernel.name": "rbf", "kernel.gamma": GAMMA, "solver.n_components": len(PUBLISHED)}
TOLERANCE = 1e-9
SECONDS = 10
NYSTROM = {**SETTINGS, "solver.method": "nystrom", "nystrom.landmarks": 300}
NYSTROM_TOLERANCE = 1e-6


def answer(*, quick: bool) -> Answer:
    """Fit and read in turns; with fewer rows nothing is published."""
    X = thinned(altitude(1), 100_000) if quick else altitude(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, X)
        found = in_turns(
            {
                "fit": lambda: fit(folder, SETTINGS),
                "read": lambda: in_child("duplicates:read", path=str(folder / "rows.npy")),
            },
            rounds(quick=quick),
        )
        approximate = {
            merges: fit(folder, {**NYSTROM, "data.merge_duplicates": merges}) for merges in ("auto", False)
        }
    result = found["fit"][0]["result"]
    seconds, reading = (median_of(found[side], "seconds") for side in ("fit", "read"))
    eigenvalues = np.array(result["eigenvalues"])
    exact = distinct_eigenvalues(X, GAMMA)[: len(PUBLISHED)]
    row: dict[str, Any] = {
        "n": result["n_samples"],
        "distinct": result["n_distinct"],
        "fit s": seconds,
        "reading s": reading,
        "peak MB above start": (found["fit"][0]["peak"] - found["fit"][0]["before"]) / 1e6,
        "exact": float(np.abs(eigenvalues / exact - 1).max()),
        "published": "-" if quick else float(np.abs(eigenvalues / PUBLISHED - 1).max()),
    }
    sides = ("exact",) if quick else ("exact", "published")
    figures = [
        Figure("seconds beyond reading", seconds - reading, SECONDS),
        *(Figure(f"largest difference from {side}", row[side], TOLERANCE) for side in sides),
    ]
    for merges, each in approximate.items():
        row[f"landmarks, merging {merges}: s"] = each["seconds"]
        error = float(np.abs(np.array(each["result"]["eigenvalues"]) / exact - 1).max())
        figures.append(Figure(f"by landmarks, merging {merges}, from exact", error, NYSTROM_TOLERANCE))
    return Answer([row], figures)


def read(path: str) -> dict[str, Any]:
    """The child's side: all rows, block by block."""
    from kpca_stream.storage.source import open_source

    source = open_source(path)
    return cost_of(lambda: sum(len(block) for block in source.blocks(0, source.n_samples)))


QUESTION = Question("Duplicates: altitude, rbf, equal rows merged; differences of its eigenvalues", answer)

if __name__ == "__main__":
    main(QUESTION)
