"""Passes that end before they are done: quickly, and with nobody left who waits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kpca_stream import passes
from kpca_stream.cluster import connect_as
from kpca_stream.config import Cluster
from kpca_stream.errors import BusyError
from tests.schedulers import Processes, processes

pytestmark = pytest.mark.cluster


def section(cluster: Processes, seconds: float) -> Cluster:
    return Cluster(kind="address", address=cluster.address, min_workers=2, wait_seconds=seconds)


@pytest.mark.slow
def test_a_lost_scheduler_is_told_at_once(tmp_path: Path) -> None:
    """The loss of the scheduler is told as it happens, not after the time in which it might come back."""
    with processes(tmp_path) as cluster:
        soon = threading.Timer(0.3, cluster.kill, ["scheduler"])
        with pytest.raises(BusyError, match="lost the cluster"), connect_as(section(cluster, 20), memory=0):
            soon.start()
            began = time.monotonic()
            passes.compute([passes.Call(time.sleep, (30,))] * 2)
        assert time.monotonic() - began < 10
