"""Mixed: what float64 eigenvalues cost, and how exact they are.

``python -m tests.benchmarks.mixed``. Clusters for the time; and three real sets of which the eigenvalues are
known without a Gram matrix: Indian Pines, linear; altitude, rbf; letter, poly of degree 2. Each fit in a
process of its own, both precisions in turns; errors are relative to the first eigenvalue.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kpca_stream import KernelPCA
from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import cluster_gamma, clusters, thinned
from tests.benchmarks.harness import MB, Answer, Figure, Question, in_turns, main, median_of, rounds
from tests.benchmarks.jobs import N_COMPONENTS, WARM_ROWS
from tests.benchmarks.known import KNOWN

N_SAMPLES, N_FEATURES = 20_000, 50
CLUSTERS = "clusters, rbf"
PRECISIONS = ("float32", "mixed")


def answer(*, quick: bool) -> Answer:
    """Time against pure float32, errors against exact values."""
    rows = [_row(name, 3000 if quick else 10**9, rounds(quick=quick)) for name in (CLUSTERS, *KNOWN)]
    figures = [
        Figure("clusters: time of mixed / float32", rows[0]["ratio"], 1.7),
        Figure("all: time of mixed / float32, largest", max(row["ratio"] for row in rows), 1.7),
        Figure("error / first eigenvalue, largest", max(row["mixed error"] for row in rows[1:]), 1e-10),
    ]
    return Answer(rows, figures)


def fit(name: str, n_samples: int, precision: str) -> dict[str, Any]:
    """The child's side: one fit, and its largest error where the eigenvalues are known."""
    known = KNOWN.get(name)
    X = thinned(known.load() if known else clusters(N_SAMPLES, N_FEATURES, np.float64), n_samples)
    kernel: dict[str, Any] = known.kernel if known else {"name": "rbf", "gamma": cluster_gamma(N_FEATURES)}
    numbers = {key: value for key, value in kernel.items() if key != "name"}
    model = KernelPCA(
        N_COMPONENTS, kernel=kernel["name"], **numbers, precision=precision, eigen_solver="lanczos", n_jobs=-1
    )
    model.fit(X[:WARM_ROWS])
    found = {**cost_of(lambda: model.fit(X)), "passes": model.n_passes_, "error": "-"}
    if known:
        exact = known.exact(X)[:N_COMPONENTS]
        found["error"] = float(np.abs(model.eigenvalues_ - exact).max() / exact[0])
    return found


def _row(name: str, n_samples: int, times: int) -> dict[str, Any]:
    sides = {
        p: partial(in_child, "mixed:fit", name=name, n_samples=n_samples, precision=p) for p in PRECISIONS
    }
    results = in_turns(sides, times)
    seconds = {p: median_of(found, "seconds") for p, found in results.items()}
    return {
        "data": name,
        **{f"{p} s": seconds[p] for p in PRECISIONS},
        "ratio": seconds["mixed"] / seconds["float32"],
        "passes": "/".join(str(results[p][0]["passes"]) for p in PRECISIONS),
        "MB": "/".join(f"{median_of(results[p], 'peak') / MB:.0f}" for p in PRECISIONS),
        **{f"{p} error": results[p][0]["error"] for p in PRECISIONS},
    }


QUESTION = Question("Mixed: float64 eigenvalues, k = 10, automatic tolerance", answer)

if __name__ == "__main__":
    main(QUESTION)
