"""Plans: what `plan` says a fit will take, beside what the fit then takes.

``python -m tests.benchmarks.plans``. Both through the command line, each in processes of its own. Memory is
the peak of the largest process, imports included, as `top` would show it; disk the most that the run's store
held, and the basis; time that of the fit without the start of Python, the median of three; "scoring" that of
4,000 rows. How many passes a solve takes is
known afterwards only: the disk is also set beside what the plan gives for the passes that were taken.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.fitplan import START_ROWS
from kpca_stream.numerics.eigensolve import GUARD_COLUMNS, block_width
from tests.benchmarks.child import ROOT, size_of, watch
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main, rounds

STORE = "work/gram.zarr"
N_COMPONENTS = 10
SCORED_ROWS = 4000


@dataclass(frozen=True)
class Case:
    """A fit of the clusters: their rows and columns, the kind of their file, and settings."""

    name: str
    n_samples: int
    n_features: int
    suffix: str
    settings: dict[str, Any]

    def write(self, folder: Path) -> None:
        """The rows, and a configuration that reads them; of rows that are merged a hundredth are copies."""
        X = clusters(self.n_samples, self.n_features)
        if self.settings.get("data.merge_duplicates") is True:
            n_copies = len(X) // 100
            X[-n_copies:] = X[:n_copies]
        write_rows(folder / f"rows{self.suffix}", X)
        text = f"name: benchmark\ndata: {{train: {{path: rows{self.suffix}}}}}\n"
        (folder / "config.yaml").write_text(text, encoding="utf-8")


def write_rows(path: Path, X: NDArray[Any]) -> None:
    """As npy, or as Parquet by its suffix."""
    if path.suffix == ".npy":
        np.save(path, X)
    else:
        pq.write_table(pa.table({f"x{j}": column for j, column in enumerate(X.T)}), path)


def _case(name: str, storage: str, precision: str, **settings: Any) -> Case:
    """Of a name that begins with rows in thousands and columns, as 20k×50; `suffix` that of the file."""
    thousands, n_features = name.split(maxsplit=1)[0].split("k×")
    suffix = settings.pop("suffix", ".npy")
    more = {key.replace("__", "."): value for key, value in settings.items()}
    chosen = {"gram.storage": storage, "solver.precision": precision, **more}
    return Case(name, int(float(thousands) * 1000), int(n_features), suffix, chosen)


CASES = (
    _case("3k×50 dense f64", "recompute", "float64", solver__method="dense"),
    _case("4k×50 recompute f32, random start", "recompute", "float32"),
    _case("5k×50 zarr mixed", "zarr", "mixed"),
    _case("10k×50 memory f32", "memory", "float32"),
    _case("10k×784 recompute mixed", "recompute", "mixed"),
    _case("20k×50 memory f64", "memory", "float64"),
    _case("20k×50 zarr f32", "zarr", "float32"),
    _case("20k×50 zarr mixed, 1 worker", "zarr", "mixed", cluster__n_workers=1),
    _case("20k×50 recompute f64", "recompute", "float64"),
    _case("20k×50 recompute f32, 4 workers", "recompute", "float32", cluster__n_workers=4),
    _case("20k×16 laplacian f32", "recompute", "float32", kernel__name="laplacian"),
    _case("20k×50 recompute f32, k = 50", "recompute", "float32", solver__n_components=50),
    _case("20k×50 zarr f32, 2 processes", "zarr", "float32", cluster__kind="local", cluster__n_workers=2),
    _case("20k×50 memory f32, 2 processes", "memory", "float32", cluster__kind="local", cluster__n_workers=2),
    _case("20k×50 mixed, Parquet", "recompute", "mixed", suffix=".parquet"),
    _case("40k×100 recompute f32, merging", "recompute", "float32", data__merge_duplicates=True),
    _case("40k×50 recompute mixed", "recompute", "mixed"),
    _case("60k×16 recompute f32", "recompute", "float32"),
)
DEFAULTS = {"kernel.name": "rbf", "solver.method": "lanczos", "solver.tol": 1e-6, "limits.memory": "8GiB"}


def answer(*, quick: bool) -> Answer:
    """Ratios of forecast to measured."""
    rows = [row_of(case, times=rounds(quick=quick)) for case in CASES]
    keys = ("memory", "time", "disk, same passes", "scoring")
    memory, times, disk, scoring = ([row[key] for row in rows] for key in keys)
    figures = [
        Figure("forecast memory / peak, smallest", min(memory), 1.0, is_least=True),
        Figure("forecast memory / peak, largest", max(memory), 1.5),
        Figure("time, largest factor between forecast and measured", max(max(t, 1 / t) for t in times), 2.0),
        Figure("time of scoring, largest factor", max(max(s, 1 / s) for s in scoring), 2.0),
        Figure("disk for the passes taken, largest factor", max(max(d, 1 / d) for d in disk), 1.02),
    ]
    return Answer(rows, figures)


def row_of(case: Case, *, times: int = 1) -> dict[str, Any]:
    """One case: forecast, measured, and the ratios of these."""
    settings = {**DEFAULTS, "kernel.gamma": cluster_gamma(case.n_features), **case.settings}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.write(folder)
        forecast = measured("plan", folder, settings)["result"]
        taken = [measured("fit", folder, settings) for _ in range(times)]
        scoring = scoring_of(folder, case, settings)
    seconds = statistics.median(found["result"]["seconds"] for found in taken)
    peak, disk = (max(found[key] for found in taken) for key in ("peak", "disk"))
    passes = taken[0]["result"]["n_passes"]
    same_passes = forecast["disk_total"] - (forecast["passes"] - passes) * bytes_of_a_pass(case)
    return {
        "case": case.name,
        "MB": forecast["memory_total"] / MB,
        "peak": peak / MB,
        "memory": forecast["memory_total"] / peak,
        "s": forecast["seconds"],
        "took": seconds,
        "time": forecast["seconds"] / seconds,
        "disk MB": forecast["disk_total"] / MB,
        "used": disk / MB,
        "disk": forecast["disk_total"] / disk,
        "disk, same passes": same_passes / disk,
        "passes": forecast["passes"],
        "needed": passes,
        "scoring": scoring,
    }


def scoring_of(folder: Path, case: Case, settings: dict[str, Any]) -> float:
    """Forecast / measured time of scoring some of the rows by what was fitted last."""
    n_rows = min(SCORED_ROWS, case.n_samples)
    asked = {"input": {"path": f"rows{case.suffix}", "rows": f"0:{n_rows}"}, "output": "scores"}
    chosen = {**settings, "score": asked}
    forecast, taken = (run(command, folder, chosen)["result"] for command in ("plan", "score"))
    return float(forecast["scoring_seconds"] / taken["seconds"])


def bytes_of_a_pass(case: Case) -> int:
    """What a pass leaves in the store: its product, of a start from landmarks with some columns more."""
    n_components = int(case.settings.get("solver.n_components", N_COMPONENTS))
    guards = GUARD_COLUMNS if case.n_samples >= START_ROWS else 0
    return 8 * case.n_samples * (block_width(n_components, case.n_samples) + guards)


def measured(command: str, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """``python -m kpca_stream COMMAND`` from nothing: ``result``, and ``peak`` and ``disk`` in bytes."""
    for leftover in ("work", "models"):
        rmtree(folder / leftover, ignore_errors=True)
    found = run(command, folder, settings)
    return {**found, "disk": found["disk"] + size_of(folder / "models")}


def run(command: str, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The same with what is there; ``disk`` is that of the run's store alone."""
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    arguments = [sys.executable, "-m", "kpca_stream", command, "config.yaml", "--json", "--quiet", *overrides]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with watch(folder / STORE) as seen:
        done = subprocess.run(
            arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
    result = json.loads(done.stdout).get("result")
    if result is None:
        raise SystemExit(f"{command} {settings}: {done.stdout}")
    # The process itself tells its peak once more, at the end, which the watch may have missed.
    peaks = [*seen.processes.values(), result.get("peak_memory", 0)]
    return {"result": result, "peak": max(peaks), "peaks": peaks, "disk": seen.folder}


QUESTION = Question("Plans: forecast and measured; the ratios are forecast / measured", answer)

if __name__ == "__main__":
    main(QUESTION)
