"""A trial: one small random fit, some faults, and what it must end with; and as many of them as asked."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from tests.soak.damages import damage, damage_basis
from tests.soak.disks import fill
from tests.soak.job import DifferenceError, Job
from tests.soak.kills import kill, kill_holder, kill_worker
from tests.soak.mistakes import mistake
from tests.soak.mixing import mix

Fault = Callable[[Job], None]

KINDS: dict[str, Fault] = {
    "kill": kill,
    "worker": kill_worker,
    "holder": kill_holder,
    "damage": damage,
    "mix": mix,
    "mistake": mistake,
    "disk": fill,
}
WEIGHTS = {"kill": 6, "worker": 1, "holder": 2, "damage": 4, "mix": 3, "mistake": 3, "disk": 2}


def run_trial(job: Job, seeds: list[int], kinds: Mapping[str, Fault]) -> None:
    """Disturb, finish, compare; every fault has a generator of its own, whatever those before it drew."""
    job.write()
    job.rest()
    weights = np.array([WEIGHTS.get(kind, 1) for kind in kinds], dtype=float)
    drawn = job.rng.choice(list(kinds), size=int(job.rng.integers(1, 5)), p=weights / weights.sum())
    for number, kind in enumerate(drawn, start=1):  # a zero would repeat the numbers of the job
        job.rng = np.random.default_rng([*seeds, number])
        kinds[kind](job)
    job.finished()
    job.rng = np.random.default_rng([*seeds, len(drawn) + 1])
    damage_basis(job)


@contextlib.contextmanager
def kept_if_wrong(parent: Path, number: int) -> Iterator[Path]:
    folder = parent / f"trial-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def soak(
    parent: Path, seed: int, first: int, is_over: Callable[[int], bool], kinds: Mapping[str, Fault] = KINDS
) -> tuple[Counter[tuple[str, str]], int]:
    """Faults by their kind, and the number of differences."""
    faults: Counter[tuple[str, str]] = Counter()
    number, n_differences = first, 0
    while not is_over(number - first):
        with contextlib.suppress(DifferenceError), kept_if_wrong(parent, number) as folder:
            job = Job(folder, np.random.default_rng([seed, number]))
            try:
                run_trial(job, [seed, number], kinds)
            except DifferenceError as error:
                n_differences += 1
                (folder / "log.txt").write_text("\n".join([*job.log, str(error)]))
                print(f"trial {number}: {error}; see {folder}/log.txt", file=sys.stderr, flush=True)
                raise
            finally:
                faults += job.faults
        number += 1
    print(
        report(faults, f"{number - first} trials from {first} on, seed {seed}: {n_differences} differences")
    )
    return faults, n_differences


def report(faults: Counter[tuple[str, str]], last: str) -> str:
    """A line for each kind of fault, and the last one."""
    lines = []
    for kind in dict.fromkeys(kind for kind, _ in sorted(faults)):
        told = {fault: count for (of, fault), count in sorted(faults.items()) if of == kind}
        lines.append(
            f"{sum(told.values()):5} {kind}: " + ", ".join(f"{n} {fault}" for fault, n in told.items())
        )
    return "\n".join([*lines, last])
