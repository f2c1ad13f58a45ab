"""Small configurations and runs for the tests of whole jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kpca_stream.config import Config

ROOT = Path(__file__).resolve().parents[1]


def configured(folder: Path, changes: dict[str, Any] | None = None) -> Config:
    """A configuration whose files all lie in `folder`; `changes` are keys such as ``"kernel.gamma"``."""
    sections: dict[str, Any] = {
        "name": "rows",
        "data": {"train": {"path": str(folder / "train.npy")}},
        "kernel": {"name": "rbf", "gamma": 0.05},
        "solver": {"method": "lanczos", "n_components": 3},
        "gram": {"storage": "zarr", "path": str(folder / "gram.zarr"), "tile_rows": 64},
        "models": {"path": str(folder / "models")},
        "score": {
            "input": {"path": str(folder / "new.npy"), "part_rows": 20},
            "output": str(folder / "scores"),
        },
    }
    for key, value in (changes or {}).items():
        *path, last = key.split(".")
        section = sections
        for name in path:
            section = section.setdefault(name, {})
        if value is None:
            section.pop(last)
        else:
            section[last] = value
    return Config.model_validate(sections)


def command(folder: Path, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``kpca-stream`` in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "kpca_stream", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=check,
    )


def contents(folder: Path) -> dict[str, bytes]:
    """All files of `folder`, by their relative paths; the lock is left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def environment_with_program(folder: Path) -> dict[str, str]:
    """An environment with `folder` on its PATH, where this Python and this ``kpca-stream`` are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, arguments in (("kpca-stream", " -m kpca_stream"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
