"""Kills: of a fit, of one of its processes, and of a fit that holds the store against another one."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import subprocess

import psutil

from tests.disturb import killed, started, wait_until
from tests.soak.job import N_WORKERS, DifferenceError, Job, setting

LONGEST_SECONDS = 120.0


def kill(job: Job) -> None:
    """Kill a fit at a random moment, mostly one after its store was begun."""
    begun, delay = job.rng.random() < 0.8, float(job.rng.uniform(0, 1.2 * job.seconds))
    with started(job.folder, "fit", "c.yaml", "--quiet", *job.aside()) as process:
        if begun:
            wait_until((job.store / "zarr.json").exists, process)
        wait_until(lambda: False, process, delay)
        if process.poll() is None:
            job.note("kills", "of a fit", f"after {delay:.2f} s")
            if killed(process):
                raise DifferenceError("processes outlive a killed fit")
        elif process.returncode not in job.codes:
            raise DifferenceError(f"exit code {process.returncode}: {told_by(process)}")


def kill_worker(job: Job) -> None:
    """Kill one of the processes of a fit, which goes on without it or asks to be tried again."""
    delay = float(job.rng.uniform(0, 1 + job.seconds))
    local = setting("cluster.kind", "local")
    with started(job.folder, "fit", "c.yaml", "--quiet", *local, *job.aside()) as process:
        family = psutil.Process(process.pid)
        if wait_until(lambda: len(workers_of(family)) == N_WORKERS, process):
            wait_until(lambda: False, process, delay)
            for worker in workers_of(family)[:1]:
                job.note("kills", "of a worker", f"after {delay:.2f} s")
                worker.kill()
        if process.wait(LONGEST_SECONDS) not in (*job.codes, 75):
            raise DifferenceError(f"exit code {process.returncode}: {told_by(process)}")


def kill_holder(job: Job) -> None:
    """Stop a fit that holds the store, try two others, kill it, and take its store over."""
    delay = float(job.rng.uniform(0, 0.8 * job.seconds))
    aside = job.aside()
    with started(job.folder, "fit", "c.yaml", "--quiet", *aside) as process:
        wait_until(lambda: is_held_by(process.pid, job), process)
        wait_until(lambda: False, process, delay)
        process.send_signal(signal.SIGSTOP)
        if process.poll() is not None or not is_held_by(process.pid, job) or not is_locked(job):
            return
        job.note("kills", "of a holder", f"after {delay:.2f} s")
        for restart in ((), ("--restart",)):
            refuse_second(job, process.pid, *aside, *restart)
        if killed(process):
            raise DifferenceError("processes outlive a killed fit")
    if not is_held_by(process.pid, job):
        raise DifferenceError("the dead holder's name is gone before its store was taken over")
    code, printed = job.command("fit", "c.yaml", *job.aside(), codes=job.codes)
    if code == 0:
        job.compare(printed["result"]["eigenvalues"], "fit in a dead holder's store")


def refuse_second(job: Job, holder: int, *arguments: str) -> None:
    """A second fit ends with 75 and names the holder."""
    _, printed = job.command("fit", "c.yaml", *arguments, codes=(75,))
    if f'"process": {holder}' not in printed["error"]["message"]:
        raise DifferenceError(f"got {printed['error']['message']!r}, expected the holder {holder}")


def is_held_by(process: int, job: Job) -> bool:
    lock = job.store / "lock"
    return lock.exists() and f'"process": {process},' in lock.read_text()


def is_locked(job: Job) -> bool:
    """Whether somebody holds the lock now; the name in its file stays after a fit that ended."""
    with (job.store / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def told_by(process: subprocess.Popen[str]) -> str:
    return process.stderr.read() if process.stderr else ""


def workers_of(family: psutil.Process) -> list[psutil.Process]:
    """The processes of a local cluster."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [one for one in family.children() if "spawn_main" in " ".join(one.cmdline())]
    return []
