"""Moving: what a pass moves between workers and caller, from the plan alone: nothing is fitted.

``python -m tests.benchmarks.moving``. Rows of 50 columns, rbf, 10 components; Nyström by 2,000 landmarks. The
forecast is held against the kernel's counters by ``tests/cluster/test_movement.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kpca_stream.approximation import NystromSettings
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.planning import make_plan
from tests.benchmarks.harness import MB, Answer, Question, main

ROWS = (10**5, 10**6, 10**7)
WORKERS = (10, 100, 1000)
N_FEATURES, N_LANDMARKS = 50, 2000


def answer(*, quick: bool) -> Answer:
    """One line for each method, number of rows and number of workers."""
    sizes = ROWS[:2] if quick else ROWS
    return Answer(
        [row for method in ("lanczos", "nystrom") for n in sizes for row in _rows(plan_of(method, n))]
    )


def plan_of(method: Any, n_samples: int) -> FitPlan:
    """The plan of a fit to float32 rows."""
    settings = FitSettings(
        kernel=KernelSpec("rbf", gamma=0.01),
        n_components=10,
        method=method,
        storage="recompute",
        memory_limit=64 * 2**30,
        nystrom=NystromSettings(n_landmarks=N_LANDMARKS),
    )
    return make_plan(settings, n_samples, N_FEATURES, np.dtype(np.float32), with_store=True)


def _rows(plan: FitPlan) -> Iterator[dict[str, Any]]:
    moved, f = plan.moved, plan.forecast
    for n_workers in WORKERS:
        yield {
            "method": plan.method,
            "rows": plan.shape.n_samples,
            "tasks": plan.n_tasks,
            "workers": n_workers,
            "MB to workers": moved.to_workers / MB,
            "MB of sums to the caller": moved.from_workers / MB,
            "MB read by each worker": moved.read / min(n_workers, plan.n_tasks) / MB,
            "s computing": f.core_seconds / f.passes / min(n_workers, plan.n_tasks),
            "s receiving": moved.receiving_seconds,
        }


QUESTION = Question("Moving: a pass over rows of 50 columns, by the forecast", answer)

if __name__ == "__main__":
    main(QUESTION)
