"""Growth: exponents of time and memory of a recomputing fit over the number of rows.

``python -m tests.benchmarks.growth``. Clusters, d = 50, 10 components to 1e-5, each fit in a process of its
own, sizes in turns; memory is what is above the imports and the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tests.benchmarks.child import in_child
from tests.benchmarks.harness import Answer, Figure, Question, in_turns, main, median_of, rounds
from tests.benchmarks.in_memory import TOL, row

SIZES = (25_000, 50_000, 100_000)


def answer(*, quick: bool) -> Answer:
    """Slopes through the logarithms."""
    sizes = [n // 8 if quick else n for n in SIZES]
    results = in_turns(
        {
            f"n = {n:,}": partial(
                in_child, "jobs:fit_ours", n_samples=n, n_features=50, tol=TOL, storage="recompute"
            )
            for n in sizes
        },
        rounds(quick=quick),
    )
    seconds = [median_of(found, "seconds") for found in results.values()]
    above = [median_of(found, "peak") - median_of(found, "before") for found in results.values()]
    figures = [
        Figure("exponent of time", exponent(sizes, seconds), 2.1),
        Figure("exponent of memory", exponent(sizes, above), 1.1),
    ]
    return Answer([row(name, found) for name, found in results.items()], figures)


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The power of n that `values` grow with."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


QUESTION = Question("Growth: clusters, n = 25k, 50k, 100k, d = 50, k = 10, tol 1e-5, recomputed", answer)

if __name__ == "__main__":
    main(QUESTION)
