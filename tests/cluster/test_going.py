"""Workers that go just as something is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, Worker

from kpca_stream import passes
from kpca_stream.cluster import connect_as
from kpca_stream.config import Cluster
from kpca_stream.errors import BusyError
from tests.schedulers import threads

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two workers that are threads of this process, reached as others are."""
    with threads(2) as found:
        yield found


def goes_when_asked_to_gather(worker: Worker, gone: list[str]) -> None:
    """The first of all that is asked loses its connection to the scheduler, and goes on without it."""
    gather = worker.handlers["gather"]

    async def lost(**how: Any) -> Any:
        if not gone:
            gone.append(worker.address)
            worker.batched_stream.comm.abort()
        return await gather(**how)

    worker.handlers["gather"] = lost


def test_what_is_shared_survives_a_worker(cluster: LocalCluster) -> None:
    """A worker that goes as it is given what all share costs nothing: others take it with their tasks."""
    gone: list[str] = []
    for worker in cluster.workers.values():
        goes_when_asked_to_gather(worker, gone)
    with Client(cluster.scheduler_address):
        held = passes.shared([1, 2, 3])
        assert len(gone) == 1
        assert passes.compute([passes.Call(sum, (held,))] * 3) == (6, 6, 6)


def test_a_worker_that_goes_as_it_is_made_ready_is_a_cluster_for_later(cluster: LocalCluster) -> None:
    """Where a worker cannot be reached as all are made ready, the same command may succeed later."""
    worker = next(iter(cluster.workers.values()))

    def hide() -> None:
        for listener in worker.listeners:
            listener.stop()
        cluster.scheduler.rpc.remove(worker.address)

    cluster.loop.add_callback(hide)
    section = Cluster(kind="address", address=cluster.scheduler_address, wait_seconds=5)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        pytest.raises(BusyError, match="workers could not be made ready, got: Timed out"),
        connect_as(section, memory=0),
    ):
        pytest.fail("a worker was left as it was")
