"""The report of millions of rows: all cells of the world's turbidity grid, fitted by landmarks and scored.

``python -m tests.benchmarks.page``: ``kpca-stream run`` of 9,331,200 × 12, rbf, median γ, 10 components and
1,000 landmarks, which scores every row, then ``kpca-stream report``, each in a process of its own. What is
asked is asked of the report: a page below 2 MB, made within a minute and within 1 GB.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.child import in_child
from tests.benchmarks.commandline import configure_zarr
from tests.benchmarks.data import thinned, turbidity
from tests.benchmarks.harness import Answer, Figure, Question, main
from tests.benchmarks.turbidity import SETTINGS

SCORED = {"score": {"input": {"path": "rows.zarr", "settle_seconds": 0}, "output": "scores"}}
STEPS = ("run", "report")


def answer(*, quick: bool) -> Answer:
    """A fit with all its scores, and the page about both."""
    X = thinned(turbidity(), 200_000) if quick else turbidity()
    with tempfile.TemporaryDirectory() as name:
        configure_zarr(Path(name), X)
        del X
        return measured(Path(name))


def measured(folder: Path) -> Answer:
    """The commands in a folder with rows and their configuration; the page stays there as report.html."""
    settings = {**SETTINGS, **SCORED}
    found = {
        command: in_child("commandline:perform", cwd=folder, command=command, settings=settings)
        for command in STEPS
    }
    told = found["report"]["result"]
    figures = [
        Figure("page, MB", told["n_bytes"] / 1e6, 2.0),
        Figure("report: peak memory, GB", found["report"]["peak"] / 1e9, 1.0),
        Figure("report: seconds", found["report"]["seconds"], 60.0),
    ]
    return Answer([_row(command, each, told) for command, each in found.items()], figures)


def _row(command: str, found: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": command,
        "rows": told["n_rows"],
        "parts": told["n_parts"],
        "seconds": found["seconds"],
        "peak GB": found["peak"] / 1e9,
    }


QUESTION = Question("Report: 9,331,200 scored rows, by 1,000 landmarks, through the command line", answer)

if __name__ == "__main__":
    main(QUESTION)
