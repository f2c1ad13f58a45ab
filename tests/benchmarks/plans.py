"""Plans: what `plan` says a fit will take, beside what the fit then takes.

``python -m tests.benchmarks.plans``. Both through the command line, each fit in a process of its own. Memory
is the peak of the largest process, imports included; disk the most that the run's store held; time that of
the fit without the start of Python.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.commandline import configure, fit, plan
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main


@dataclass(frozen=True)
class Case:
    """A fit of the clusters: their size in thousands of rows, and settings."""

    name: str
    thousands: int
    n_features: int
    settings: dict[str, Any]


def _case(name: str, storage: str, precision: str, **settings: Any) -> Case:
    """Of a name that begins with thousands of rows and columns, as 20k×50."""
    thousands, n_features = name.split(maxsplit=1)[0].split("k×")
    more = {key.replace("__", "."): value for key, value in settings.items()}
    chosen = {"gram.storage": storage, "solver.precision": precision, **more}
    return Case(name, int(thousands), int(n_features), chosen)


CASES = (
    _case("4k×50 dense f64", "recompute", "float64", solver__method="dense"),
    _case("10k×50 memory f32", "memory", "float32"),
    _case("10k×784 recompute mixed", "recompute", "mixed"),
    _case("20k×50 memory f32", "memory", "float32"),
    _case("20k×50 memory f64", "memory", "float64"),
    _case("20k×50 zarr f32", "zarr", "float32"),
    _case("20k×50 zarr mixed, 1 worker", "zarr", "mixed", cluster__n_workers=1),
    _case("20k×50 recompute f64", "recompute", "float64"),
    _case("20k×50 recompute, 4 workers", "recompute", "float32", cluster__n_workers=4),
    _case("20k×16 laplacian f32", "recompute", "float32", kernel__name="laplacian"),
    _case("20k×50 recompute, k = 50", "recompute", "float32", solver__n_components=50),
    _case("20k×50 zarr, 2 processes", "zarr", "float32", cluster__kind="local", cluster__n_workers=2),
    _case("40k×50 recompute mixed", "recompute", "mixed"),
    _case("40k×50 zarr f32", "zarr", "float32"),
    _case("80k×16 recompute f32", "recompute", "float32"),
)
QUICK = 4
DEFAULTS = {"kernel.name": "rbf", "solver.method": "lanczos", "solver.tol": 1e-6, "limits.memory": "8GiB"}


def answer(*, quick: bool) -> Answer:
    """Ratios of forecast to measured."""
    rows = [_row(case, 0.2 if quick else 1.0) for case in (CASES[:QUICK] if quick else CASES)]
    memory, times, disk = ([row[key] for row in rows] for key in ("memory", "time", "disk"))
    figures = [
        Figure("forecast memory / peak, smallest", min(memory), 1.0, is_least=True),
        Figure("forecast memory / peak, largest", max(memory), 1.5),
        Figure("time, largest factor between forecast and measured", max(max(t, 1 / t) for t in times), 2.0),
        Figure("disk, largest factor between forecast and measured", max(max(d, 1 / d) for d in disk), 1.02),
    ]
    return Answer(rows, figures)


def _row(case: Case, scale: float) -> dict[str, Any]:
    rows = clusters(int(1000 * scale * case.thousands), case.n_features)
    settings = {**DEFAULTS, "kernel.gamma": cluster_gamma(case.n_features), **case.settings}
    with tempfile.TemporaryDirectory() as folder:
        configure(Path(folder), rows)
        forecast, taken = plan(Path(folder), settings), fit(Path(folder), settings)
    seconds = taken["result"]["seconds"]
    return {
        "case": case.name,
        "MB": forecast["memory_total"] / MB,
        "peak": taken["peak"] / MB,
        "memory": forecast["memory_total"] / taken["peak"],
        "s": forecast["seconds"],
        "took": seconds,
        "time": forecast["seconds"] / seconds,
        "disk MB": forecast["disk_total"] / MB,
        "used": taken["disk"] / MB,
        "disk": forecast["disk_total"] / taken["disk"],
    }


QUESTION = Question("Plans: forecast and measured; the ratios are forecast / measured", answer)

if __name__ == "__main__":
    main(QUESTION)
