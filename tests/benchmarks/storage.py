"""Storage: how far `storage: auto` is from the best of memory, zarr and recompute.

``python -m tests.benchmarks.storage``. Six fits through the command line, each in a process of its own, all
four storages in turns; "-" where the limit of memory refuses a storage.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.commandline import configure, fit, plan
from tests.benchmarks.data import clusters
from tests.benchmarks.harness import MB, Answer, Question, in_turns, main, median_of, rounds

STORAGES = ("auto", "memory", "zarr", "recompute")
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "rbf, 4GiB": (20_000, 50, {"kernel.name": "rbf"}),
    "rbf, 1GiB": (30_000, 16, {"kernel.name": "rbf", "limits.memory": "1GiB"}),
    "rbf, wide, 1GiB": (20_000, 784, {"kernel.name": "rbf", "limits.memory": "1GiB"}),
    "laplacian, 1GiB": (20_000, 50, {"kernel.name": "laplacian", "limits.memory": "1GiB"}),
    "poly, 1GiB": (30_000, 64, {"kernel.name": "poly", "kernel.degree": 3, "limits.memory": "1GiB"}),
    "own, 1GiB": (20_000, 50, {"kernel.name": "tests.benchmarks.own:matern", "limits.memory": "1GiB"}),
}
DEFAULTS = {"kernel.gamma": None, "solver.precision": "float32", "solver.tol": 1e-5}


def answer(*, quick: bool) -> Answer:
    """No figure was asked: the table shows how far."""
    names = list(CASES)[::5] if quick else list(CASES)
    return Answer([_row(name, 0.2 if quick else 1.0, rounds(quick=quick)) for name in names])


def _row(name: str, scale: float, times: int) -> dict[str, Any]:
    n_samples, n_features, settings = CASES[name]
    n_samples = int(scale * n_samples)
    with tempfile.TemporaryDirectory() as folder:
        configure(Path(folder), clusters(n_samples, n_features))
        sides = _sides(Path(folder), {**DEFAULTS, **settings})
        results = in_turns(sides, times)
    seconds = {storage: median_of(results[storage], "seconds") for storage in sides}
    best = min(value for storage, value in seconds.items() if storage != "auto")
    return {
        "case": name,
        "n": n_samples,
        "d": n_features,
        "chosen": results["auto"][0]["storage"],
        **{f"{storage} s": seconds.get(storage, "-") for storage in STORAGES},
        "auto / best": seconds["auto"] / best,
        "auto MB": median_of(results["auto"], "peak") / MB,
    }


def _sides(folder: Path, settings: dict[str, Any]) -> dict[str, Callable[[], dict[str, Any]]]:
    chosen = {storage: {**settings, "gram.storage": storage} for storage in STORAGES}
    allowed = {storage: each for storage, each in chosen.items() if not plan(folder, each)["refusals"]}
    return {storage: partial(_fit, folder, each) for storage, each in allowed.items()}


def _fit(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    found = fit(folder, settings)
    return {
        "seconds": found["result"]["seconds"],
        "storage": found["result"]["storage"],
        "peak": found["peak"],
    }


QUESTION = Question("Storage: auto beside the best of the three, k = 10, tol 1e-5, float32", answer)

if __name__ == "__main__":
    main(QUESTION)
