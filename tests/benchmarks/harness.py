"""What all benchmarks share: sides measured in turns, figures beside what was asked, one command line."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.benchmarks.table import machine, show

T = TypeVar("T")

ROUNDS = 3
MB = 1e6


@dataclass(frozen=True)
class Figure:
    """One number that was asked for.

    Parameters
    ----------
    name : str
    value : float
    asked : float
        Its limit: from above, or with `is_least` from below.
    """

    name: str
    value: float
    asked: float
    is_least: bool = False

    def row(self) -> dict[str, Any]:
        """As a line of a table."""
        met = self.value >= self.asked if self.is_least else self.value <= self.asked
        asked = f"{'≥' if self.is_least else '≤'} {self.asked:g}"
        return {
            "figure": self.name,
            "measured": float(self.value),
            "asked": asked,
            "": "met" if met else "not met",
        }


@dataclass(frozen=True)
class Answer:
    """What a benchmark found: all that was measured, and the figures that follow."""

    rows: Sequence[Mapping[str, Any]]
    figures: Sequence[Figure] = ()


class Measurement(Protocol):
    """What answers a question."""

    def __call__(self, *, quick: bool) -> Answer:
        """Measure, at full size or small."""


@dataclass(frozen=True)
class Question:
    """One benchmark.

    Parameters
    ----------
    title : str
    answer : callable
        ``answer(quick=...)``; quick takes small sizes, to see that it works.
    plot : callable, optional
        ``plot(answer, path)`` draws it; adds the option ``--plot FILE``.
    """

    title: str
    answer: Measurement
    plot: Callable[[Answer, Path], None] | None = None


def main(question: Question) -> None:
    """Measure one question as the command line asks, print it, and write it as JSON."""
    options = arguments(question.title, plots=question.plot is not None)
    answer = question.answer(quick=options.quick)
    title = question.title + (" (quick)" if options.quick else "")
    show(title, answer.rows)
    if answer.figures:
        show("asked", [figure.row() for figure in answer.figures])
    found = {
        "question": title,
        "rows": [dict(row) for row in answer.rows],
        "figures": [figure.row() for figure in answer.figures],
        "machine": machine(),
    }
    text = json.dumps(found, ensure_ascii=False)
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text + "\n", encoding="utf-8")
    if question.plot is not None and options.plot is not None:
        question.plot(answer, options.plot)


def arguments(description: str, *, plots: bool = False) -> argparse.Namespace:
    """The options that every benchmark takes, ``quick`` and ``json``, and ``plot`` of those that draw."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the JSON here instead of printing it"
    )
    if plots:
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it here; needs matplotlib")
    return parser.parse_args()


def rounds(*, quick: bool) -> int:
    """How often each side is measured where a round takes long."""
    return 1 if quick else ROUNDS


def in_turns(sides: Mapping[str, Callable[[], T]], times: int = ROUNDS) -> dict[str, list[T]]:
    """Results of all sides, `times` of each; every round begins with another side."""
    names = list(sides)
    found: dict[str, list[T]] = {name: [] for name in names}
    for k in range(times):
        first = k % len(names)
        for name in [*names[first:], *names[:first]]:
            found[name].append(sides[name]())
    return found


def median_seconds(
    sides: Mapping[str, Callable[[], object]],
    times: int = ROUNDS,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Median times of all sides, measured in turns; what is done `before` each does not count."""
    taken = in_turns({name: _timed(work, before) for name, work in sides.items()}, times)
    return {name: statistics.median(values) for name, values in taken.items()}


def median_of(results: Sequence[Mapping[str, Any]], key: str) -> float:
    """The median of one value over the rounds of a side."""
    return float(statistics.median(result[key] for result in results))


def _timed(work: Callable[[], object], before: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        before()
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return seconds
