"""What can happen to a run: started, watched and killed commands; damaged files; a small disk of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from ruamel.yaml import YAML

from kpca_stream.numerics.tiles import TileGrid

ROOT = Path(__file__).resolve().parents[1]
UNSHARE = shutil.which("unshare")
PYTHON = (sys.executable, "-W", "error", "-m", "kpca_stream")


def write_yaml(path: Path, sections: dict[str, Any]) -> Path:
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(sections, file)
    return path


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs in `folder`; killed with all its processes when the block ends."""
    process = subprocess.Popen(
        [*PYTHON, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    family = psutil.Process(process.pid)
    try:
        yield process
    finally:
        left = [*family.children(recursive=True), family] if family.is_running() else []
        for one in left:
            one.kill()
        process.communicate()


def killed(process: subprocess.Popen[str], *, seconds: float = 15) -> list[str]:
    """Kill a command alone, as the kernel does where memory ends; which of its processes outlive it."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=seconds)
    return [" ".join(one.cmdline()) for one in alive]


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 60
) -> bool:
    """Whether `condition` came true while the process lived."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        if process is not None and process.poll() is not None:
            return False
        time.sleep(0.002)
    return False


def folded(store: Path) -> list[int]:
    """Tasks that the checkpoint of each pass holds, pass by pass."""
    found = []
    for path in sorted((store / "checkpoints").glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found.append(int(json.loads(str(file["contents"]))["facts"]["n_folded"]))
    return found


@dataclass(frozen=True)
class Left:
    """What a killed run left: tasks folded in each pass, and tiles."""

    folded: list[int]
    n_tiles: int

    @classmethod
    def of(cls, store: Path) -> Left:
        tiles = (path for path in (store / "tiles" / "c").glob("*/*") if path.suffix != ".partial")
        return cls(folded(store), sum(1 for _ in tiles))

    def to_do(self, grid: TileGrid, n_passes: int) -> int:
        """Tiles to be multiplied still, in `n_passes` passes."""
        per_task = [len(grid.tiles(block)) for block in grid.blocks()]
        starts = self.folded + [0] * (n_passes - len(self.folded))
        return sum(sum(per_task[start:]) for start in starts)


def flip(path: Path, seed: int = 0) -> None:
    """Flip one bit, anywhere."""
    content = bytearray(path.read_bytes())
    position = int(np.random.default_rng(seed).integers(len(content)))
    content[position] ^= 1 << seed % 8
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "empty": empty, "delete": Path.unlink}


def can_mount() -> bool:
    """Whether this user may have a mount namespace."""
    if UNSHARE is None:
        return False
    probe = [UNSHARE, "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def in_namespace(folder: Path, steps: Sequence[str]) -> list[tuple[int, str]]:
    """Run shell commands one by one where mounts are nobody else's; the exit code and errors of each.

    In them ``$KPCA`` is the command line.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KPCA": " ".join(PYTHON)}
    script = "\n".join(f"{{ {step}; }} 2>{i}.err >{i}.out; echo $? >{i}.rc" for i, step in enumerate(steps))
    subprocess.run([str(UNSHARE), "-m", "sh", "-c", script], cwd=folder, env=environment, check=True)
    return [
        (int((folder / f"{i}.rc").read_text()), (folder / f"{i}.err").read_text()) for i in range(len(steps))
    ]
