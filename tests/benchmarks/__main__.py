"""All benchmarks, one after another, each in a process of its own: ``python -m tests.benchmarks``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.harness import arguments

NAMES = (
    "tile",
    "in_memory",
    "svd",
    "large",
    "growth",
    "scheduler",
    "workers",
    "sleepers",
    "moving",
    "disk",
    "storage",
    "mixed",
    "starts",
    "plans",
    "truths",
    "duplicates",
    "landmarks",
    "nystroem",
    "scoring",
    "novelty",
    "turbidity",
    "page",
    "china",
    "year",
)


def main() -> int:
    """Run them; one that fails stops no other, but counts."""
    options = arguments("All benchmarks")
    found, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        for name in NAMES:
            command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--json", str(path)]
            if subprocess.run([*command, *(["--quick"] if options.quick else [])], check=False).returncode:
                failed.append(name)
            else:
                found.append({"name": name, **json.loads(path.read_text(encoding="utf-8"))})
    text = json.dumps(found, ensure_ascii=False)
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text + "\n", encoding="utf-8")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
