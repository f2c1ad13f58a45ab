"""Damage: to any file of a store between two runs, and to a basis before it scores."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from kpca_stream.storage.registry import Registry
from tests.disturb import DAMAGES, flip
from tests.soak.job import REFUSED, DifferenceError, Job, setting


def damage(job: Job) -> None:
    """Damage a random file: each folder is as likely as every other, however many files it has."""
    if not job.store.exists():
        job.command("fit", "c.yaml", *setting("solver.max_passes", 1), *job.aside(), codes=(*job.codes, 1))
    kind = str(job.rng.choice(list(DAMAGES)))
    seed, where, which = int(job.rng.integers(2**31)), job.rng.random(), job.rng.random()
    found = (path for path in sorted(job.store.rglob("*")) if path.is_file() and path.name != "lock")
    files = [path for path in found if path.stat().st_size]
    places = sorted({path.relative_to(job.store).parts[0] for path in files})
    if not places:
        return
    place = places[int(where * len(places))]
    there = [path for path in files if path.relative_to(job.store).parts[0] == place]
    path = there[int(which * len(there))]
    job.note("damages", kind, str(path))
    job.suspect = True
    harm(path, kind, seed)


def harm(path: Path, kind: str, seed: int) -> None:
    if kind == "flip":
        flip(path, seed)
    else:
        DAMAGES[kind](path)


def damage_basis(job: Job) -> None:
    """Any damage to the finished basis is refused, or touches no score."""
    registry = Registry.of(job.folder / "final", "soak")
    basis = registry.basis_path(registry.resolve())
    files = [path for path in sorted(basis.rglob("*")) if path.is_file() and path.stat().st_size]
    path, kind = files[int(job.rng.integers(len(files)))], str(job.rng.choice(list(DAMAGES)))
    job.note("damages", f"{kind} in a basis", str(path))
    harm(path, kind, int(job.rng.integers(2**31)))
    output = job.name("scores")
    arguments = (*setting("models.path", "final"), *setting("score.output", output))
    code, printed = job.command("score", "c.yaml", *arguments, codes=(0, *REFUSED))
    written = list((job.folder / output).glob("*.parquet"))
    if code and written:
        raise DifferenceError(f"a damaged basis was refused and scored: {json.dumps(printed)}")
    if code == 0 and not pq.read_table(written[0]).equals(job.scores):
        raise DifferenceError("a damaged basis scored, and otherwise")
