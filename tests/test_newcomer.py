"""The first hour of somebody who has never seen this: every message on the way says what to do next."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.jobs import ROOT, command

RECIPE = str(ROOT / "configs" / "quickstart.yaml")
OWN = ("data.train={path: people.csv}", "name=people", "gram.path=work/people.zarr", "score=null")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a table of people lies: a column of text, and two salaries missing."""
    rng = np.random.default_rng(0)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", "age", "salary", "height"])
        for number in range(300):
            salary = "" if number in (7, 50) else round(rng.normal(40_000, 9_000))
            height = round(rng.normal(1.7, 0.1), 2)
            table.writerow([f"person {number}", rng.integers(18, 65), salary, height])
    return tmp_path


def told(folder: Path, name: str, *settings: str, code: int = 0, options: tuple[str, ...] = ()) -> str:
    """What a command says beside its result: lines of standard error, progress left out."""
    words = [word for setting in settings for word in ("--set", setting)]
    done = command(folder, name, RECIPE, *words, *options, "--json")
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if not re.search(r": \d+ of \d+, [\d.]+[sm]", line)]
    assert "Traceback" not in done.stderr
    return "\n".join(lines)


@pytest.mark.slow
def test_a_table_of_ones_own_is_fitted_step_by_step(folder: Path) -> None:
    """Missing values, text, units and γ: each is told with the setting that helps, and with it goes on."""
    missing = told(folder, "fit", *OWN, code=65)
    assert "people.csv: left out 'name', which hold no numbers" in missing
    assert "row 7 (line 9), column 'salary': got nan" in missing
    assert "data.on_missing: drop" in missing

    dropped = (*OWN, "data.on_missing=drop")
    units = told(folder, "fit", *dropped)
    assert "column 'salary' has 100 % of the variance" in units
    assert "set data.scale: standard" in units

    scaled = (*dropped, "data.scale=standard")
    other = told(folder, "fit", *scaled, code=65)
    assert "choose another gram.path, or fit with --restart" in other
    gamma = told(folder, "fit", *scaled, "kernel.gamma=5000", options=("--restart",))
    assert "K is close to the identity" in gamma
    assert "gamma near 0.1" in gamma
    chosen = (*scaled, "kernel.gamma=0.1", "data.columns=[age, salary, height]")
    assert "warning" not in told(folder, "fit", *chosen, options=("--restart",))


def test_text_among_numbers_is_told_with_its_place(folder: Path) -> None:
    """A word in a column of numbers is named by row, line and column, with the two ways on; both are open."""
    lines = (folder / "people.csv").read_text().splitlines()
    name, age, _, height = lines[20].split(",")
    lines[20] = f"{name},{age},unknown,{height}"
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    found = told(folder, "fit", *OWN, "data.on_missing=drop", code=65)
    assert "row 19 (line 21), column 'salary': got text 'unknown'" in found
    assert "repair it or leave the column out of data.columns" in found
    told(folder, "fit", *OWN, "data.columns=[age, height]")


@pytest.mark.slow
def test_many_rows_and_little_memory_have_a_way_out(tmp_path: Path) -> None:
    """200,000 rows in 512 MiB: the refusal names the approximation that fits, and with it the fit goes on."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "many.npy", rng.standard_normal((200_000, 20), dtype=np.float32))
    many = ("data.train={path: many.npy}", "name=many", "gram.path=work/many.zarr", "gram.storage=auto")
    limited = (*many, "limits.memory=512MiB", "kernel.gamma=0.02")
    refused = told(tmp_path, "fit", *limited, code=2)
    assert "limits.memory is 512.0 MiB" in refused
    assert "solver.method: nystrom" in refused
    assert "error" not in told(tmp_path, "fit", *limited, "solver.method=nystrom", "nystrom.landmarks=100")


@pytest.mark.parametrize(
    ("arguments", "code", "way_out"),
    [
        (("run",), 2, "Try 'kpca-stream run --help' for help."),
        (("runn", RECIPE), 2, "Did you mean 'run'?"),
        (("run", "quikstart.yaml"), 2, "correct the path"),
        (("run", RECIPE, "--set", "kernel.gama=1"), 2, "did you mean 'gamma'"),
        (("run", RECIPE, "--set", "kernel.name=rbff"), 2, "did you mean 'rbf'"),
        (("fit", RECIPE, "--set", "data.train={path: people.cvs}"), 2, "correct the path"),
        (("score", RECIPE), 2, "fit"),
        (("report", RECIPE), 2, "fit"),
        (("models", "list", "models/digits"), 2, "fit"),
        (("verify", "models/digits"), 2, "give the path of one"),
    ],
)
def test_mistakes_of_the_first_hour(
    tmp_path: Path, arguments: tuple[str, ...], code: int, way_out: str
) -> None:
    """A slip in a name or an order of commands is one message with what was meant, or what comes first."""
    done = command(tmp_path, *arguments)
    assert done.returncode == code, done.stderr
    assert way_out in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_second_call_says_that_nothing_is_to_be_done(tmp_path: Path) -> None:
    """The same command again neither fits nor scores, and says so."""
    command(tmp_path, "run", RECIPE, check=True)
    again = command(tmp_path, "run", RECIPE, check=True).stdout
    assert re.search("nothing to do +version 1 was fitted already", again)
    assert "0 written, 6 there already" in again
    assert json.loads(command(tmp_path, "run", RECIPE, "--json", check=True).stdout)["result"]["fit"][
        "reused"
    ]
