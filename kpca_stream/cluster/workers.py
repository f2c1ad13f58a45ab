"""Workers: waited for, checked, and made ready for this package's tasks."""

from __future__ import annotations

import platform
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca_stream.cluster.blas import hold_blas
from kpca_stream.errors import BusyError, ConfigError

if TYPE_CHECKING:
    from distributed import Client

POLL_SECONDS = 0.05
MOST_PROBED, PROBE_SECONDS = 4, 1.0
PACKAGES = ("numpy", "scipy", "zarr", "distributed")


def wait(client: Client, n_workers: int, seconds: float, problem: Callable[[], str | None]) -> None:
    """Return once so many workers are there.

    Raises
    ------
    BusyError
        After `seconds`, or as soon as `problem` says why none will come.
    """
    end = time.monotonic() + seconds
    while (found := len(client.nthreads())) < n_workers:
        failed = problem()
        if failed or time.monotonic() > end:
            reason = failed or f"after {seconds:g} s (cluster.wait_seconds)"
            raise BusyError(
                f"got {found} of {n_workers} workers (cluster.min_workers): {reason}; "
                "try again later, or with fewer of them"
            )
        time.sleep(POLL_SECONDS)


def are_reached(addresses: Sequence[str]) -> bool:
    """Whether this process can connect to the workers, by the first few of them."""
    from distributed.comm import get_address_host_port  # type: ignore[attr-defined]

    for address in addresses[:MOST_PROBED]:
        try:
            socket.create_connection(get_address_host_port(address), PROBE_SECONDS).close()
        except (OSError, ValueError):  # no way there, or no address of a network
            return False
    return bool(addresses)


def prepare(client: Client, *, memory: int, function_folder: str | None) -> None:
    """Check what the workers have, hold their BLAS at one thread, and let them import from a folder.

    Those that join later are made ready too.

    Raises
    ------
    ConfigError
    """
    _check_versions(client)
    _check_memory(client, memory)
    hold_blas(client)
    if function_folder is not None:
        _import_from(client, function_folder)


def versions() -> dict[str, str]:
    """What decides over the bits of a result, in this process."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _check_versions(client: Client) -> None:
    try:
        found = client.run(versions)
    except ImportError as error:
        raise ConfigError(
            f"the workers cannot import this package, got: {error}; "
            "expected the same version of kpca-stream on every worker: install it there"
        ) from error
    own = versions()
    for worker, theirs in found.items():
        differing = [name for name in own if theirs[name] != own[name]]
        if differing:
            got = ", ".join(f"{name} {theirs[name]}" for name in differing)
            expected = ", ".join(f"{name} {own[name]}" for name in differing)
            raise ConfigError(
                f"worker {worker}: got {got}, expected {expected} as here; "
                "install the same versions, or results differ in their last bits"
            )


def _check_memory(client: Client, memory: int) -> None:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    for address, worker in workers.items():
        limit = int(worker["memory_limit"])  # 0: none
        if 0 < limit < memory:
            raise ConfigError(
                f"worker {address}: got a memory limit of {limit / 2**20:.0f} MiB, expected at least "
                f"limits.memory, {memory / 2**20:.0f} MiB; lower that, or give the workers more"
            )


def _import_from(client: Client, folder: str) -> None:
    """Let the scheduler, which reads graphs, and all workers find the modules of `folder`, if it is there."""
    from distributed import WorkerPlugin

    class ImportsFrom(WorkerPlugin):
        """Adds the folder to the places of modules."""

        name = f"kpca_stream-imports-from-{folder}"
        idempotent = True

        def setup(self, worker: Any) -> None:  # noqa: ARG002  Dask's signature
            add_folder(folder)

    client.run_on_scheduler(add_folder, folder)
    client.register_plugin(ImportsFrom())


def add_folder(folder: str) -> None:
    """Find modules in `folder`, if it is there, behind all others."""
    if folder not in sys.path and Path(folder).is_dir():
        sys.path.append(folder)
