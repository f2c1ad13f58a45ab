"""Random faults in random small fits, for as long as asked: ``python -m tests.soak --minutes 60 --seed 1``.

Each trial kills and restarts one fit and damages its store between the runs, and then compares what it ends
with to an undisturbed fit: the same bits, or a refusal by name after which a restarted fit has the same bits.
At last a bit of the basis is flipped, which must not change a score. Trials repeat with ``--seed`` and
``--first``; the folder of one that went wrong is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq

from kpca_stream.cli import main as command
from kpca_stream.storage.registry import Registry
from tests.disturb import DAMAGES, flip, killed, started, wait_until, write_yaml

KERNELS = ("linear", "rbf", "laplacian", "poly", "cosine")
N_WORKERS, LONGEST_SECONDS = 2, 120.0
REFUSED = (2, 65)
"""Exit codes that say that the store is not what it was."""


class DifferenceError(Exception):
    """A trial did not end as it must."""


@dataclass
class Trial:
    """One random fit and what happens to it."""

    folder: Path
    rng: np.random.Generator
    faults: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def run(self) -> None:
        """Disturb, finish, compare."""
        self.write_job()
        began = time.perf_counter()
        calm = ("--set", "gram.path=calm.zarr", "--set", "models.path=calm")
        expected = self.eigenvalues("fit", "c.yaml", *calm)
        self.seconds = time.perf_counter() - began
        for _ in range(self.rng.integers(1, 5)):
            self.disturb()
        if (found := self.finished()) != expected:
            raise DifferenceError(f"eigenvalues {found}, expected {expected}")
        self.flip_basis()

    def write_job(self) -> None:
        """Rows as NumPy's file or as text, and a configuration."""
        pick = self.rng.choice
        n_rows, n_columns = int(pick([150, 700, 2500])), int(pick([3, 8]))
        if n_rows > 2000:
            n_columns = 120  # so that a pass has many tasks
        X = self.rng.standard_normal((n_rows, n_columns)) * np.linspace(2, 1, n_columns)
        path = str(pick(["x.npy", "x.csv"])) if n_rows < 2000 else "x.npy"
        np.save(self.folder / path, X) if path == "x.npy" else np.savetxt(
            self.folder / path, X, delimiter=",", header=",".join(map(str, range(n_columns))), comments=""
        )
        kernel = str(pick(KERNELS)) if n_rows < 2000 else "laplacian"
        sections = {
            "name": "soak",
            "data": {"train": {"path": path}},
            "kernel": {"name": kernel, "gamma": 0.5 / n_columns, "degree": 2},
            "solver": {
                "method": "dense" if n_rows < 2000 and self.rng.random() < 0.25 else "lanczos",
                "n_components": int(self.rng.integers(2, 7)),
                "precision": str(pick(["float32", "float64", "mixed"])),
                "tol": 1e-5,
            },
            "gram": {
                "storage": str(pick(["zarr", "zarr", "recompute", "memory"])),
                "path": "gram.zarr",
                "tile_rows": int(pick([50, 128])),
                "checkpoint_seconds": 1e-3,
            },
            "cluster": {"kind": str(pick(["threads"] * 5 + ["local"])), "n_workers": N_WORKERS},
            "score": {"input": {"path": path, "rows": "0:60"}, "output": "scores"},
        }
        self.log.append(json.dumps(sections))
        write_yaml(self.folder / "c.yaml", sections)

    def disturb(self) -> None:
        """Kill a run or one of its processes at a random moment, or damage a random file of the store."""
        if self.rng.random() < 0.1:
            self.kill_worker()
        if self.rng.random() < 0.8:
            begun, delay = self.rng.random() < 0.8, float(self.rng.uniform(0, 1.2 * self.seconds))
            with started(self.folder, "fit", "c.yaml", "--quiet") as process:
                if begun:
                    wait_until((self.folder / "gram.zarr/zarr.json").exists, process)
                wait_until(lambda: False, process, delay)
                if process.poll() is None:
                    self.note("kill", f"after {delay:.2f} s")
                    if killed(process):
                        raise DifferenceError("processes outlive a killed fit")
                elif process.returncode not in (0, *REFUSED):
                    raise DifferenceError(f"exit code {process.returncode}")
        if self.rng.random() < 0.5:
            self.damage(self.folder / "gram.zarr")

    def kill_worker(self) -> None:
        """Kill one of the processes of a fit, which goes on without it or asks to be tried again."""
        with started(self.folder, "fit", "c.yaml", "--quiet", "--set", "cluster.kind=local") as process:
            family = psutil.Process(process.pid)
            if wait_until(lambda: len(workers_of(family)) == N_WORKERS, process):
                wait_until(lambda: False, process, float(self.rng.uniform(0, 1 + self.seconds)))
                for worker in workers_of(family)[:1]:
                    self.note("kill of a worker", "")
                    worker.kill()
            if process.wait(LONGEST_SECONDS) not in (0, 75, *REFUSED):
                raise DifferenceError(f"exit code {process.returncode} after a worker was killed")

    def damage(self, store: Path) -> None:
        """Damage a random file: each folder is as likely as every other, however many files it has."""
        found = (path for path in sorted(store.rglob("*")) if path.is_file() and path.name != "lock")
        files = [path for path in found if path.stat().st_size]
        if not files:
            return
        places = sorted({path.relative_to(store).parts[0] for path in files})
        place = str(self.rng.choice(places))
        path = self.rng.choice([str(path) for path in files if path.relative_to(store).parts[0] == place])
        kind = str(self.rng.choice(list(DAMAGES)))
        self.note(kind, str(path))
        if kind == "flip":
            flip(Path(path), int(self.rng.integers(2**31)))
        else:
            DAMAGES[kind](Path(path))

    def finished(self) -> list[float]:
        """The eigenvalues that the fit ends with, restarted where its store is refused."""
        code, _ = self.command("fit", "c.yaml")
        if code in REFUSED:
            self.note("restart", "")
            if not (self.folder / "gram.zarr" / "zarr.json").exists():
                shutil.rmtree(self.folder / "gram.zarr")  # no store to any command any more
            return self.eigenvalues("fit", "c.yaml", "--restart")
        return self.eigenvalues("fit", "c.yaml")

    def flip_basis(self) -> None:
        """A flipped bit in the basis is refused, or touches no score."""
        self.command("score", "c.yaml", codes=(0,))
        expected = self.scores()
        registry = Registry.of(self.folder / "models", "soak")
        basis = registry.basis_path(registry.resolve())
        files = [str(path) for path in sorted(basis.rglob("*")) if path.is_file()]
        path = Path(self.rng.choice(files))
        self.note("flip of the basis", str(path))
        flip(path, int(self.rng.integers(2**31)))
        code, _ = self.command("score", "c.yaml", codes=(0, 65))
        if code == 0 and not self.scores().equals(expected):
            raise DifferenceError("a damaged basis scored, and otherwise")

    def scores(self) -> Any:
        """The table of scores, which is removed, so that it is made again."""
        (path,) = (self.folder / "scores").glob("*.parquet")
        table = pq.read_table(path)
        path.unlink()
        return table

    def eigenvalues(self, *arguments: str) -> list[float]:
        """Of a command that must end well."""
        _, printed = self.command(*arguments, codes=(0,))
        values: list[float] = printed["result"]["eigenvalues"]
        return values

    def command(self, *arguments: str, codes: tuple[int, ...] = (0, *REFUSED)) -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of a command in this process; another code, or a traceback, is a difference."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command([*arguments, "--json", "--quiet"])
        self.log.append(f"{' '.join(arguments)}: {code} {err.getvalue()}")
        if code not in codes or "Traceback" in err.getvalue():
            raise DifferenceError(f"{' '.join(arguments)}: exit code {code}: {err.getvalue()}")
        return code, json.loads(out.getvalue())

    def note(self, fault: str, what: str) -> None:
        """Count a fault."""
        self.faults[fault] += 1
        self.log.append(f"{fault} {what}")


def workers_of(family: psutil.Process) -> list[psutil.Process]:
    """The processes of a local cluster."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [one for one in family.children() if "spawn_main" in " ".join(one.cmdline())]
    return []


@contextlib.contextmanager
def kept_if_wrong(parent: Path, number: int) -> Iterator[Path]:
    folder = parent / f"trial-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def soak(parent: Path, seed: int, first: int, is_over: Callable[[int], bool]) -> tuple[int, int]:
    """Numbers of trials and of differences."""
    faults: Counter[str] = Counter()
    number, n_differences = first, 0
    while not is_over(number - first):
        with contextlib.suppress(DifferenceError), kept_if_wrong(parent, number) as folder:
            trial = Trial(folder, np.random.default_rng([seed, number]))
            try:
                trial.run()
            except DifferenceError as error:
                n_differences += 1
                (folder / "log.txt").write_text("\n".join(trial.log))
                print(f"trial {number}: {error}; see {folder}/log.txt", file=sys.stderr, flush=True)
                raise
            finally:
                faults += trial.faults
        number += 1
    told = ", ".join(f"{count} {fault}" for fault, count in sorted(faults.items()))
    print(f"{number - first} trials (seed {seed}), {told}: {n_differences} differences")
    return number - first, n_differences


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--trials", type=int, help="at most so many")
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    parent = Path(tempfile.mkdtemp(prefix="kpca-stream-soak-"))
    _, n_differences = soak(
        parent,
        asked.seed,
        asked.first,
        lambda done: time.monotonic() > end or (asked.trials is not None and done >= asked.trials),
    )
    if not n_differences:
        shutil.rmtree(parent)
    return 1 if n_differences else 0


if __name__ == "__main__":
    sys.exit(main())
