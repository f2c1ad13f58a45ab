"""Bad input: rows, settings and paths that a command must refuse in one line that names them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests import faults
from tests.disturb import write_yaml
from tests.soak.job import REFUSED, Array, Job, setting, write_rows
from tests.soak.mixing import begin
from tests.tables import WRITERS, place_of


@dataclass(frozen=True)
class Mistake:
    """A command that must be refused with one of `codes`, and say one of `parts`."""

    arguments: tuple[str, ...]
    parts: tuple[str, ...]
    codes: tuple[int, ...] = REFUSED


def fit(*settings: str, parts: tuple[str, ...], codes: tuple[int, ...] = REFUSED) -> Mistake:
    return Mistake(("fit", "c.yaml", *settings), parts, codes)


def rows_of(path: object) -> tuple[str, ...]:
    return setting("data.train.path", path)


def value(job: Job, folder: Path) -> Mistake:
    """NaN or infinity somewhere in the rows, in any kind of file."""
    X = job.X.copy()
    row, column = int(job.rng.integers(len(X))), int(job.rng.integers(X.shape[1]))
    X[row, column] = job.rng.choice([np.nan, np.inf, -np.inf])
    path = WRITERS[str(job.rng.choice(list(WRITERS)))](folder, X)
    said = (f"{place_of(path.name, row)}, column '{column}'",)
    return fit(*rows_of(path), parts=said, codes=(65,))


def table(job: Job, folder: Path) -> Mistake:
    """One of the faults that the tests of sources know."""
    make, kind, parts = faults.TABLE[int(job.rng.integers(len(faults.TABLE)))]
    job.note("bad input", f"file: {make.__name__}", "")
    return fit(*rows_of(make(folder)), parts=parts[:1], codes=(kind.exit_code,))


def text_cell(job: Job, folder: Path) -> Mistake:
    path = write_rows(folder / "x.csv", job.X[:200])
    lines = path.read_text().splitlines()
    row, column = int(job.rng.integers(1, len(lines) - 1)), int(job.rng.integers(job.X.shape[1]))
    cells = lines[1 + row].split(",")
    cells[column] = "many"
    lines[1 + row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    part = f"{place_of(path.name, row)}, column 'c{column}': got text 'many'"
    return fit(*rows_of(path), parts=(part,), codes=(65,))


def empty_file(job: Job, folder: Path) -> Mistake:
    path = folder / f"x.{job.rng.choice(['npy', 'csv', 'parquet', 'arrow', 'h5'])}"
    path.touch()
    return fit(*rows_of(path), parts=(path.name,))


def one_row(job: Job, folder: Path) -> Mistake:
    path = write_rows(folder / str(job.rng.choice(["x.npy", "x.csv"])), job.X[:1])
    return fit(*rows_of(path), parts=("expected at least 2",), codes=(65,))


def no_columns(job: Job, folder: Path) -> Mistake:
    path = folder / "x.npy"
    np.save(path, np.empty((len(job.X), 0)))
    return fit(*rows_of(path), parts=("x.npy: got ",), codes=(65,))


def missing_file(job: Job, folder: Path) -> Mistake:  # noqa: ARG001  as all mistakes
    return fit(*rows_of(folder / "nowhere.npy"), parts=("nowhere.npy: no such file or folder",), codes=(2,))


def folder_for_file(job: Job, folder: Path) -> Mistake:
    path = folder / f"x.{job.rng.choice(['npy', 'csv', 'parquet', 'h5'])}"
    path.mkdir()
    return fit(*rows_of(path), parts=(path.name,))


def asymmetric(job: Job, folder: Path) -> Mistake:
    n = int(job.rng.integers(3, 150))
    A = job.rng.standard_normal((n, n))
    K = A @ A.T
    K[n - 1, 0] += 1
    return precomputed(folder, K, "symmetric")


def not_square(job: Job, folder: Path) -> Mistake:
    return precomputed(folder, job.X, f"({len(job.X)}, {job.X.shape[1]}); expected a square")


def precomputed(folder: Path, K: Array, part: str) -> Mistake:
    path = write_rows(folder / "k.npy", K)
    return fit(*rows_of(path), *setting("kernel.name", "precomputed"), parts=(part,), codes=(65,))


def own_kernel(job: Job, folder: Path) -> Mistake:  # noqa: ARG001  as all mistakes
    """A function that raises, or returns something else than a matrix of numbers."""
    (job.folder / "bad_kernels.py").write_text(faults.KERNELS)
    name = f"bad_kernels:{job.rng.choice(['raises', 'shape', 'nan', 'words', 'complex', 'rows'])}"
    return fit(*setting("kernel.name", f"'{name}'"), parts=(f"kernel {name}",), codes=(65,))


def wrong_value(job: Job, folder: Path) -> Mistake:  # noqa: ARG001  as all mistakes
    """A value that its key does not take, as a setting."""
    rbf = setting("kernel.name", "rbf")
    wrong = [
        ((*rbf, *setting("kernel.gamma", 0)), "kernel.gamma: "),
        ((*rbf, *setting("kernel.gamma", -0.5)), "kernel.gamma: "),
        ((*setting("kernel.name", "poly"), *setting("kernel.degree", 2.5)), "kernel.degree: "),
        (setting("kernel.name", "rbff"), "did you mean 'rbf'?"),
        (setting("solver.tol", "'1e-5'"), "solver.tol: wrong value, got the text '1e-5'"),
        (setting("gram.tile_rows", "'64'"), "gram.tile_rows: wrong value, got the text '64'"),
        (setting("data.columns", "[99999]"), "99999"),
    ]
    settings, part = wrong[int(job.rng.integers(len(wrong)))]
    return fit(*settings, parts=(part,), codes=(2,))


def wrong_key(job: Job, folder: Path) -> Mistake:
    """An unknown key, a key twice, or a number as text, told at its place in the file."""
    sections: dict[str, Any] = copy.deepcopy(job.sections)
    kind, more = str(job.rng.choice(["unknown key", "duplicate key", "text"])), ""
    if kind == "unknown key":
        sections["solver"]["tool"] = sections["solver"].pop("tol")
        part = "solver.tool: unknown key, got 'tool', did you mean 'tol'?"
    elif kind == "duplicate key":
        more, part = "name: soak\n", "name: duplicate key"
    else:
        sections["kernel"]["degree"] = "2"
        part = "kernel.degree: wrong value, got the text '2'"
    path = write_yaml(folder / "bad.yaml", sections)
    path.write_text(path.read_text() + more)
    return Mistake(("fit", str(path)), (part,), (2,))


def output_is_input(job: Job, folder: Path) -> Mistake:  # noqa: ARG001  as all mistakes
    key = str(job.rng.choice(["gram.path", "models.path", "score.output"]))
    settings = setting(key, f"{job.train.name}{'/m' if key == 'models.path' else ''}")
    elsewhere = setting("score.input.path", "elsewhere.npy")  # else two keys are at fault, a line for each
    return fit(*settings, *elsewhere, parts=("expected a place of its own",), codes=(2,))


def columns_at_scoring(job: Job, folder: Path) -> Mistake:
    """Too few or too many columns, or another name."""
    X, kind = job.X[:60], str(job.rng.choice(["fewer", "more", "name"]))
    if kind == "more" and job.train.suffix == ".npy":
        path = write_rows(folder / "x.npy", np.column_stack([X, X[:, 0]]))
    elif kind != "name" or job.train.suffix == ".npy":
        path = write_rows(folder / f"x{job.train.suffix}", X[:, 1:])
    else:
        path = write_rows(folder / "x.csv", X)
        path.write_text(path.read_text().replace("c1", "one", 1))
    return scored(path, "column")


def value_at_scoring(job: Job, folder: Path) -> Mistake:
    X, row = job.X[:60].copy(), int(job.rng.integers(60))
    X[row, -1] = job.rng.choice([np.nan, np.inf])
    path = write_rows(folder / f"x{job.train.suffix}", X)
    return scored(path, f"{place_of(path.name, row)}, column ")


def scored(path: Path, part: str) -> Mistake:
    places = (*setting("models.path", "calm"), *setting("score.output", "bad-scores"))
    return Mistake(("score", "c.yaml", *places, *setting("score.input.path", path)), (part,))


MISTAKES: dict[str, Callable[[Job, Path], Mistake]] = {
    "NaN or infinity": value,
    "file": table,
    "text cell": text_cell,
    "empty file": empty_file,
    "one row": one_row,
    "no columns": no_columns,
    "missing file": missing_file,
    "folder for a file": folder_for_file,
    "asymmetric matrix": asymmetric,
    "matrix not square": not_square,
    "own kernel": own_kernel,
    "wrong value": wrong_value,
    "wrong key": wrong_key,
    "output is input": output_is_input,
    "columns at scoring": columns_at_scoring,
    "value at scoring": value_at_scoring,
}


def mistake(job: Job) -> None:
    """Bad input is named in one line and leaves nothing, in the job's store or in one of its own."""
    is_apart = job.suspect or job.rng.random() < 0.5
    if not is_apart:
        begin(job)
    for what in job.rng.choice(list(MISTAKES), size=3, replace=False):
        folder = job.folder / job.name("bad")
        folder.mkdir()
        made = MISTAKES[what](job, folder)
        if what != "file":
            job.note("bad input", what, " ".join(made.arguments))
        apart = setting("gram.path", job.name("bad-store")) if is_apart else ()
        apart = () if any(text.startswith("gram.path=") for text in made.arguments) else apart
        aside = () if any(text.startswith("models.path=") for text in made.arguments) else job.aside()
        parts = made.parts if is_apart else (*made.parts, "holds another run")
        job.refused(*made.arguments, *apart, *aside, codes=made.codes, parts=parts)
