"""Within a job of Slurm's: the scheduler in this process, and srun for the workers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca_stream.cluster.kinds import Started, tls_options
from kpca_stream.cluster.losses import closed_after, turned_away
from kpca_stream.errors import ConfigError

if TYPE_CHECKING:
    from kpca_stream.config import Cluster, Slurm

END_SECONDS = 20
DEATH_SECONDS = 60
"""A worker whose scheduler is gone ends by itself."""


@contextmanager
def allocated(section: Cluster, slurm: Slurm, security: Any, *, memory: int) -> Iterator[Started]:
    """A scheduler in this process, and workers on all nodes of the job; all end with the block.

    Raises
    ------
    ConfigError
        Outside a job.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        raise ConfigError(
            "cluster.slurm.form: got allocation outside a job, expected the command to be run by sbatch or "
            "salloc; or form: jobs, which submits its workers"
        )
    n_workers = section.n_workers or int(os.environ.get("SLURM_NTASKS", "1"))
    with closed_after(_scheduler(section, slurm, security)) as cluster:
        command = _srun(section, slurm, security, cluster.scheduler_address, n_workers, memory)
        with _running(command, Path(slurm.log_directory) / f"workers-{job}.log") as step:
            yield Started(cluster, lambda: _ended(step, command))


def _scheduler(section: Cluster, slurm: Slurm, security: Any) -> Any:
    from distributed import LocalCluster

    with turned_away("the scheduler did not start"):
        return LocalCluster(
            n_workers=0,
            interface=slurm.interface,
            dashboard_address=section.dashboard,
            silence_logs=logging.CRITICAL,
            **tls_options(security),
        )


def _srun(
    section: Cluster, slurm: Slurm, security: Any, address: str, n_workers: int, memory: int
) -> list[str]:
    threads = section.threads_per_worker
    # One worker that ends, or is killed, does not end the others.
    step = [f"--ntasks={n_workers}", f"--cpus-per-task={threads}", "--kill-on-bad-exit=0", "--wait=0"]
    worker = ["--nthreads", str(threads), "--memory-limit", str(memory), "--interface", slurm.interface]
    worker += ["--no-dashboard", "--death-timeout", str(DEATH_SECONDS)]
    if security is not None:
        tls = security.get_tls_config_for_role("worker")
        worker += ["--tls-ca-file", tls["ca_file"], "--tls-cert", tls["cert"], "--tls-key", tls["key"]]
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    return ["srun", *step, *slurm.srun, *program, *worker]


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file, turned_away("srun did not start"):
        step = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)  # noqa: S603  the configuration's own
    try:
        yield step
    finally:
        step.terminate()
        try:
            step.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            step.kill()
            step.wait()


def _ended(step: subprocess.Popen[bytes], command: list[str]) -> str | None:
    code = step.poll()
    return None if code is None else f"{command[0]} ended with {code}; look into cluster.slurm.log_directory"
