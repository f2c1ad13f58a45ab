"""Sleepers: whether Dask's scheduler keeps up with hundreds of threads and 5,000 tasks a pass.

``python -m tests.benchmarks.sleepers``. Two worker processes with hundreds of threads each, and tasks that
sleep as long as a fit's tasks last (0.5 to 2 s): nothing computes, so that the scheduler, the client and the
folding of results are all that is measured. Every task returns a block as large as a row block's sums.
"""

from __future__ import annotations

import heapq
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.cluster import connect_as
from kpca_stream.config import Cluster
from tests.benchmarks.child import in_child
from tests.benchmarks.harness import Answer, Figure, Question, main

Array = NDArray[Any]

N_PROCESSES = 2
BLOCK = (2000, 24)
MOST = 1.25


def answer(*, quick: bool) -> Answer:
    """Time of a pass over the least that its sleeping tasks can take, for growing numbers of threads."""
    n_tasks = 1000 if quick else 5000
    rows = []
    for n_threads in (50, 200) if quick else (50, 250, 500):
        found = in_child("sleepers:pass_of", n_threads=n_threads, n_tasks=n_tasks)
        ideal = found["least"]
        rows.append(
            {
                "threads": N_PROCESSES * n_threads,
                "tasks": n_tasks,
                "pass s": found["seconds"],
                "without Dask s": ideal,
                "ratio": found["seconds"] / ideal,
                "tasks a second": n_tasks / found["seconds"],
            }
        )
    return Answer(
        rows, [Figure(f"a pass on {row['threads']} threads / the least", row["ratio"], MOST) for row in rows]
    )


def pass_of(n_threads: int, n_tasks: int) -> dict[str, Any]:
    """Seconds of a pass of tasks that sleep, and the least that it can take."""
    seconds = np.random.default_rng(0).uniform(0.5, 2.0, n_tasks)
    total = np.zeros(BLOCK)

    def fold(_: int, part: Array) -> None:
        np.add(total, part, out=total)

    with tempfile.TemporaryDirectory() as folder, _workers(Path(folder), n_threads) as scheduler_file:
        section = Cluster(kind="address", scheduler_file=str(scheduler_file), min_workers=N_PROCESSES)
        with connect_as(section, memory=0):
            passes.run([passes.Call(sleep, (0.1,))] * (2 * n_threads), fold)  # first imports
            began = time.perf_counter()
            passes.run([passes.Call(sleep, (float(s),)) for s in seconds], fold)
            taken = time.perf_counter() - began
    return {"seconds": taken, "least": _least(seconds, N_PROCESSES * n_threads)}


def _least(seconds: Array, n_threads: int) -> float:
    """When the last one ends if every thread takes the next task as soon as it is free."""
    free = [0.0] * n_threads
    for taken in seconds:
        heapq.heappushpop(free, free[0] + float(taken))
    return max(free)


def sleep(seconds: float) -> Array:
    """What a task does: wait, and return a block."""
    time.sleep(seconds)
    return np.ones(BLOCK)


@contextmanager
def _workers(folder: Path, n_threads: int) -> Iterator[Path]:
    file = folder / "scheduler.json"
    local = ["--host", "127.0.0.1"]
    scheduler = [
        "dask_scheduler",
        "--scheduler-file",
        str(file),
        "--port",
        "0",
        "--dashboard-address",
        "127.0.0.1:0",
    ]
    worker = ["dask_worker", "--scheduler-file", str(file), "--nthreads", str(n_threads), "--no-nanny"]
    commands = [scheduler, *[[*worker, "--no-dashboard", "--local-directory", str(folder)]] * N_PROCESSES]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *arguments, *local],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, *arguments in commands
    ]
    try:
        yield file
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


QUESTION = Question("Sleepers: a pass of tasks that sleep 0.5 to 2 s, through a scheduler of its own", answer)

if __name__ == "__main__":
    main(QUESTION)
