"""Memory of workers that are started with the limit that a configuration gives them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from kpca_stream.cluster.kinds import worker_memory
from kpca_stream.pipeline import fit_config, score_config
from kpca_stream.telemetry import peak_memory, silent
from tests.jobs import configured

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MEMORY = 512 * 2**20
LOOK_SECONDS = 0.1


@dataclass
class Seen:
    """What the scheduler knew of its workers while something ran."""

    spilled: int = 0
    held: int = 0
    states: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)

    def look(self, client: Client) -> None:
        workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        self.workers.update(worker["id"] for worker in workers.values())
        self.states.update(worker["status"] for worker in workers.values())
        metrics = [worker["metrics"] for worker in workers.values()]
        self.spilled = max(self.spilled, *(int(each["spilled_bytes"]["disk"]) for each in metrics))
        self.held = max(self.held, sum(int(each["managed_bytes"]) for each in metrics))


@contextmanager
def watched(client: Client) -> Iterator[Seen]:
    seen, ended = Seen(), threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_SECONDS):
            seen.look(client)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("method", "storage"), [("lanczos", "auto"), ("lanczos", "zarr"), ("nystrom", "auto")]
)
def test_nothing_is_moved_to_disk_in_a_normal_run(method: str, storage: str, tmp_path: Path) -> None:
    """Build, solve or landmarks, and scoring: no byte is spilled, no worker waits or is started again."""
    X = np.random.default_rng(0).standard_normal((12_000, 20))
    np.save(tmp_path / "train.npy", X)
    np.save(tmp_path / "new.npy", np.tile(X, (3, 1)) + 0.1)
    limit = worker_memory(MEMORY)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        config = configured(
            tmp_path,
            {
                "kernel.gamma": 0.001,
                "solver": {"method": method, "n_components": 5, "tol": 1e-6},
                "gram": {"storage": storage, "path": str(tmp_path / "gram.zarr")},
                "nystrom.landmarks": 1000,
                "score.input.part_rows": 6000,
                "limits.memory": MEMORY,
                "cluster": {"kind": "address", "address": cluster.scheduler_address, "min_workers": 2},
            },
        )
        with watched(client) as seen:
            fit_config(config, silent())
            score_config(config, silent())
        peaks = client.run(peak_memory)
    assert seen.spilled == 0
    assert seen.states == {"running"}
    assert len(seen.workers) == 2
    assert max(peaks.values()) < MEMORY
    if (method, storage) == ("lanczos", "auto"):  # tiles are held, and Dask knows it
        assert seen.held > MEMORY / 4
