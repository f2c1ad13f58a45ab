"""Scheduler: the same pass through Dask's threads, two local processes, and a bare thread pool.

``python -m tests.benchmarks.scheduler``. Clusters, d = 50, recomputed tiles, rows and vectors in a file. All
three run the same task functions and fold their results in the same order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.stages.gram import Gram
from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main, median_seconds
from tests.benchmarks.operators import block, prepare

Array = NDArray[Any]

N_WORKERS = 2
BARE = "bare pool"
LIMITS = {"Dask threads": 1.10, "two processes": 1.25}


def answer(*, quick: bool) -> Answer:
    """Both ways of Dask against the bare pool."""
    found = in_child("scheduler:passes_of", n_samples=10_000 if quick else 50_000, n_features=50)
    rows = [
        {
            "scheduler": side,
            "pass s": found[side],
            "ratio": found[side] / found[BARE],
            "equal bits": found["equal bits"],
            "client's peak MB": found["peak"] / MB,
        }
        for side in (BARE, *LIMITS)
    ]
    figures = [
        Figure(f"a pass through {side} / {BARE}", found[side] / found[BARE], limit)
        for side, limit in LIMITS.items()
    ]
    return Answer(rows, figures)


def passes_of(n_samples: int, n_features: int) -> dict[str, Any]:
    """Medians of a pass through each, in turns, and whether all gave the same bits."""
    with tempfile.TemporaryDirectory() as name, single_threaded_blas():
        folder = Path(name)
        np.save(folder / "rows.npy", clusters(n_samples, n_features))
        ready = prepare(
            folder / "rows.npy",
            cluster_gamma(n_features),
            store=folder / "gram.zarr",
            storage="recompute",
            method="lanczos",
            precision="float32",
        )
        return _measured(ready.gram(), block(n_samples))


def _measured(gram: Gram, V: Array) -> dict[str, Any]:
    products: dict[str, Array] = {}

    def through_dask() -> Array:
        return gram.multiply(V)

    def through_threads() -> Array:
        with connect("threads", n_workers=N_WORKERS):
            return gram.multiply(V)

    def through_pool() -> Array:
        with patch.object(passes, "run", _run_bare):
            return gram.multiply(V)

    def keeping(name: str, work: Callable[[], Array]) -> Callable[[], None]:
        return lambda: products.update({name: work()})

    sides = {BARE: through_pool, "Dask threads": through_threads, "two processes": through_dask}
    seconds: dict[str, float] = {}
    with connect("local", n_workers=N_WORKERS):
        through_dask()  # the first task of a process imports what all others use
        works = {name: keeping(name, work) for name, work in sides.items()}
        cost = cost_of(lambda: seconds.update(median_seconds(works)))
    equal = all(np.array_equal(product, products[BARE]) for product in products.values())
    return {**cost, **seconds, "equal bits": equal}


def _run_bare(calls: Sequence[passes.Call], fold: Callable[[int, Any], None], **_: Any) -> None:
    """What `passes.run` does, through a pool."""
    with ThreadPoolExecutor(N_WORKERS) as pool:
        for index, result in enumerate(pool.map(lambda call: call.function(*call.arguments), list(calls))):
            fold(index, result)


QUESTION = Question("Scheduler: one pass, clusters, d = 50, recomputed, through Dask and without it", answer)

if __name__ == "__main__":
    main(QUESTION)
