"""Peak memory of some code in a process of its own, counted above what its imports take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
