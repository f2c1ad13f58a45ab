"""In memory: clusters, n = 20,000, d = 50, 10 components to 1e-5, beside scikit-learn's `KernelPCA`.

``python -m tests.benchmarks.in_memory``. Each fit in a process of its own, sides in turns; "resident" is the
process's whole memory at its peak, "above" what is above the imports and the data. Residuals are computed
afterwards in float64, the same way for all. The peer is scikit-learn's fastest solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.benchmarks.child import in_child
from tests.benchmarks.harness import MB, Answer, Figure, Question, in_turns, main, median_of, rounds

TOL = 1e-5
SOLVERS = ("arpack", "randomized")


def answer(*, quick: bool) -> Answer:
    """Time and memory of both."""
    size: dict[str, Any] = {"n_samples": 4000 if quick else 20_000, "n_features": 50, "tol": TOL}
    ours = partial(in_child, "jobs:fit_ours", **size)
    peers = {f"scikit-learn {s}": partial(in_child, "jobs:fit_sklearn", **size, solver=s) for s in SOLVERS}
    results = in_turns({"kpca_stream": ours, **peers}, rounds(quick=quick))
    fastest = min(peers, key=lambda name: median_of(results[name], "seconds"))
    time, memory = (
        median_of(results["kpca_stream"], key) / median_of(results[fastest], key)
        for key in ("seconds", "peak")
    )
    figures = [Figure(f"time / {fastest}", time, 0.30), Figure(f"peak memory / {fastest}", memory, 0.5)]
    return Answer([row(name, found) for name, found in results.items()], figures)


def row(name: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The medians of a side; ARPACK and others count no passes."""
    above = median_of(found, "peak") - median_of(found, "before")
    return {
        "solver": name,
        "seconds": median_of(found, "seconds"),
        "resident MB": median_of(found, "peak") / MB,
        "above MB": above / MB,
        "passes": found[0].get("passes", "-"),
        "residual": median_of(found, "residual"),
    }


QUESTION = Question("In memory: clusters, n = 20,000, d = 50, k = 10, tol 1e-5, float32", answer)

if __name__ == "__main__":
    main(QUESTION)
