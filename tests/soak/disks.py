"""Full disks, each in a mount namespace of its own, and a store that must not be written to."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import pyarrow.parquet as pq

from tests import disturb
from tests.disturb import in_namespace
from tests.soak.job import DifferenceError, Job, is_told, setting

ENDED = (2,)
FULL = ("No space left on device", "make room")
READ_ONLY = ("Read-only file system", "expected a place that may be written")
can_mount = cache(disturb.can_mount)


def command(name: str, *settings: tuple[str, ...]) -> str:
    return " ".join(
        ["$KPCA", name, "c.yaml", "--quiet", "--json", *(part for one in settings for part in one)]
    )


def small(job: Job, place: str, most: int) -> str:
    """Mount a disk of at most so many bytes."""
    size = 4096 * int(job.rng.integers(1, 2 + most // 4096))
    job.log.append(f"{place} has {size} bytes")
    return f"mkdir -p {place} && mount -t tmpfs -o size={size} none {place}"


def large(place: str) -> str:
    return f"mount -o remount,size=500M {place}"


def in_build(job: Job) -> None:
    """Rows, sums and tiles: no half of a file stays, and the fit goes on."""
    place = job.name("small")
    fit = command("fit", setting("gram.path", f"{place}/gram.zarr"), job.aside())
    leftovers = f"find {place} -name '*.partial'"
    steps = [small(job, place, bytes_of(job, "calm.zarr")), fit, leftovers, large(place), fit]
    checked(job, steps, ended=1, nothing=2, again=4)


def in_checkpoint(job: Job) -> None:
    """Sums under way: no half of a file stays, and the fit goes on."""
    path, aside = setting("gram.path", job.name("checked")), job.aside()
    place = f"{path[1].partition('=')[2]}/checkpoints"
    begun = command("fit", path, job.aside(), setting("solver.max_passes", 1))
    fit = command("fit", path, aside)
    leftovers = f"find {place} -name '*.partial'"
    most = 4 * 8 * len(job.X) * int(job.sections["solver"]["n_components"])
    steps = [f"{begun} 2>begun.err || true", small(job, place, most), fit, leftovers, large(place), fit]
    checked(job, steps, ended=2, nothing=3, again=5)


def in_publishing(job: Job) -> None:
    """The basis: there is no version, nor a part of one, and the fit goes on."""
    place = job.name("models")
    fit = command("fit", setting("gram.path", job.name("published")), setting("models.path", place))
    nothing = f'[ "$(cat 1.rc)" = 0 ] || find {place} -type f -not -name lock'
    steps = [small(job, place, bytes_of(job, "calm")), fit, nothing, large(place), fit]
    checked(job, steps, ended=1, nothing=2, again=4)


def in_scores(job: Job) -> None:
    """Scores: whole parts stay, no part is cut, and the rest follows."""
    place, kept, whole = job.name("scores"), job.name("kept"), job.name("whole")
    shared = setting("models.path", "calm"), setting("score.input.part_rows", int(job.rng.integers(5, 30)))
    score = command("score", *shared, setting("score.output", place))
    leftovers = f"find {place} -type f -not -name '*.parquet'"
    steps = [small(job, place, 32768), score, leftovers, large(place), score, f"cp -r {place} {kept}"]
    told(job, in_namespace(job.folder, steps), ended=1, nothing=2, parts=FULL)
    job.command(
        "score",
        "c.yaml",
        *(part for one in shared for part in one),
        *setting("score.output", whole),
        codes=(0,),
    )
    names = [{path.name for path in (job.folder / place).glob("*")} for place in (kept, whole)]
    if names[0] != names[1]:
        raise DifferenceError(f"parts {names[0]}, expected {names[1]}")
    for name in names[0]:
        if not pq.read_table(job.folder / kept / name).equals(pq.read_table(job.folder / whole / name)):
            raise DifferenceError(f"{kept}/{name} differs from {whole}/{name}")


def read_only(job: Job) -> None:
    """A store that must not be written to ends a fit in one line and stays as it is."""
    store = job.name("fixed")
    path = setting("gram.path", store)
    begun = command("fit", path, job.aside(), setting("solver.max_passes", 1))
    fit = command("fit", path, job.aside())
    marked = f"find {store} -type f -newer mark"
    mount = f"mount --bind {store} {store} && mount -o remount,bind,ro {store} && touch mark"
    steps = [f"{begun} 2>begun.err || true", mount, fit, marked, f"umount {store}", fit]
    checked(job, steps, ended=2, nothing=3, again=5, parts=READ_ONLY)


DISKS: dict[str, Callable[[Job], None]] = {
    "full in the build": in_build,
    "full in a checkpoint": in_checkpoint,
    "full in publishing": in_publishing,
    "full in the scores": in_scores,
    "read-only store": read_only,
}


def fill(job: Job) -> None:
    """A disk without room ends a command in one line; with room it goes on to the same result."""
    if not can_mount():
        return
    what = str(job.rng.choice(list(DISKS)))
    job.note("disks", what, "")
    DISKS[what](job)


def checked(
    job: Job, steps: list[str], *, ended: int, nothing: int, again: int, parts: tuple[str, ...] = FULL
) -> None:
    """Run the steps, and compare what the fit ends with at last."""
    told(job, in_namespace(job.folder, steps), ended=ended, nothing=nothing, parts=parts)
    printed = json.loads((job.folder / f"{again}.out").read_text())
    job.compare(printed["result"]["eigenvalues"], "fit after there was room")


def told(
    job: Job,
    done: list[tuple[int, str]],
    *,
    ended: int,
    nothing: int,
    parts: tuple[str, ...],
) -> None:
    """Check the step that may have `ended`, what must show `nothing`, and that all others went well."""
    job.log.extend(f"step {i}: {code} {err}" for i, (code, err) in enumerate(done))
    for step, (code, err) in enumerate(done):
        if code not in ((0, *ENDED) if step == ended else (0,)) or not is_told(code, err):
            raise DifferenceError(f"step {step}: exit code {code}: {err}")
    code, err = done[ended]
    if code and not all(part in err for part in parts):
        raise DifferenceError(f"got {err!r}, expected {parts}")
    if code:
        job.note("kinds of ends", "no room", err)
    if left := (job.folder / f"{nothing}.out").read_text():
        raise DifferenceError(f"left half-done: {left}")


def bytes_of(job: Job, name: str) -> int:
    return sum(path.stat().st_size for path in (job.folder / name).rglob("*") if path.is_file())
