"""A scheduler that is the active one as long as a block runs; what goes wrong with it has an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import dask
from dask.system import CPU_COUNT

from kpca_stream.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

    from kpca_stream.cluster.kinds import Started
    from kpca_stream.config import Cluster


def connect(
    kind: Literal["threads", "local"] = "threads",
    *,
    n_workers: int | None = None,
    threads_per_worker: int = 1,
    memory_limit: int | None = None,
) -> AbstractContextManager[None]:
    """Make a scheduler of this machine the active one; leaving the context closes all that it started.

    Parameters
    ----------
    kind : {"threads", "local"}
        Threads of this process, without a server; or processes of this machine, reached through
        loopback only.
    n_workers : int, optional
        Threads, or processes; default: the processors that this process may use.
    threads_per_worker : int
        Threads of each process of ``local``.
    memory_limit : int, optional
        Bytes at which a process of ``local`` is restarted; default: never.

    Raises
    ------
    ConfigError
        Another kind.
    BusyError
        The processes of ``local`` did not start, or were lost.
    KpcaStreamError
        A task ended every process that it ran in.

    Notes
    -----
    A script that opens ``local`` needs the usual ``if __name__ == "__main__":``, since processes
    are spawned.
    """
    if kind == "threads":
        return dask.config.set(scheduler="threads", num_workers=n_workers or CPU_COUNT)
    if kind == "local":
        # Imported here, as all that follows: it costs more time than a small fit.
        from kpca_stream.config import Cluster

        section = Cluster(kind="local", n_workers=n_workers, threads_per_worker=threads_per_worker)
        return _connected(section, memory_limit=memory_limit)
    raise ConfigError(f"unknown cluster kind, got {kind!r}, expected 'threads' or 'local'")


def connect_as(
    section: Cluster,
    *,
    memory: int,
    note: Callable[[str], None] = lambda _: None,
    function_folder: str | None = None,
) -> AbstractContextManager[None]:
    """Make the scheduler that a configuration describes the active one while a block runs.

    Parameters
    ----------
    section : Cluster
    memory : int
        Bytes that a task may take of its process: workers that are started get more, and those that
        have less are refused.
    note : callable
        Is told the address of the dashboard, and where workers are waited for.
    function_folder : str, optional
        Folder that the workers shall import from too, where it is there.

    Raises
    ------
    ConfigError
        An extra that is not installed, no address, files of certificates that are not there, workers with
        too little memory or another version of this package.
    BusyError
        The scheduler or its workers do not come, or are lost: the same call may succeed later.
    KpcaStreamError
        A task ended every worker that it ran on.
    """
    if section.form == "threads":
        return connect("threads", n_workers=section.n_workers)
    return _connected(section, memory=memory, note=note, function_folder=function_folder)


def forecast_workers(section: Cluster) -> tuple[int, int] | None:
    """Tasks at once and processes (0: threads of this one) by the section alone, if it says."""
    if section.form == "threads":
        return section.n_workers or CPU_COUNT, 0
    if section.form == "local" and section.most_workers is None:
        n_processes = max(1, CPU_COUNT // section.threads_per_worker)
    elif section.form in {"local", "slurm", "kubernetes"}:
        n_processes = section.most_workers or section.min_workers
    else:
        return None
    return n_processes * section.threads_per_worker, n_processes


@contextmanager
def _connected(
    section: Cluster,
    *,
    memory: int = 0,
    memory_limit: int | None = None,
    note: Callable[[str], None] = lambda _: None,
    function_folder: str | None = None,
) -> Iterator[None]:
    from kpca_stream.cluster import kinds, losses, report, security, workers

    own = security.of(section.tls)
    with ExitStack() as stack:
        stack.enter_context(losses.quiet())
        started = stack.enter_context(kinds.started(section, own, memory=memory, memory_limit=memory_limit))
        # A client whose scheduler was lost leaves its setting behind.
        stack.enter_context(dask.config.set(scheduler=dask.config.get("scheduler", None)))
        client = stack.enter_context(losses.closed_after(_client(section, started, own)))
        watch = losses.Watch(client, section.wait_seconds, started.problem)
        stack.enter_context(losses.told(watch))
        _tell_dashboard(client, note)
        if section.adapt is not None:
            started.adapt(section.adapt)
        workers.wait(client, section.min_workers, section.wait_seconds, started.problem)
        with losses.turned_away("the workers could not be made ready"):  # one may go meanwhile
            workers.prepare(client, memory=memory, function_folder=function_folder)
        stack.enter_context(watch.over())
        stack.enter_context(report.written(section.performance_report))
        stack.enter_context(dask.config.set(_expected(section, client)))
        yield


def _client(section: Cluster, started: Started, own: Any) -> Client:
    from distributed import Client

    from kpca_stream.cluster.losses import turned_away

    with turned_away(f"no scheduler answers at {started.name}"):
        return Client(started.place, security=own, timeout=section.wait_seconds)


def _tell_dashboard(client: Client, note: Callable[[str], None]) -> None:
    from importlib.util import find_spec

    if client.dashboard_link and find_spec("bokeh"):  # without Bokeh its pages only say that it is missing
        note(f"dashboard: {client.dashboard_link}")


def _expected(section: Cluster, client: Client) -> dict[str, Any]:
    """What passes shall count on where not every worker is there yet, and how their results come."""
    from kpca_stream.cluster.workers import are_reached

    threads = client.nthreads()
    n_processes = max(section.most_workers or 0, len(threads))
    n_threads = max(threads.values(), default=1)
    return {
        "kpca_stream.processes": n_processes,
        "kpca_stream.workers": n_processes * n_threads,
        "kpca_stream.direct": are_reached(list(threads)) or None,
    }
