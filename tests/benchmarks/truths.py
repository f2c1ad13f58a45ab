"""Truths: full-size real data of which the eigenvalues are known without a Gram matrix.

``python -m tests.benchmarks.truths``: Indian Pines (tensorly), linear, uint16, 21,025 × 200, against the
eigenvalues of its scatter matrix; altitude (pvlib), every 200th, n = 46,656, rbf, γ = 1e-4, against the
weighted kernel matrix of its 218 distinct values. Both in mixed precision, through the command line.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.commandline import configure, fit
from tests.benchmarks.data import thinned
from tests.benchmarks.harness import Answer, Figure, Question, main
from tests.benchmarks.known import KNOWN

PUBLISHED = {
    "Indian Pines, linear": (5.633793574e11, 1.935516597e11, 1.2307908e10, 6.757393155e9),
    "altitude, rbf": (18036.28989, 1908.474434, 305.7561041, 34.92817166),
}
SETTINGS = {"solver.n_components": 4, "solver.precision": "mixed", "gram.storage": "recompute"}


def answer(*, quick: bool) -> Answer:
    """Fit, and compare with both truths; with fewer rows nothing is published."""
    rows = [_row(name, quick=quick) for name in PUBLISHED]
    sides = ("exact",) if quick else ("exact", "published")
    figures = [
        Figure(f"largest difference from {side}", max(row[side] for row in rows), 1e-6) for side in sides
    ]
    return Answer(rows, figures)


def _row(name: str, *, quick: bool) -> dict[str, Any]:
    known = KNOWN[name]
    X = thinned(known.load(), 5000) if quick else known.load()
    with tempfile.TemporaryDirectory() as folder:
        configure(Path(folder), X)
        measured = fit(Path(folder), {**{f"kernel.{k}": v for k, v in known.kernel.items()}, **SETTINGS})
    found = np.array(measured["result"]["eigenvalues"])
    return {
        "data": name,
        "n": len(X),
        "seconds": measured["seconds"],
        "passes": measured["result"]["n_passes"],
        "peak GB": measured["peak"] / 1e9,
        "exact": float(np.abs(found / known.exact(X)[:4] - 1).max()),
        "published": "-" if quick else float(np.abs(found / PUBLISHED[name] - 1).max()),
    }


QUESTION = Question("Truths: known eigenvalues, mixed precision; differences from them", answer)

if __name__ == "__main__":
    main(QUESTION)
