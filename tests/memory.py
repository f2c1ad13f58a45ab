"""Peak memory: of some code in a process of its own above its imports, of a command's whole processes."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_CHILD = """
import json, re, sys
from pathlib import Path

def kilobytes(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

code, *args = json.loads(sys.stdin.read())
scope = {"__name__": "child"}
exec(code, scope)
scope["warm_up"](*args)
before = kilobytes("VmRSS")
scope["work"](*args)
print(json.dumps({"before": before * 1024, "peak": kilobytes("VmHWM") * 1024}))
"""


def peak_above_imports(code: str, *args: object) -> int:
    """Bytes of memory that some code takes at its peak.

    Parameters
    ----------
    code : str
        Source that imports what it needs and defines ``warm_up(*args)``, which does the same on tiny data,
        and ``work(*args)``. It runs in a child process from the repository's root.
    *args
        Handed to both functions through JSON; paths become strings.

    Returns
    -------
    int
        Largest resident memory of the child less what was resident after `warm_up`.
    """
    texts = [str(arg) if isinstance(arg, Path) else arg for arg in args]
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD],
        input=json.dumps([code, *texts]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    if child.returncode != 0:
        raise RuntimeError(f"the child failed:\n{child.stderr}")
    figures = json.loads(child.stdout.splitlines()[-1])
    print(f"resident before: {figures['before'] / 1e6:.0f} MB, peak: {figures['peak'] / 1e6:.0f} MB")
    return int(figures["peak"]) - int(figures["before"])


def result_and_peak(folder: Path, *arguments: str) -> tuple[dict[str, Any], int]:
    """What ``kpca-stream ARGUMENTS --json`` finds out in `folder`, and the peak of its largest process."""
    peaks: dict[int, int] = {}
    command = [sys.executable, "-W", "error", "-m", "kpca_stream", *arguments, "--json", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for each in (process.pid, *_below(process.pid)):
                with suppress(OSError, TypeError):  # it has ended meanwhile
                    peaks[each] = _peak(each)
            time.sleep(0.02)
        printed = process.stdout.read() if process.stdout else ""
    found = json.loads(printed)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}: {found.get('error')}")
    return found["result"], max(peaks.values())


def _peak(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    if found is None:
        raise TypeError(f"/proc/{process}/status tells no peak")
    return int(found[1]) * 1024


def _below(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _below(child)


def traced_peak(work: Callable[[], object]) -> int:
    """Bytes that Python and NumPy allocate at the peak of `work`."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
