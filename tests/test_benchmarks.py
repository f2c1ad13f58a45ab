"""Benchmarks are run by hand; that they can be is tested."""

from __future__ import annotations

import os
import subprocess
import sys

from jobs import ROOT

ASKED = "from tests.benchmarks.__main__ import NAMES; print(*sorted(NAMES))"
FOUND = """
import importlib, pathlib
names = sorted(path.stem for path in pathlib.Path("tests/benchmarks").glob("[!_]*.py"))
modules = [importlib.import_module(f"tests.benchmarks.{name}") for name in names]
print(*[name for name, module in zip(names, modules) if hasattr(module, "QUESTION")])
"""


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_benchmark_can_be_imported_and_is_run_with_the_others() -> None:
    """What benchmarks take from the package is there, and all that have a question are in the one command."""
    assert printed(FOUND) == printed(ASKED)
