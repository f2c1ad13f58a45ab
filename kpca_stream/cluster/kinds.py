"""Each kind of cluster: what is started, where its scheduler is, and how one sees that nothing will come."""

from __future__ import annotations

import importlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
from dask.system import CPU_COUNT

from kpca_stream.cluster.extras import needs
from kpca_stream.cluster.losses import closed_after, turned_away
from kpca_stream.errors import BusyError, ConfigError

if TYPE_CHECKING:
    from kpca_stream.config import Adapt, Cluster

UNSPILLED = 0.6
"""Workers begin to move data to disk beyond this share of their limit; a task's memory stays below it."""
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Started:
    """A scheduler that can be connected to.

    Parameters
    ----------
    place : str or distributed.deploy.Cluster
        What a client takes.
    problem : callable
        Why workers will not come any more; None while they may.
    """

    place: Any
    problem: Callable[[], str | None] = lambda: None

    @property
    def name(self) -> str:
        """Its address, for messages."""
        return str(getattr(self.place, "scheduler_address", self.place))

    def adapt(self, adapt: Adapt) -> None:
        """Let it have as many workers as there is work for."""
        self.place.adapt(minimum=adapt.minimum, maximum=adapt.maximum)


def worker_memory(memory: int) -> int:
    """Bytes that a worker's limit must be for tasks of `memory` bytes to stay in memory."""
    return math.ceil(memory / UNSPILLED)


@contextmanager
def started(
    section: Cluster, security: Any, *, memory: int, memory_limit: int | None = None
) -> Iterator[Started]:
    """Start what the section describes; all of it ends with the block.

    Raises
    ------
    ConfigError, BusyError
    """
    if section.form == "address":
        yield Started(_address(section))
        return
    if section.slurm is not None and section.slurm.form == "allocation":
        from kpca_stream.cluster.allocation import allocated

        with allocated(section, section.slurm, security, memory=worker_memory(memory)) as found:
            yield found
        return
    with closed_after(_opened(section, security, memory=memory, memory_limit=memory_limit)) as cluster:
        yield Started(cluster)


def tls_options(security: Any) -> dict[str, Any]:
    """What a class of clusters is called with to encrypt."""
    return {} if security is None else {"security": security, "protocol": "tls://"}


def _opened(section: Cluster, security: Any, *, memory: int, memory_limit: int | None) -> Any:
    if section.form == "class":
        return _own(section, security)
    makers = {"slurm": _slurm, "kubernetes": _kubernetes}
    with turned_away(f"the cluster's processes did not start (kind {section.kind})"):
        if section.kind == "local":
            return _local(section, security, memory_limit)
        return makers[section.kind](section, security, worker_memory(memory))


def _n_started(section: Cluster) -> int:
    """Workers to begin with."""
    return section.adapt.minimum if section.adapt else section.n_workers or section.min_workers


def _local(section: Cluster, security: Any, memory_limit: int | None) -> Any:
    from distributed import LocalCluster

    by_processors = max(1, CPU_COUNT // section.threads_per_worker)
    return LocalCluster(
        n_workers=_n_started(section) if section.adapt or section.n_workers else by_processors,
        threads_per_worker=section.threads_per_worker,
        processes=True,
        memory_limit=memory_limit,
        host="127.0.0.1",
        dashboard_address=section.dashboard,
        silence_logs=logging.CRITICAL,  # what goes wrong is raised here, and told once
        **tls_options(security),
    )


def _slurm(section: Cluster, security: Any, memory: int) -> Any:
    needs("dask_jobqueue", "slurm", "cluster.kind slurm")
    from dask_jobqueue.slurm import SLURMCluster

    slurm = section.slurm
    if slurm is None:
        raise ConfigError("cluster.slurm: missing section, got none, expected slurm: {interface: ...}")
    each = slurm.workers_per_job
    return SLURMCluster(
        n_workers=_n_started(section),
        queue=slurm.queue,
        account=slurm.account,
        walltime=slurm.walltime,
        cores=each * section.threads_per_worker,
        processes=each,
        memory=f"{each * memory} B",
        interface=slurm.interface,
        scheduler_options={"dashboard_address": section.dashboard},
        log_directory=slurm.log_directory,
        job_extra_directives=list(slurm.directives),
        job_script_prologue=list(slurm.prologue),
        worker_extra_args=["--no-dashboard"],
        silence_logs=logging.CRITICAL,
        **tls_options(security),
    )


def _kubernetes(section: Cluster, security: Any, memory: int) -> Any:  # noqa: ARG001  all kinds are made alike
    needs("dask_kubernetes", "k8s", "cluster.kind kubernetes")
    from dask_kubernetes.operator import KubeCluster

    kubernetes = section.kubernetes
    if kubernetes is None:
        raise ConfigError("cluster.kubernetes: missing section, got none, expected kubernetes: {image: ...}")
    named = {"namespace": kubernetes.namespace, "quiet": True}
    if kubernetes.spec is not None:
        return KubeCluster(custom_cluster_spec=kubernetes.spec, **named)
    cpus = str(section.threads_per_worker)
    return KubeCluster(
        image=kubernetes.image,
        n_workers=_n_started(section),
        resources={"requests": {"cpu": cpus, "memory": str(memory)}, "limits": {"memory": str(memory)}},
        worker_command=["dask", "worker", "--nthreads", cpus],
        **named,
    )


def _own(section: Cluster, security: Any) -> Any:
    made = _class_of(str(section.class_))
    try:
        with turned_away(f"{section.class_} did not start"):
            return made(**section.kwargs, **tls_options(security))
    except BusyError as error:
        if isinstance(error.__cause__, TypeError):
            raise ConfigError(
                f"cluster.kwargs: {error.__cause__}, got {', '.join(section.kwargs) or 'none'}, "
                f"expected what {section.class_} takes"
            ) from error
        raise


def _class_of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"cluster.class: {error}, got {name!r}, expected a class of clusters that can be imported here"
        ) from error


def _address(section: Cluster) -> str:
    if section.scheduler_file is not None:
        return _in_file(Path(section.scheduler_file), section.wait_seconds)
    address = (
        section.address
        or dask.config.get("scheduler-address", None)
        or os.environ.get("DASK_SCHEDULER_ADDRESS")
    )
    if not address:
        raise ConfigError(
            "cluster.address: got none, expected an address such as tcp://host:8786, a scheduler_file, or "
            "the variable DASK_SCHEDULER_ADDRESS"
        )
    return str(address)


def _in_file(path: Path, seconds: float) -> str:
    import json

    end = time.monotonic() + seconds
    while not path.exists():  # the scheduler writes it as it starts
        if time.monotonic() > end:
            raise BusyError(
                f"{path}: no such file after {seconds:g} s (cluster.wait_seconds), expected what "
                "dask scheduler --scheduler-file writes; start the scheduler, or try again"
            )
        time.sleep(POLL_SECONDS)
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cluster.scheduler_file: {path} is no scheduler's, got: {error}, expected what "
            "dask scheduler --scheduler-file writes"
        ) from error
