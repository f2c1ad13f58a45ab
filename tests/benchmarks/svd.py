"""SVD: clusters, n = 20,000, beside Dask's `svd_compressed` on the centred matrix.

``python -m tests.benchmarks.svd``. Dask gets the centred matrix ready in memory; the time to make it ("made")
does not count in the first figure, where that of the package counts from the rows; in the second one both
begin with the rows. The peer is the first number of power iterations at which Dask's residual is as small as
the package's.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.benchmarks.child import in_child
from tests.benchmarks.harness import Answer, Figure, Question, in_turns, main, median_of, rounds
from tests.benchmarks.in_memory import TOL, row

ITERATIONS = (0, 1, 2, 4, 8)


def answer(*, quick: bool) -> Answer:
    """Time at equal or better accuracy."""
    size: dict[str, Any] = {"n_samples": 4000 if quick else 20_000, "n_features": 50}
    peers = {
        f"svd_compressed, {k} iterations": partial(in_child, "jobs:fit_dask_svd", **size, iterations=k)
        for k in (ITERATIONS[:4] if quick else ITERATIONS)
    }
    results = in_turns(
        {"kpca_stream": partial(in_child, "jobs:fit_ours", **size, tol=TOL), **peers}, rounds(quick=quick)
    )
    ours = results.pop("kpca_stream")
    good = [name for name in peers if median_of(results[name], "residual") <= median_of(ours, "residual")]
    name = good[0] if good else list(peers)[-1]
    seconds, given = median_of(ours, "seconds"), median_of(results[name], "seconds")
    from_rows = given + median_of(results[name], "made")
    rows: list[dict[str, Any]] = [{**row("kpca_stream", ours), "made": "-"}]
    rows += [{**row(peer, found), "made": median_of(found, "made")} for peer, found in results.items()]
    figures = [
        Figure(f"time / {name}, its matrix given", seconds / given, 0.25),
        Figure(f"time / {name}, both from the rows", seconds / from_rows, 0.25),
    ]
    return Answer(rows, figures)


QUESTION = Question("SVD: clusters, n = 20,000, d = 50, k = 10, beside Dask's svd_compressed", answer)

if __name__ == "__main__":
    main(QUESTION)
