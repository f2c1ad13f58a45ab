"""A scorer that follows while files land: ``python -m tests.soak.following --minutes 10 --seed 1``.

Files of all kinds land at random moments, some of them written slowly under their own names. At the end the
scorer is asked to stop. It prints the memory of the scorer over time and the largest lag, and fails unless
every row of every file has its scores once.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from tests.disturb import started, wait_until, write_yaml
from tests.scorings import as_csv, check, fitted, landed, scoring

SETTLE = 0.5
WARM_UP = 0.25
"""Share of the time after which memory is watched: before, libraries are loaded and caches filled."""


@dataclass(frozen=True)
class Report:
    """How it went."""

    files: dict[str, NDArray[Any]]
    memory: tuple[int, ...]
    """Bytes resident, about once a second."""
    largest_lag: float
    exit_code: int

    @property
    def n_files(self) -> int:
        return len(self.files)

    @property
    def memory_growth(self) -> float:
        """From the first to the last quarter of what was watched, relative."""
        watched = self.memory[int(WARM_UP * len(self.memory)) :]
        quarter = max(1, len(watched) // 4)
        first, last = np.median(watched[:quarter]), np.median(watched[-quarter:])
        return float(last / first - 1)


def follow_for(folder: Path, *, seconds: float, seed: int) -> Report:
    """Let a scorer follow what lands in ``folder/in``, in which a basis is fitted, for so long."""
    changes = {"score.look_seconds": 0.2, "score.input.settle_seconds": SETTLE}
    config = write_yaml(folder / "follow.yaml", scoring(folder, changes).model_dump(mode="json"))
    rng = np.random.default_rng(seed)
    files: dict[str, NDArray[Any]] = {}
    memory, lags = [], [0.0]
    end = time.monotonic() + seconds
    with started(folder, "score", str(config), "--follow", "--quiet") as process:
        watched = psutil.Process(process.pid)
        while time.monotonic() < end and process.poll() is None:
            files |= _land(folder / "in", len(files), rng)
            memory.append(watched.memory_info().rss)
            lags.append(_status(folder).get("lag_seconds", 0.0))
        wait_until(lambda: _status(folder).get("files", 0) >= len(files), process, seconds=30)
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    return Report(files, tuple(memory), max(lags), code)


def _land(folder: Path, number: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Some files at once, then a pause; now and then one that is written line by line."""
    found = landed(folder, int(rng.integers(1, 4)), seed=1000 + number, n_rows=400)
    if rng.random() < 0.3:
        rows = rng.standard_normal((20, 4))
        path = folder / f"slow-{number}.csv"
        for n_rows in (5, 12, 20):
            as_csv(path, rows[:n_rows])
            time.sleep(SETTLE / 3)
        found[path.name] = rows
    time.sleep(float(rng.uniform(0.2, 1.0)))
    return found


def _status(folder: Path) -> dict[str, Any]:
    path = folder / "scores" / "_status.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.following", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kpca-stream-follow-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        fitted(folder)
        report = follow_for(folder, seconds=60 * asked.minutes, seed=asked.seed)
        check(folder, report.files)
    mebibytes = [round(size / 2**20) for size in report.memory]
    print(f"{report.n_files} files, {sum(map(len, report.files.values()))} rows, each scored once")
    print(f"memory in MiB: {mebibytes[:: max(1, len(mebibytes) // 12)]}, growth {report.memory_growth:.1%}")
    print(f"largest lag {report.largest_lag:.1f} s, exit code {report.exit_code}")
    return 0 if report.exit_code == 0 and report.memory_growth < 0.1 and report.largest_lag < 15 else 1


if __name__ == "__main__":
    sys.exit(main())
