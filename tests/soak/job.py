"""One small random fit, its commands and what is known of it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.cli import main
from tests.disturb import write_yaml
from tests.jobs import contents

Array = NDArray[Any]

KERNELS = ("linear", "rbf", "laplacian", "poly", "cosine")
PRECISIONS = ("float32", "float64", "mixed")
N_WORKERS = 2
REFUSED = (2, 65)
"""Exit codes that say that what was asked for cannot be had of what is there."""


class DifferenceError(Exception):
    """A trial did not end as it must."""


@dataclass
class Job:
    """A fit in a folder; `rng` draws its next fault, `suspect` says that its store may be refused."""

    folder: Path
    rng: np.random.Generator
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    suspect: bool = False
    seconds: float = 0.0
    n_asides: int = 0
    X: Array = field(init=False)
    sections: dict[str, Any] = field(init=False)
    eigenvalues: list[float] = field(init=False)
    scores: Any = field(init=False)

    @property
    def store(self) -> Path:
        return self.folder / "gram.zarr"

    @property
    def train(self) -> Path:
        return self.folder / str(self.sections["data"]["train"]["path"])

    @property
    def codes(self) -> tuple[int, ...]:
        """Exit codes that a fit may end with now."""
        return (0, *REFUSED) if self.suspect else (0,)

    def write(self) -> None:
        """Rows as NumPy's file or as text, and a configuration."""
        pick = self.rng.choice
        n_rows, n_columns = int(pick([150, 700, 2500], p=[0.4, 0.4, 0.2])), int(pick([3, 8]))
        is_long = n_rows > 2000
        if is_long:
            n_columns = 120  # so that a pass has many tasks
        self.X = self.rng.standard_normal((n_rows, n_columns)) * np.linspace(2, 1, n_columns)
        path = "x.npy" if is_long else str(pick(["x.npy", "x.csv"]))
        write_rows(self.folder / path, self.X)
        self.sections = {
            "name": "soak",
            "data": {"train": {"path": path}},
            "kernel": {
                "name": "laplacian" if is_long else str(pick(KERNELS)),
                "gamma": 0.5 / n_columns,
                "degree": 2,
            },
            "solver": {
                "method": "dense" if not is_long and self.rng.random() < 0.25 else "lanczos",
                "n_components": int(self.rng.integers(2, 7)),
                "precision": str(pick(PRECISIONS)),
                "tol": 1e-5,
            },
            "gram": {
                "storage": str(pick(["zarr", "zarr", "recompute", "memory"])),
                "path": "gram.zarr",
                "tile_rows": int(pick([50, 128])),
                "checkpoint_seconds": 1e-3,
            },
            "cluster": {"kind": str(pick(["threads"] * 7 + ["local"])), "n_workers": N_WORKERS},
            "score": {"input": {"path": path, "rows": "0:60"}, "output": "scores"},
        }
        self.log.append(json.dumps(self.sections))
        write_yaml(self.folder / "c.yaml", self.sections)

    def rest(self) -> None:
        """The undisturbed fit and its scores, which all others are compared to."""
        calm = setting("models.path", "calm")
        began = time.perf_counter()
        self.eigenvalues = self.fitted(*setting("gram.path", "calm.zarr"), *calm)
        self.seconds = time.perf_counter() - began
        self.scores = self.scored(*calm)

    def aside(self) -> tuple[str, ...]:
        """Models of their own for the next fit, so that none counts as made already."""
        return setting("models.path", self.name("aside"))

    def name(self, kind: str) -> str:
        """A name that nothing in the folder has yet."""
        self.n_asides += 1
        return f"{kind}-{self.n_asides}"

    def compare(self, found: list[float], what: str) -> None:
        if found != self.eigenvalues:
            raise DifferenceError(f"{what}: eigenvalues {found}, expected {self.eigenvalues}")

    def fitted(self, *arguments: str) -> list[float]:
        """The eigenvalues of a fit that must end well."""
        _, printed = self.command("fit", "c.yaml", *arguments, codes=(0,))
        values: list[float] = printed["result"]["eigenvalues"]
        return values

    def scored(self, *arguments: str) -> Any:
        """The table of scores of the last fit."""
        output = self.name("scores")
        self.command("score", "c.yaml", *arguments, *setting("score.output", output), codes=(0,))
        (path,) = (self.folder / output).glob("*.parquet")
        return pq.read_table(path)

    def finished(self) -> None:
        """Compare what the fit ends with, restarted where its store is refused and may be."""
        final = setting("models.path", "final")
        code, printed = self.command("fit", "c.yaml", *final, codes=self.codes)
        if code == 0:
            found = printed["result"]["eigenvalues"]
        else:
            self.note("kinds of ends", "restart", "")
            if not (self.store / "zarr.json").exists():
                shutil.rmtree(self.store)  # no store to any command any more
            found = self.fitted("--restart", *final)
        self.compare(found, "fit")
        if not self.scored(*final).equals(self.scores):
            raise DifferenceError("scores differ")

    def refused(self, *arguments: str, codes: tuple[int, ...], parts: tuple[str, ...]) -> str:
        """The message of a command that must end so, say one of `parts` and leave every file as it is."""
        before = self.stored()
        _, printed = self.command(*arguments, codes=codes)
        message = str(printed["error"]["message"])
        if not any(part in message for part in parts):
            raise DifferenceError(f"{' '.join(arguments)}: got {message!r}, expected one of {parts}")
        if changed := sorted({name for name, _ in before.items() ^ self.stored().items()}):
            raise DifferenceError(f"{' '.join(arguments)}: refused, and changed {changed}")
        return message

    def stored(self) -> dict[str, bytes]:
        """All files; what a killed run left half-written may go at any time."""
        found = contents(self.folder)
        return {name: content for name, content in found.items() if not name.endswith(".partial")}

    def command(self, *arguments: str, codes: tuple[int, ...]) -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of a command in this process; other codes, or lines, are a difference."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*arguments, "--json", "--quiet"])
        self.log.append(f"{' '.join(arguments)}: {code} {err.getvalue()}")
        if code not in codes or not is_told(code, err.getvalue()):
            raise DifferenceError(f"{' '.join(arguments)}: exit code {code}: {err.getvalue()}")
        return code, json.loads(out.getvalue())

    def note(self, kind: str, fault: str, what: str) -> None:
        """Count a fault."""
        self.faults[kind, fault] += 1
        self.log.append(f"{kind}: {fault} {what}")


def is_told(code: int, errors: str) -> bool:
    """Whether a failure, and nothing else, is told in one line."""
    lines = [line for line in errors.splitlines() if not line.startswith("warning: ")]
    return len(lines) == (code != 0) and all(line.startswith("error: ") for line in lines)


def setting(key: str, value: object) -> tuple[str, str]:
    return "--set", f"{key}={value}"


def write_rows(path: Path, X: Array) -> Path:
    """As the ending of `path` says; the columns of text have names."""
    if path.suffix == ".npy":
        np.save(path, X)
    else:
        header = ",".join(f"c{j}" for j in range(X.shape[1]))
        np.savetxt(path, X, delimiter=",", header=header, comments="")
    return path
