"""Scorers that are killed: no row is lost, none scored twice, and parts are those of a run left alone."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.disturb import started, wait_until, write_yaml
from tests.jobs import contents
from tests.scorings import check, fitted, landed, scoring

N_FILES = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    fitted(folder)
    landed(folder / "in", N_FILES)
    return folder


def parts(folder: Path) -> dict[str, bytes]:
    return {path: content for path, content in contents(folder).items() if path.endswith(".parquet")}


def config(folder: Path, output: Path) -> str:
    changes = {"score.output": str(output), "score.input.part_rows": 5}
    return str(write_yaml(output.with_suffix(".yaml"), scoring(folder, changes).model_dump(mode="json")))


def run(folder: Path, output: Path) -> None:
    """Score to the end."""
    with started(folder, "score", config(folder, output), "--quiet") as process:
        assert process.wait(120) == 0


def run_and_kill(folder: Path, output: Path, rng: random.Random) -> None:
    """Score, and be killed somewhere in the writing, naming and entering of some files."""
    target = len(list(output.glob("*.parquet"))) + rng.randrange(30)
    with started(folder, "score", config(folder, output), "--quiet") as process:
        assert wait_until(lambda: len(list(output.glob("*.parquet"))) >= target, process)
        time.sleep(rng.random() * 0.02)
        process.kill()


@pytest.mark.slow
def test_ten_kills_lose_no_row_and_write_none_twice(folder: Path, tmp_path: Path) -> None:
    """Ten kills at seeded moments of a run over 200 files leave the parts of one left alone, to the bit."""
    run(folder, tmp_path / "alone")
    rng = random.Random(6)  # noqa: S311  moments, no secrets
    for _ in range(10):
        run_and_kill(folder, tmp_path / "killed", rng)
    assert 0 < len(parts(tmp_path / "killed")) < len(parts(tmp_path / "alone"))
    run(folder, tmp_path / "killed")
    assert parts(tmp_path / "killed") == parts(tmp_path / "alone")
    (folder / "scores").symlink_to(tmp_path / "killed")
    check(folder, landed(folder / "again", N_FILES))


@pytest.mark.slow
def test_two_scorers_of_which_one_is_killed(folder: Path, tmp_path: Path) -> None:
    """What a scorer that is killed had in hand, the other one beside it does."""
    run(folder, tmp_path / "alone")
    both = config(folder, tmp_path / "both")
    with started(folder, "score", both, "--quiet") as one, started(folder, "score", both, "--quiet") as other:
        assert wait_until(lambda: len(list((tmp_path / "both").glob("*.parquet"))) > 20, one)
        one.kill()
        assert other.wait(120) == 0
    assert parts(tmp_path / "both") == parts(tmp_path / "alone")
