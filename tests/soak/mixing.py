"""Mixing: fits of something else in a store that is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from kpca_stream.storage import naming
from tests.soak.job import KERNELS, PRECISIONS, DifferenceError, Job, setting, write_rows

Change = Callable[[Job], tuple[tuple[str, ...], str]]
"""Writes what a fit of something else needs; its arguments, and what its refusal names."""


def other_value(job: Job) -> tuple[tuple[str, ...], str]:
    X = job.X.copy()
    X[int(job.rng.integers(len(X))), int(job.rng.integers(X.shape[1]))] += 0.125
    path = write_rows(job.folder / f"{job.name('other')}{job.train.suffix}", X)
    return setting("data.train.path", path.name), "fingerprint: "


def fewer_rows(job: Job) -> tuple[tuple[str, ...], str]:
    return setting("data.train.rows", f"'0:{len(job.X) - 1}'"), "fingerprint: "


def another(job: Job, key: str, name: str, values: tuple[object, ...]) -> tuple[tuple[str, ...], str]:
    section, _, last = key.partition(".")
    held = job.sections[section][last]
    value = job.rng.choice([value for value in values if value != held])
    return setting(key, value), f"{name}: {held!r} there, "


def other_kernel(job: Job) -> tuple[tuple[str, ...], str]:
    return another(job, "kernel.name", "kernel", KERNELS)


def other_gamma(job: Job) -> tuple[tuple[str, ...], str]:
    if job.sections["kernel"]["name"] in ("linear", "cosine"):
        return other_kernel(job)
    gamma = job.sections["kernel"]["gamma"]
    return setting("kernel.gamma", float(np.nextafter(gamma, 1))), f"gamma: {gamma!r} there, "


def other_precision(job: Job) -> tuple[tuple[str, ...], str]:
    return another(job, "solver.precision", "precision", PRECISIONS)


def other_tiles(job: Job) -> tuple[tuple[str, ...], str]:
    return another(job, "gram.tile_rows", "tile_rows", (50, 64, 128))


def other_format(job: Job) -> tuple[tuple[str, ...], str]:  # noqa: ARG001  as all changes
    return (), f"format_version: {naming.FORMAT_VERSION} there, {naming.FORMAT_VERSION + 1} now"


CHANGES: dict[str, Change] = {
    "one value": other_value,
    "rows": fewer_rows,
    "kernel": other_kernel,
    "gamma": other_gamma,
    "precision": other_precision,
    "tile size": other_tiles,
    "format": other_format,
}


def mix(job: Job) -> None:
    """A fit of something else is refused by what differs; a restarted one is as in a store of its own."""
    what = str(job.rng.choice(list(CHANGES)))
    begin(job)
    changed, difference = CHANGES[what](job)
    job.note("mixing", what, " ".join(changed))
    with another_format(on=what == "format"):
        arguments = ("fit", "c.yaml", *changed)
        if not job.suspect:
            job.refused(*arguments, *job.aside(), codes=(65,), parts=(difference,))
        if job.rng.random() < 0.4:
            restart(job, *changed)


def begin(job: Job) -> None:
    """A store that names its run, after one pass or a whole fit."""
    passes = setting("solver.max_passes", 1) if job.rng.random() < 0.5 else ()
    job.command("fit", "c.yaml", *passes, *job.aside(), codes=(*job.codes, 1))


def restart(job: Job, *changed: str) -> None:
    """Start the store anew with other data or settings."""
    job.note("mixing", "restart with the other", " ".join(changed))
    if not (job.store / "zarr.json").exists():
        return  # a damaged store, which is no store to a restart either
    job.suspect = True
    found = job.fitted(*changed, "--restart", *job.aside())
    expected = job.fitted(*changed, *setting("gram.path", job.name("fresh")), *job.aside())
    if found != expected:
        raise DifferenceError(f"restarted with {changed}: eigenvalues {found}, expected {expected}")


@contextmanager
def another_format(*, on: bool) -> Iterator[None]:
    """Stores of the next format version while the block runs."""
    held = naming.FORMAT_VERSION
    naming.FORMAT_VERSION += on
    try:
        yield
    finally:
        naming.FORMAT_VERSION = held
