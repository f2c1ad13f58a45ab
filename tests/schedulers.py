"""Schedulers and workers that tests start, lose and start again, on loopback."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from distributed import LocalCluster

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60
PAGES = ("--dashboard-address", "127.0.0.1:0")


@dataclass
class Processes:
    """A scheduler and its workers, each a process of its own in a folder of its own.

    `options` are given to all of them, such as files of certificates.
    """

    folder: Path
    n_workers: int = 2
    options: Sequence[str] = ()
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def scheduler_file(self) -> Path:
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        return str(json.loads(self.scheduler_file.read_text())["address"])

    def start(self) -> None:
        """Start what does not run."""
        if not self._runs("scheduler"):
            self.scheduler_file.unlink(missing_ok=True)
            self._begin("scheduler", "--scheduler-file", str(self.scheduler_file), "--port", "0", *PAGES)
            self._wait_for_file()
        for number in range(self.n_workers):
            if not self._runs(f"worker-{number}"):
                self.start_worker(number)

    def start_worker(self, number: int, *more: str) -> None:
        address = ["--scheduler-file", str(self.scheduler_file)]
        self._begin(f"worker-{number}", *address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *more)

    def kill(self, name: str) -> None:
        """End a process as the kernel does where memory ends."""
        self.running[name].kill()
        self.running[name].wait()

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()

    def _runs(self, name: str) -> bool:
        return name in self.running and self.running[name].poll() is None

    def _begin(self, name: str, *arguments: str) -> None:
        own = self.folder / name
        own.mkdir(exist_ok=True)
        kind = name.partition("-")[0]
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, *self.options]
        with (own / "log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*command, "--host", "127.0.0.1"],
                cwd=own,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def _wait_for_file(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not self.scheduler_file.exists():
            log = (self.folder / "scheduler" / "log").read_text()
            assert time.monotonic() < end, log
            assert self._runs("scheduler"), log
            time.sleep(0.02)


@contextmanager
def processes(folder: Path, n_workers: int = 2, options: Sequence[str] = ()) -> Iterator[Processes]:
    """A running scheduler with its workers; all end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    found = Processes(folder, n_workers, options)
    try:
        found.start()
        yield found
    finally:
        found.end()


@contextmanager
def threads(n_workers: int, threads_per_worker: int = 1) -> Iterator[LocalCluster]:
    """A cluster whose workers are threads of this process, reached as others are."""
    with LocalCluster(
        n_workers=n_workers,
        threads_per_worker=threads_per_worker,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster
