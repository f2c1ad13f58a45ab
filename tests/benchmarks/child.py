"""Runs a function in a process of its own, so that its memory and its threads are its own.

``python -m tests.benchmarks.child MODULE:FUNCTION``, keyword arguments as JSON on standard input, the result
as JSON on the last line of standard output. Needs Linux: peaks are read from ``/proc``. (What the parent
gets from ``wait4`` counts the parent's own memory too, from before the new program was loaded.)
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WATCH_SECONDS = 0.1


def in_child(function: str, *, cwd: Path = ROOT, **arguments: Any) -> dict[str, Any]:
    """What ``MODULE:FUNCTION`` of these benchmarks returns for `arguments`, both through JSON."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.child", f"tests.benchmarks.{function}"],
        input=json.dumps(arguments),
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{function}({arguments}) ended with {process.returncode}: {process.stdout[-2000:]}")
    return dict(json.loads(process.stdout.splitlines()[-1]))


def cost_of(work: Callable[[], object]) -> dict[str, Any]:
    """Seconds, and bytes resident in this process: before, and at the peak of `work`."""
    before = _status("VmRSS")
    _forget_peak()
    began = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - began, "before": before, "peak": _status("VmHWM")}


@dataclass
class Watched:
    """What a watch saw: the peak of each process started here, and the most that a folder held, in bytes."""

    processes: dict[int, int] = field(default_factory=dict)
    folder: int = 0


@contextmanager
def watch(folder: Path) -> Iterator[Watched]:
    """Look at the processes that this one starts, and at a folder, again and again."""
    seen, done = Watched(), threading.Event()

    def look() -> None:
        while not done.wait(WATCH_SECONDS):
            _look(seen, folder)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _look(seen: Watched, folder: Path) -> None:
    for process in _below(os.getpid()):
        try:
            peak = _status("VmHWM", process)
        except (OSError, TypeError):  # it has ended meanwhile
            continue
        seen.processes[process] = max(peak, seen.processes.get(process, 0))
    seen.folder = max(seen.folder, size_of(folder))


def size_of(folder: Path) -> int:
    """Bytes in the files of a folder, which may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # unlike `rglob`, it passes over folders that are gone
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except OSError:
                continue
    return total


def _below(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found = [int(child) for child in children.read_text().split()]
        except OSError:
            continue
        for child in found:
            yield child
            yield from _below(child)


def _status(key: str, process: int | str = "self") -> int:
    found = re.search(key + r":\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    if found is None:
        raise TypeError(f"/proc/{process}/status has no {key}")
    return int(found[1]) * 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _main() -> None:
    module, _, function = sys.argv[1].partition(":")
    result = getattr(importlib.import_module(module), function)(**json.load(sys.stdin))
    print(json.dumps(result))


if __name__ == "__main__":
    _main()
