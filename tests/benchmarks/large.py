"""Large: clusters, n = 100,000, d = 50, tiles computed again in each pass, 10 components to 1e-5.

``python -m tests.benchmarks.large``. A fit in a process of its own gives memory and passes; then, in turns in
one process, a pass of the package against its GEMMs and exps alone: same tiles, strips and threads.
"""

from __future__ import annotations

from typing import Any

from dask.system import CPU_COUNT

from kpca_stream.cluster import connect, single_threaded_blas
from tests.benchmarks.bare import BarePass
from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main, median_seconds
from tests.benchmarks.operators import block, prepare

TOL = 1e-5
N_FEATURES = 50


def answer(*, quick: bool) -> Answer:
    """Memory, passes, and a pass against its floor."""
    size: dict[str, Any] = {"n_samples": 10_000 if quick else 100_000, "n_features": N_FEATURES}
    fit = in_child("jobs:fit_ours", **size, tol=TOL, storage="recompute")
    one = in_child("large:one_pass", **size)
    row = {
        "fit s": fit["seconds"],
        "peak MB": fit["peak"] / MB,
        "passes": fit["passes"],
        "residual": fit["residual"],
        "fit s / pass": fit["seconds"] / fit["passes"],
        "pass s": one["pass"],
        "GEMMs and exps s": one["bare"],
        "ratio": one["pass"] / one["bare"],
    }
    figures = [
        Figure("peak memory, GB", fit["peak"] / 1e9, 1.0),
        Figure("passes", fit["passes"], 6),
        Figure("a pass / its GEMMs and exps alone", row["ratio"], 1.25),
    ]
    return Answer([row], figures)


def one_pass(n_samples: int, n_features: int) -> dict[str, Any]:
    """Medians of a pass, the package's and the bare one."""
    X, gamma, V = clusters(n_samples, n_features), cluster_gamma(n_features), block(n_samples)
    with single_threaded_blas(), connect("threads"):
        ready = prepare(X, gamma, storage="recompute", method="lanczos", precision="float32")
        gram = ready.gram()
        bare = BarePass(X, gamma, ready.plan.grid, CPU_COUNT)
        seconds: dict[str, float] = {}
        cost = cost_of(
            lambda: seconds.update(
                median_seconds({"pass": lambda: gram.multiply(V), "bare": lambda: bare.multiply(V)})
            )
        )
    return {**cost, **seconds}


QUESTION = Question("Large: clusters, n = 100,000, d = 50, k = 10, tol 1e-5, float32, recomputed", answer)

if __name__ == "__main__":
    main(QUESTION)
