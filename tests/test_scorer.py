"""What lies in an input gets its scores: each row once, whatever arrives, changes or is bad."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr

from kpca_stream.cli import main
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.pipeline import fit_config, score_config
from kpca_stream.results import ScoreSummary
from kpca_stream.scorer import Scorer, looking
from kpca_stream.storage import ledger, objects
from kpca_stream.storage.inbox import arrived
from kpca_stream.storage.ledger import Entry, Ledger, ScoredPart
from kpca_stream.telemetry import silent
from tests.disturb import write_yaml
from tests.jobs import configured, contents
from tests.memory import traced_peak
from tests.scorings import KINDS, X, as_csv, beside, check, fitted, landed, read, scoring


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def score(folder: Path, changes: dict[str, Any] | None = None) -> ScoreSummary:
    return score_config(scoring(folder, changes), silent())


def test_files_of_all_kinds_get_their_scores_once(folder: Path) -> None:
    """A folder of files of six kinds is scored, and a second run writes nothing."""
    files = landed(folder / "in", 12)
    first = score(folder)
    check(folder, files)
    n_rows = sum(map(len, files.values()))
    assert (first.n_files, first.n_rows, first.rows_written, first.parts_written) == (12, n_rows, n_rows, 12)
    before = contents(folder / "scores")
    second = score(folder)
    assert (second.rows_written, second.parts_written, second.parts_skipped) == (0, 0, 12)
    assert contents(folder / "scores") == before


def test_only_what_arrived_is_scored(folder: Path) -> None:
    """Files that land later, also in a folder below, are scored, and the others left alone."""
    files = landed(folder / "in", 3)
    score(folder)
    times = {path: path.stat().st_mtime_ns for path in (folder / "scores").glob("*.parquet")}
    files |= {f"day/{name}": rows for name, rows in landed(folder / "in" / "day", 2, seed=1).items()}
    assert score(folder).parts_written == 2
    assert {path: path.stat().st_mtime_ns for path in times} == times
    check(folder, files)


@pytest.mark.parametrize("name", ["_part.npy", ".part.npy", "x.npy.tmp", "x.npy.partial", "x.npy.part"])
def test_unfinished_names_are_left_alone(folder: Path, name: str) -> None:
    """A file under a temporary name is not looked at until it gets its own."""
    np.save(folder / "rows.npy", X[:5])
    (folder / "rows.npy").rename(folder / "in" / name)
    assert score(folder).n_files == 0
    (folder / "in" / name).rename(folder / "in" / "x.npy")
    assert score(folder).n_rows == 5


def test_a_file_that_still_changes_is_left_alone(folder: Path) -> None:
    """A file that was written just now waits until its size and time have stayed the same for a while."""
    scorer = Scorer(scoring(folder, {"score.input.settle_seconds": 0.5}), silent())
    path = folder / "in" / "a.csv"
    as_csv(path, X[:5])
    assert scorer.look().unsettled == 1
    with path.open("a") as file:
        file.write("1,2,3")  # a line of which the end is to come
    time.sleep(0.3)
    assert scorer.look().unsettled == 1
    with path.open("a") as file:
        file.write(",4\n")
    assert scorer.work_off().n_rows == 6
    check(folder, {"a.csv": np.vstack([X[:5], [1.0, 2.0, 3.0, 4.0]])})


def test_what_never_settles_is_told(folder: Path) -> None:
    """A single command does not wait for ever for a file that keeps changing: it says that it left it."""
    landed(folder / "in", 2)
    future = time.time() + 3600  # a clock that runs ahead
    os.utime(folder / "in" / "file-0-000.npy", (future, future))
    scorer = Scorer(scoring(folder, {"score.input.settle_seconds": 0.3}), silent())
    first = scorer.look()
    assert first.unsettled == 2
    assert scorer.work_off().n_rows > 0


def test_an_array_that_grows_is_scored_from_where_it_ended(folder: Path) -> None:
    """Rows appended to a Zarr array are scored as parts of their own; those before keep theirs."""
    array = zarr.create_array(folder / "grows.zarr", shape=(10, 4), chunks=(8, 4), dtype="f8")
    array[:] = X[:10]
    changes = {"score.input.path": str(folder / "grows.zarr"), "score.input.part_rows": 6}
    assert score(folder, changes).parts_written == 2
    before = contents(folder / "scores")
    for stop in (13, 30):
        start = array.shape[0]
        array.resize((stop, 4))
        array[start:] = X[start:stop]
        assert score(folder, changes).rows_written == stop - start
        check(folder, {"grows.zarr": X[:stop]})
    now = contents(folder / "scores")
    assert {path: now[path] for path in before if path.endswith(".parquet")} == {
        path: content for path, content in before.items() if path.endswith(".parquet")
    }


def test_a_file_that_grows_is_scored_from_where_it_ended(folder: Path) -> None:
    """A CSV file to which lines were added has the new ones scored, and no other."""
    as_csv(folder / "in" / "log.csv", X[:10])
    score(folder)
    as_csv(folder / "in" / "log.csv", X[:17])
    found = score(folder)
    assert (found.rows_written, found.n_rows) == (7, 17)
    check(folder, {"log.csv": X[:17]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_no_change(folder: Path, kind: str) -> None:
    """A file written again with the same rows is told by its rows, and nothing is scored."""
    path = folder / "in" / f"a.{kind}"
    KINDS[kind](path, X[:9])
    score(folder)
    time.sleep(0.01)
    if kind == "zarr":
        zarr.open_array(path, mode="a")[:] = X[:9]
    else:
        KINDS[kind](path, X[:9])
    assert score(folder).parts_written == 0
    check(folder, {path.name: X[:9]})


@pytest.mark.parametrize("n_rows", [4, 9, 20])
def test_other_rows_under_a_name_are_an_error(folder: Path, n_rows: int) -> None:
    """A file that holds other rows than were scored is named with the remedies, and its scores stay."""
    as_csv(folder / "in" / "a.csv", X[:9])
    score(folder)
    as_csv(folder / "in" / "a.csv", X[1 : n_rows + 1])
    with pytest.raises(DataError, match=r"a\.csv: rows 0 to 8 are not those .* score\.on_changed: rescore"):
        score(folder)
    check(folder, {"a.csv": X[:9]})


@pytest.mark.parametrize("n_rows", [4, 9, 20])
def test_other_rows_may_be_scored_again(folder: Path, n_rows: int) -> None:
    """With on_changed rescore the scores of a file that changed are replaced, all parts of it."""
    changes = {"score.on_changed": "rescore", "score.input.part_rows": 3}
    as_csv(folder / "in" / "a.csv", X[:9])
    score(folder, changes)
    as_csv(folder / "in" / "a.csv", X[1 : n_rows + 1])
    assert score(folder, changes).rows_written == n_rows
    check(folder, {"a.csv": X[1 : n_rows + 1]})


def test_a_new_version_scores_again_or_goes_on(folder: Path) -> None:
    """With another version of the model all files are scored again, or only those that come, as asked."""
    files = landed(folder / "in", 3)
    score(folder)
    other = {"score": None, "kernel.gamma": 0.1, "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, other), silent())
    keep = {"score.on_new_version": "keep"}
    assert score(folder, keep).rows_written == 0
    more = landed(folder / "in", 1, seed=1)
    score(folder, keep)
    assert read(folder).groupby("source")["model_version"].first().tolist() == [1, 1, 1, 2]
    assert score(folder).parts_written == 3
    check(folder, files | more, version=2)


BAD = {
    "text.csv": b"1,2,3,4\n1,2,x,4\n" * 3,
    "ragged.csv": b"1,2,3,4\n1,2,3\n",
    "nan.csv": b"1,2,3,4\n1,nan,3,4\n",
    "narrow.csv": b"1,2,3\n",
    "empty.npy": b"",
    "notes.txt": b"to whom it may concern",
    "cut.parquet": b"PAR1",
}


def test_bad_files_are_set_aside(folder: Path) -> None:
    """Files that cannot be scored are named with their reasons, the others scored, and nothing half."""
    files = landed(folder / "in", 6)
    for name, content in BAD.items():
        (folder / "in" / name).write_bytes(content)
    (folder / "in" / "dangling.npy").symlink_to(folder / "nothing.npy")
    found = score(folder)
    assert {file.name for file in found.set_aside} == {*BAD, "dangling.npy"}
    assert all(file.reason and "\n" not in file.reason for file in found.set_aside)
    check(folder, files)
    assert [file.name for file in score(folder).set_aside] == [file.name for file in found.set_aside]


def test_nothing_of_a_bad_file_is_scored(folder: Path) -> None:
    """A fault in the last of a file's parts leaves none of the others."""
    rows = X[:50].copy()
    rows[49, 1] = np.inf
    np.save(folder / "in" / "a.npy", rows)
    found = score(folder, {"score.input.part_rows": 10})
    assert (found.files_set_aside, found.n_parts) == (1, 0)
    assert "row 49, column '1'" in found.set_aside[0].reason
    assert not [path for path in (folder / "scores").rglob("*") if path.suffix in {".parquet", ".partial"}]


def test_a_repaired_file_is_scored(folder: Path) -> None:
    """A file that was set aside is looked into again when it has changed."""
    (folder / "in" / "a.csv").write_bytes(BAD["text.csv"])
    assert score(folder).files_set_aside == 1
    as_csv(folder / "in" / "a.csv", X[:9])
    assert score(folder).files_set_aside == 0
    check(folder, {"a.csv": X[:9]})


def test_a_bad_file_may_be_an_error(folder: Path) -> None:
    """With on_bad error the command ends at the first bad file, and goes on where it stopped."""
    files = landed(folder / "in", 3)
    (folder / "in" / "a.csv").write_bytes(BAD["text.csv"])
    with pytest.raises(DataError, match=r"a\.csv, row 1 \(line 2\), column '2'"):
        score(folder, {"score.on_bad": "error"})
    (folder / "in" / "a.csv").unlink()
    score(folder, {"score.on_bad": "error"})
    check(folder, files)


def test_the_exit_code_tells_of_files_set_aside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints what it scored and what not, and exits with 65."""
    landed(folder / "in", 2)
    (folder / "in" / "notes.txt").write_text("to whom it may concern")
    config = scoring(folder).model_dump(mode="json")
    path = write_yaml(folder / "c.yaml", config)
    assert main(["score", str(path)]) == 65
    out, err = capsys.readouterr()
    assert "3, 1 set aside" in out
    assert "notes.txt" in out.split("Set aside")[1]
    assert "error: 1 of 3 files set aside, the first: " in err
    (folder / "in" / "notes.txt").unlink()
    assert main(["score", str(path)]) == 0


def frame(kind: str, path: Path) -> None:
    columns = {"id": [f"k{i}" for i in range(9)], **{name: X[:9, j] for j, name in enumerate("abcd")}}
    table = pa.table({**columns, "day": pa.array(range(9), pa.date32())})
    if kind == "csv":
        table.to_pandas().to_csv(path, index=False)
    elif kind == "arrow":
        pyarrow.feather.write_feather(table, path)
    else:
        pq.write_table(table, path, row_group_size=4)


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
def test_keys_are_carried_through(folder: Path, kind: str) -> None:
    """Columns named to be carried stand beside the scores of their rows, whatever their type."""
    as_parquet = pd.DataFrame(X, columns=list("abcd"))
    as_parquet.to_parquet(folder / "train.parquet")
    train = {"data.train.path": str(folder / "train.parquet"), "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, {"score": None, **train}), silent())
    frame(kind, folder / "in" / f"a.{kind}")
    changes = {**train, "score.carry": ["id", "day"], "score.input.part_rows": 5}
    assert score(folder, changes).n_rows == 9
    found = read(folder)
    assert found["id"].tolist() == [f"k{i}" for i in range(9)]
    assert found["day"].astype(str).tolist() == [f"1970-01-0{i}" for i in range(1, 10)]
    plain = score(folder, {**changes, "score.carry": [], "score.output": str(folder / "plain")})
    assert plain.n_rows == 9
    other = pd.read_parquet(folder / "plain").sort_values("row", ignore_index=True)
    pd.testing.assert_frame_equal(found.drop(columns=["id", "day"]), other, check_exact=True)


def test_a_key_that_changed_is_a_change(folder: Path) -> None:
    """Where only a carried column differs, the file holds other rows."""
    frame("csv", folder / "in" / "a.csv")
    changes = {"score.carry": ["id"], "data.columns": ["a", "b", "c", "d"]}
    names = {"data.columns": ["a", "b", "c", "d"], "data.train.path": str(folder / "train.csv")}
    pd.DataFrame(X, columns=list("abcd")).to_csv(folder / "train.csv", index=False)
    fit_config(configured(folder, {"score": None, **names, "gram.path": str(folder / "g2.zarr")}), silent())
    score(folder, changes)
    text = (folder / "in" / "a.csv").read_text()
    (folder / "in" / "a.csv").write_text(text.replace("k3", "k33"))
    with pytest.raises(DataError, match="are not those that were scored"):
        score(folder, changes)


def test_a_missing_key_sets_a_file_aside(folder: Path) -> None:
    """A file without a column that is to be carried is set aside by the column's name."""
    landed(folder / "in", 1)
    found = score(folder, {"score.carry": ["id"]})
    assert "has no column 'id'" in found.set_aside[0].reason
    assert "score.carry" in found.set_aside[0].reason


def test_keys_are_names(folder: Path) -> None:
    """A word in place of a list is told with what is expected."""
    with pytest.raises(ValueError, match="a list of names of columns, or each with what it is made"):
        scoring(folder, {"score.carry": "id"})


@pytest.mark.parametrize("names", [["kpca_3"], ["row"], ["id", "id"], ["novelty"]])
def test_keys_must_not_be_called_like_scores(folder: Path, names: list[str]) -> None:
    """A carried column with the name of a score, or named twice, is a mistake in the configuration."""
    with pytest.raises(ValueError, match="expected names that appear once and are no column of the scores"):
        scoring(folder, {"score.carry": names})


def test_scores_of_something_else_are_not_mixed_in(folder: Path) -> None:
    """An output that holds the scores of another input is refused by what differs."""
    landed(folder / "in", 1)
    score(folder)
    landed(folder / "other", 1)
    with pytest.raises(ConfigError, match=r"holds scores with input '.*in', got '.*other'; choose another"):
        score(folder, {"score.input.path": str(folder / "other")})


@pytest.mark.parametrize("path", ["sklearn:iris", "{folder}/train.npy"])
def test_scores_go_on_from_any_folder(folder: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that is the same wherever a command is started is known again from another folder."""
    changes = {"score.input.path": path.format(folder=folder), "score.input.rows": "0:10"}
    for name, n_rows in (("in", 10), (".", 0)):
        monkeypatch.chdir(folder / name)
        assert score(folder, changes).rows_written == n_rows


def test_an_output_without_scores_is_nobodys(folder: Path) -> None:
    """As long as nothing was scored, another input may take the output."""
    (folder / "in" / "notes.txt").write_text("to whom it may concern")
    score(folder)
    files = landed(folder / "other", 2)
    score(folder, {"score.input.path": str(folder / "other")})
    check(folder, files)


def test_rows_are_of_one_file(folder: Path) -> None:
    """A slice of rows is refused for a folder, and taken of a file."""
    landed(folder / "in", 1)
    with pytest.raises(ConfigError, match=r"score\.input\.rows: got '0:3' for a folder"):
        score(folder, {"score.input.rows": "0:3"})
    path = {"score.input.path": str(folder / "train.npy"), "score.input.rows": "10:23"}
    assert score(folder, path).n_rows == 13


def test_a_part_that_nobody_entered_is_removed(folder: Path) -> None:
    """What a killed scorer named and nobody entered goes; files of others stay."""
    files = landed(folder / "in", 2)
    score(folder, {"score.input.part_rows": 2})
    part = next((folder / "scores").glob("file-0-000*"))
    (folder / "scores" / "file-0-000-npy-000000099-v1-aaaa.parquet").write_bytes(part.read_bytes())
    pd.DataFrame({"x": [1]}).to_parquet(folder / "scores" / "_mine.parquet")
    score(folder, {"score.input.part_rows": 2})
    check(folder, files)
    assert (folder / "scores" / "_mine.parquet").exists()


def test_a_part_without_its_entry_is_written_again(folder: Path) -> None:
    """Where the entry is missing, the same part is written once more, to the bit."""
    files = landed(folder / "in", 2)
    score(folder)
    before = contents(folder / "scores")
    entries = [path for path in (folder / "scores" / "_ledger").glob("*.json") if path.name != "ledger.json"]
    entries[0].unlink()
    assert score(folder).parts_written == 1
    now = contents(folder / "scores")
    for path, content in before.items():
        assert now[path] == content or path.endswith(".json")
    check(folder, files)


def test_a_damaged_entry_is_named(folder: Path) -> None:
    """An entry that cannot be read ends the command with its name and the remedy."""
    landed(folder / "in", 1)
    score(folder)
    entry = next(p for p in (folder / "scores" / "_ledger").glob("*.json") if p.name != "ledger.json")
    for content in ("", "{", "[]", '{"name": "x"}', '{"parts": 3}'):
        entry.write_text(content)
        with pytest.raises(DataError, match=rf"{entry.name} is damaged .* remove it"):
            score(folder)


@pytest.mark.parametrize("kind", ["parquet", "zarr"])
def test_parts_that_somebody_removes_are_not_told(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where what lay aside is gone when it is entered, its rows count only once they are scored again."""
    np.save(folder / "a.npy", X[:20])
    changes = {"score.input.path": str(folder / "a.npy"), "score.input.part_rows": 5, "score.format": kind}
    scorer = Scorer(scoring(folder, changes), silent())
    beside(monkeypatch, lambda: min((folder / "scores" / "_staged").iterdir()).unlink())
    assert (scorer.look().busy, scorer.done.rows) == (1, 0)
    assert not list(scorer.shelf.shown())
    assert (scorer.look().busy, scorer.done.rows) == (0, 20)
    if kind == "parquet":
        check(folder, {"a.npy": X[:20]})


def test_parts_in_hand_stay_however_old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that takes a scorer more than a day another one removes nothing; of a dead scorer it does."""
    np.save(folder / "in" / "a.npy", X[:20])
    scorer, other = (Scorer(scoring(folder, {"score.input.part_rows": 5}), silent()) for _ in range(2))
    staged = folder / "scores" / "_staged"

    def swept() -> None:
        for path in staged.iterdir():
            os.utime(path, times=(time.time() - 90_000,) * 2)
        other.sweep()

    beside(monkeypatch, swept)
    assert (scorer.look().busy, scorer.done.rows) == (0, 20)
    check(folder, {"a.npy": X[:20]})
    for name in ("part.parquet", ".part.partial"):
        (staged / name).write_bytes(next((folder / "scores").glob("*.parquet")).read_bytes()[:-1])
    (staged / "whole.parquet").write_bytes(next((folder / "scores").glob("*.parquet")).read_bytes())
    swept()
    assert not list(staged.iterdir())


def test_what_could_not_be_read_again_is_not_entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in too many parts for an entry is set aside with what to do, and others are scored."""
    np.save(folder / "in" / "a.npy", X[:30])
    np.save(folder / "in" / "b.npy", X[30:32])
    monkeypatch.setattr(objects, "MOST_SMALL_BYTES", 4000)
    found = score(folder, {"score.input.part_rows": 1})
    told = r"expected at most 4,000; a\.npy is in 30 parts: .*part_rows"
    assert found.rows_written == 2
    assert re.search(told, found.set_aside[0].reason)
    assert not list((folder / "scores" / "_staged").iterdir())
    with pytest.raises(DataError, match=told):
        score(folder, {"score.input.part_rows": 1, "score.on_bad": "error"})
    assert score(folder).rows_written == 30
    check(folder, {"a.npy": X[:30], "b.npy": X[30:32]})


def test_zarr_holds_scores_in_the_order_of_rows(folder: Path) -> None:
    """With format zarr, row i of the scores belongs to row i of the array, also when that grows."""
    array = zarr.create_array(folder / "grows.zarr", shape=(70, 4), chunks=(8, 4), dtype="f8")
    array[:] = X[:70]
    array[33, 2] = np.nan
    changes = {
        "score.input.path": str(folder / "grows.zarr"),
        "score.format": "zarr",
        "score.input.part_rows": 9,
        "data.on_missing": "drop",
    }
    assert score(folder, changes).rows_written == 69
    array.resize((100, 4))
    array[70:] = X[70:100]
    assert score(folder, changes).rows_written == 30
    plain = {**changes, "score.format": "parquet", "score.output": str(folder / "parquet")}
    score(folder, plain)
    expected = pd.read_parquet(folder / "parquet").sort_values("row")
    group = zarr.open_group(folder / "scores" / "scores.zarr", mode="r")
    has_scores = np.arange(100) != 33
    for name in ("reconstruction_error", "hotelling_t2", "novelty", "model_version"):
        np.testing.assert_allclose(group[name][:][has_scores], expected[name], rtol=1e-12)
    scores = expected[["kpca_0", "kpca_1", "kpca_2"]]
    np.testing.assert_allclose(group["scores"][:][has_scores], scores, atol=1e-12)
    assert np.isnan(group["scores"][33]).all()
    assert group["model_version"][33] == 0
    assert not list((folder / "scores" / "_staged").iterdir())


def test_zarr_holds_scores_of_as_many_components(folder: Path) -> None:
    """Rows that a model of fewer components would add are refused, and the remedy that is told helps."""
    place = {"score.input.path": str(folder / "a.npy"), "score.format": "zarr"}
    keep = {**place, "score.on_new_version": "keep"}
    np.save(folder / "a.npy", X[:10])
    score(folder, keep)
    fewer = {"score": None, "solver.n_components": 2, "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, fewer), silent())
    assert score(folder, keep).rows_written == 0
    np.save(folder / "a.npy", X[:15])
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"got keep, .* scores of 3 components, .* 2; .* set rescore"):
            score(folder, keep)
    assert score(folder, place).rows_written == 15
    assert zarr.open_group(folder / "scores" / "scores.zarr", mode="r")["scores"].shape == (15, 2)


def test_zarr_is_for_one_array(folder: Path) -> None:
    """A folder of files has no order of rows that lasts, so that a Zarr output is refused for it."""
    with pytest.raises(ConfigError, match=r"score\.format: got zarr"):
        score(folder, {"score.format": "zarr"})


def test_names_of_any_bytes_are_scored(folder: Path) -> None:
    """Files whose names are no text, or long, or hold quotes, are scored like others."""
    names = [b"caf\xe9.npy", b"x" * 240 + b".npy", b'it\'s "so".npy', "größe ☃.npy".encode()]
    for name in names:
        np.save(folder / "rows.npy", X[:3])
        (folder / "rows.npy").rename(folder / "in" / os.fsdecode(name))
    found = score(folder)
    assert (found.n_files, found.n_rows, found.files_set_aside) == (4, 12, 0)
    assert score(folder).rows_written == 0


def test_a_file_in_other_hands_is_waited_for(folder: Path) -> None:
    """While somebody else holds a file it is left to them; the look says so."""
    landed(folder / "in", 1)
    scorer = Scorer(scoring(folder), silent())
    with scorer.shelf.ledger.claimed(["file-0-000.npy"]) as free:
        assert free == {"file-0-000.npy"}
        assert (scorer.look().busy, scorer.done.files) == (1, 0)
    assert (scorer.look().busy, scorer.done.files) == (0, 1)


@pytest.mark.parametrize("settled", [False, True])
def test_scores_that_are_replaced_are_those_of_their_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, settled: bool
) -> None:
    """Where a disk is full before or after new scores get their names, the old rows put back have theirs."""
    changes = {"score.on_changed": "rescore"}
    as_csv(folder / "in" / "a.csv", X[:9])
    score(folder, changes)
    as_csv(folder / "in" / "a.csv", X[9:18])
    write = Ledger.write

    def full(ledger: Ledger, entry: Entry, over: Entry | None) -> Entry | None:
        if entry.parts and entry.is_settled == settled:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(ledger, entry, over)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "write", full)
        with pytest.raises(OSError, match="No space"):
            score(folder, changes)
    as_csv(folder / "in" / "a.csv", X[:9])
    score(folder, changes)
    check(folder, {"a.csv": X[:9]})


def test_a_damaged_basis_is_not_the_fault_of_a_file(folder: Path) -> None:
    """A basis that cannot be read ends the command by its own name; once restored, all files are scored."""
    files = landed(folder / "in", 3)
    scorer = Scorer(scoring(folder), silent())
    path = folder / "models" / "rows" / "versions" / "1" / "basis.zarr" / "zarr.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"n_rows", b"n_cows"))
    with pytest.raises(DataError, match=r"basis\.zarr"):
        scorer.work_off()
    path.write_bytes(content)
    assert score(folder).files_set_aside == 0
    check(folder, files)


def test_a_fault_that_passes_is_forgotten(folder: Path) -> None:
    """A file set aside for what was missing elsewhere is looked into again by the next command."""
    landed(folder / "in", 1)
    assert score(folder, {"score.carry": ["id"]}).files_set_aside == 1
    assert score(folder).files_set_aside == 0


def test_other_rows_of_the_same_size_and_time_are_seen(folder: Path) -> None:
    """A file put in the place of another one with its size and its time is told by its rows."""
    np.save(folder / "in" / "a.npy", X[:9])
    times = (folder / "in" / "a.npy").stat()
    score(folder)
    np.save(folder / "b.npy", X[9:18])
    os.utime(folder / "b.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "b.npy").replace(folder / "in" / "a.npy")
    with pytest.raises(DataError, match="are not those that were scored"):
        score(folder)


def test_scores_of_two_versions_are_made_one(folder: Path) -> None:
    """Rows that were kept while a file grew under a new version are scored again where that is asked."""
    as_csv(folder / "in" / "log.csv", X[:10])
    score(folder)
    other = {"score": None, "kernel.gamma": 0.1, "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, other), silent())
    as_csv(folder / "in" / "log.csv", X[:17])
    score(folder, {"score.on_new_version": "keep"})
    assert set(read(folder)["model_version"]) == {1, 2}
    score(folder)
    check(folder, {"log.csv": X[:17]}, version=2)


def test_links_in_circles_are_walked_once(folder: Path) -> None:
    """A link to a folder above it is not followed for ever, and one to itself is a bad file."""
    files = landed(folder / "in", 2)
    (folder / "in" / "circle").symlink_to(folder / "in")
    (folder / "in" / "self.npy").symlink_to("self.npy")
    found = score(folder)
    assert [file.name for file in found.set_aside] == ["self.npy"]
    check(folder, files)


def test_keys_of_other_widths_are_read_as_one(folder: Path) -> None:
    """Columns carried through have one type in all parts, where files differ in widths or hold nothing."""
    columns = {str(j): X[:3, j] for j in range(4)}
    kinds = [pa.array([1, 2, 3], kind) for kind in (pa.int8(), pa.int64(), pa.uint16())]
    names = [pa.nulls(3), pa.array(["a", "b", "c"]), pa.array(["a", "b", "c"]).dictionary_encode()]
    for index, (number, name) in enumerate(zip(kinds, names, strict=True)):
        pq.write_table(pa.table({**columns, "id": number, "n": name}), folder / "in" / f"{index}.parquet")
    assert score(folder, {"score.carry": ["id", "n"]}).files_set_aside == 0
    found = read(folder)
    assert found["id"].tolist() == [1, 2, 3] * 3
    assert found["n"].fillna("-").tolist() == [*"---", *"abc", *"abc"]


def keys_of_two_kinds(folder: Path) -> None:
    """Numbers in one file, text in the next."""
    columns = {str(j): X[:3, j] for j in range(4)}
    for name, key in (("a", [1, 2, 3]), ("b", ["4", "5", "x6"])):
        pq.write_table(pa.table({**columns, "id": key}), folder / "in" / f"{name}.parquet")


def test_keys_of_two_kinds_are_told_apart(folder: Path) -> None:
    """A column of another kind than in parts before sets its file aside: all parts are one table."""
    keys_of_two_kinds(folder)
    found = score(folder, {"score.carry": ["id"]})
    assert [file.name for file in found.set_aside] == ["b.parquet"]
    assert "got column 'id' as string, expected int64 as in parts before" in found.set_aside[0].reason
    assert read(folder)["id"].tolist() == [1, 2, 3]


def test_keys_are_made_what_is_asked(folder: Path) -> None:
    """With a kind asked for, numbers and text become one column; what cannot become it is named."""
    keys_of_two_kinds(folder)
    assert score(folder, {"score.carry": {"id": "text"}}).files_set_aside == 0
    assert sorted(read(folder)["id"]) == ["1", "2", "3", "4", "5", "x6"]
    numbers = {"score.carry": {"id": "integer"}, "score.output": str(folder / "numbers")}
    reason = score(folder, numbers).set_aside[0].reason
    assert "column 'id'" in reason
    assert "x6" in reason
    with pytest.raises(ConfigError, match="columns carried"):
        score(folder, {"score.carry": ["id"]})


def test_one_who_follows_looks_again_at_what_was_bad(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was set aside is scored by the same scorer once its fault has passed."""
    monkeypatch.setattr(looking, "RETRY_SECONDS", 0.25)
    KINDS["zarr"](folder / "in" / "a.zarr", X[:9])
    chunk = next(path for path in (folder / "in" / "a.zarr" / "c").rglob("*") if path.is_file())
    content = chunk.read_bytes()
    chunk.write_bytes(content[: len(content) // 2])
    scorer = Scorer(scoring(folder), silent())
    scorer.look()
    before = scorer.summary(0)
    chunk.write_bytes(content)
    scorer.look()
    assert scorer.summary(0).files_set_aside == before.files_set_aside == 1
    time.sleep(0.3)
    scorer.look()
    assert scorer.summary(0).files_set_aside == 0
    check(folder, {"a.zarr": X[:9]})


def test_a_file_set_aside_is_counted_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked into again, a file counts as one more set aside only for another fault than before."""
    monkeypatch.setattr(looking, "RETRY_SECONDS", -1.0)
    (folder / "in" / "a.csv").write_bytes(BAD["text.csv"])
    scorer = Scorer(scoring(folder), silent())
    for content, n_set_aside in (("text.csv", 1), ("text.csv", 1), ("narrow.csv", 2), ("narrow.csv", 2)):
        (folder / "in" / "a.csv").write_bytes(BAD[content])
        scorer.look()
        assert scorer.done.set_aside == n_set_aside
    other = Scorer(scoring(folder), silent())
    other.look()
    assert other.done.set_aside == 1


def test_keys_that_are_no_values_set_a_file_aside(folder: Path) -> None:
    """A carried column of lists is named with its type."""
    columns = {str(j): X[:3, j] for j in range(4)}
    pq.write_table(pa.table({**columns, "id": [[1], [2], [3]]}), folder / "in" / "a.parquet")
    found = score(folder, {"score.carry": ["id"]})
    assert "got a column of type list" in found.set_aside[0].reason


def test_files_taken_away_are_forgotten(folder: Path) -> None:
    """A scorer that follows remembers no more than the files that are there."""
    landed(folder / "in", 6)
    scorer = Scorer(scoring(folder), silent())
    scorer.look()
    assert len(scorer.marks) == 6
    for path in (folder / "in").glob("*.npy"):
        path.unlink()
    scorer.look()
    assert set(scorer.marks) == {path.name for path in (folder / "in").iterdir()}


def test_a_look_holds_no_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of entries read at the first look no more is held than what is remembered of each."""
    for index in range(60):
        np.save(folder / "in" / f"{index}.npy", X[:1])
    scorer = Scorer(scoring(folder), silent())
    for file in arrived(scorer.asked.input.path):
        parts = tuple(
            ScoredPart(
                start=row,
                stop=row + 1,
                content="",
                file=f"{row}.parquet",
                n_rows=1,
                n_novel=0,
                version=1,
                fit=scorer.model.fit,
            )
            for row in range(300)
        )
        entry = Entry(name=file.name, stamp=file.stamp, fit=scorer.model.fit, parts=parts)
        scorer.shelf.ledger.write(entry, over=None)
    monkeypatch.setattr(ledger, "READ_AHEAD", 2)
    assert traced_peak(scorer.look) < 2e6
    assert scorer.summary(0).n_parts == 60 * 300


@pytest.mark.cluster
def test_processes_write_the_parts_of_threads(folder: Path) -> None:
    """Scored by two processes, the parts of many files and of a large one have the bits of threads."""
    landed(folder / "in", 8)
    np.save(folder / "in" / "large.npy", np.tile(X, (20, 1)))
    part_rows = {"score.input.part_rows": 500}
    score(folder, part_rows)
    processes = {"cluster.kind": "local", "cluster.n_workers": 2, "score.output": str(folder / "processes")}
    score(folder, part_rows | processes)
    threads = {path.name: path.read_bytes() for path in (folder / "scores").glob("*.parquet")}
    assert len(threads) == 8 + 12
    assert {path.name: path.read_bytes() for path in (folder / "processes").glob("*.parquet")} == threads
