"""Scores in a bucket: each row once, by entries that are swapped, whoever else scores beside."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from zarr.storage import ObjectStore

from kpca_stream.addresses import Address
from kpca_stream.config import load_config
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.pipeline import fit_config, score_config
from kpca_stream.results import ScoreSummary
from kpca_stream.scorer import Scorer, batch, looking
from kpca_stream.storage import bucket_shelf, objects
from kpca_stream.storage.bucket_shelf import BucketShelf
from kpca_stream.storage.ledger import Entry
from kpca_stream.storage.score_parts import score_parts
from kpca_stream.telemetry import silent
from tests.buckets import Buckets
from tests.disturb import started, wait_until, write_yaml
from tests.jobs import command, configured, contents
from tests.scorings import X, as_csv, beside, check, fitted, landed, read, scoring


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def score(folder: Path, place: str, changes: dict[str, Any] | None = None) -> ScoreSummary:
    return score_config(scoring(folder, {"score.output": place} | (changes or {})), silent())


def scorer_of(folder: Path, place: str) -> Scorer:
    return Scorer(scoring(folder, {"score.output": place}), silent())


def held(place: str) -> dict[str, bytes]:
    """All objects at a place."""
    root = Address.parse(place)
    found = {entry.key: objects.get(root / entry.key) for entry in objects.tree(root)}
    return {key: found_.data for key, found_ in found.items() if found_ is not None}


def parts(place: str) -> dict[str, bytes]:
    return {key: data for key, data in held(place).items() if key.endswith(".parquet") and "/" not in key}


def fetched(folder: Path, place: str) -> None:
    """The parts of a bucket as ``folder/scores``."""
    (folder / "scores").mkdir(exist_ok=True)
    for path in (folder / "scores").glob("*.parquet"):
        path.unlink()
    for key, data in parts(place).items():
        (folder / "scores" / key).write_bytes(data)


def check_bucket(folder: Path, place: str, files: dict[str, Any], version: int = 1) -> None:
    """See that each row of `files` has its scores in the bucket, once, and that nothing lies aside."""
    fetched(folder, place)
    check(folder, files, version)
    assert not [key for key in held(place) if key.startswith("_staged/")]


@pytest.fixture
def place(bucket: str) -> str:
    return f"{bucket}/scores"


def test_parts_are_those_of_a_folder(folder: Path, place: str) -> None:
    """Files of six kinds get the parts that they get in a folder; a second run writes nothing."""
    files = landed(folder / "in", 12)
    score(folder, str(folder / "alone"), {"score.input.part_rows": 4})
    first = score(folder, place, {"score.input.part_rows": 4})
    assert (first.n_rows, first.rows_written) == (sum(map(len, files.values())),) * 2
    expected = {key: data for key, data in contents(folder / "alone").items() if key.endswith(".parquet")}
    assert parts(place) == expected
    check_bucket(folder, place, files)
    before = held(place)
    assert score(folder, place, {"score.input.part_rows": 4}).parts_written == 0
    assert held(place) == before


def sent(folder: Path, place: str) -> None:
    """Put all files of a folder into a bucket."""
    root = Address.parse(place)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        objects.put(root / path.relative_to(folder).as_posix(), path)


def test_what_lands_in_a_bucket_is_scored(folder: Path, bucket: str, place: str) -> None:
    """Objects of six kinds get the parts of the same files; what lands later is scored by itself."""
    files = landed(folder / "in", 6)
    sent(folder / "in", f"{bucket}/in")
    changes = {"score.input.path": f"{bucket}/in/"}
    score(folder, str(folder / "alone"))
    assert score(folder, place, changes).n_rows == sum(map(len, files.values()))
    expected = {key: data for key, data in contents(folder / "alone").items() if key.endswith(".parquet")}
    assert parts(place) == expected
    more = landed(folder / "in" / "day", 2, seed=1)
    sent(folder / "in", f"{bucket}/in")
    assert score(folder, place, changes).parts_written == 2
    check_bucket(folder, place, files | {f"day/{name}": rows for name, rows in more.items()})


def test_an_array_in_a_bucket_grows(folder: Path, bucket: str, place: str) -> None:
    """Rows appended to a Zarr array are scored as parts of their own; those before keep theirs."""
    address = Address.parse(f"{bucket}/grows.zarr")
    changes = {"score.input.path": str(address), "score.input.part_rows": 6}
    store = pytest.importorskip("obstore").store.from_url(str(address))
    array = zarr.create_array(ObjectStore(store), shape=(10, 4), chunks=(8, 4), dtype="f8")
    array[:] = X[:10]
    assert score(folder, place, changes).parts_written == 2
    before = parts(place)
    array.resize((23, 4))
    array[10:] = X[10:23]
    assert score(folder, place, changes).rows_written == 13
    check_bucket(folder, place, {"grows.zarr": X[:23]})
    assert before.items() <= parts(place).items()


def test_an_object_that_is_another_one_now(folder: Path, bucket: str, place: str) -> None:
    """Other rows under a key are told by its ETag and are an error; put back, all is as it was."""
    changes = {"score.input.path": f"{bucket}/in/"}
    as_csv(folder / "in" / "a.csv", X[:9])
    sent(folder / "in", f"{bucket}/in")
    score(folder, place, changes)
    as_csv(folder / "in" / "a.csv", X[1:10])
    sent(folder / "in", f"{bucket}/in")
    with pytest.raises(DataError, match=r"s3://.*/in/a\.csv: rows 0 to 8 are not those that were scored"):
        score(folder, place, changes)
    as_csv(folder / "in" / "a.csv", X[:9])
    sent(folder / "in", f"{bucket}/in")
    assert score(folder, place, changes).parts_written == 0
    check_bucket(folder, place, {"a.csv": X[:9]})


def test_scores_in_a_bucket_are_read_as_those_in_a_folder(folder: Path, place: str) -> None:
    """Reports and re-fits see the same parts, with the same ranges and values."""
    landed(folder / "in", 4)
    score(folder, place)
    fetched(folder, place)
    found, expected = (
        sorted(score_parts(at), key=lambda part: part.path.name)
        for at in (Address.parse(place), folder / "scores")
    )
    assert len(found) == 4
    for part, other in zip(found, expected, strict=True):
        assert (part.path.name, part.n_rows, part.ranges) == (other.path.name, other.n_rows, other.ranges)
        (block,), (block_of_other,) = part.batches(["kpca_0"]), other.batches(["kpca_0"])
        np.testing.assert_array_equal(block["kpca_0"], block_of_other["kpca_0"])
        assert abs(part.written - other.written) < 60


def test_bad_files_are_set_aside(folder: Path, place: str) -> None:
    """A file whose last part is bad leaves nothing but its reason, and is scored once it is repaired."""
    files = landed(folder / "in", 2)
    rows = X[:50].copy()
    rows[49, 1] = np.inf
    np.save(folder / "in" / "a.npy", rows)
    found = score(folder, place, {"score.input.part_rows": 10})
    assert [file.name for file in found.set_aside] == ["a.npy"]
    assert any(b"row 49, column" in data for key, data in held(place).items() if key.startswith("_ledger"))
    check_bucket(folder, place, files)
    np.save(folder / "in" / "a.npy", X[:50])
    assert score(folder, place, {"score.input.part_rows": 10}).files_set_aside == 0
    check_bucket(folder, place, files | {"a.npy": X[:50]})


def test_rows_that_changed_are_scored_again(folder: Path, place: str) -> None:
    """Parts of rows that are others now give way, those of rows before an end that grew stay."""
    as_csv(folder / "in" / "a.csv", X[:9])
    score(folder, place, {"score.input.part_rows": 4})
    before = parts(place)
    as_csv(folder / "in" / "a.csv", X[:15])
    assert score(folder, place, {"score.input.part_rows": 4}).rows_written == 6
    assert before.items() <= parts(place).items()
    as_csv(folder / "in" / "a.csv", X[1:8])
    with pytest.raises(DataError, match="are not those that were scored"):
        score(folder, place)
    score(folder, place, {"score.on_changed": "rescore", "score.input.part_rows": 4})
    check_bucket(folder, place, {"a.csv": X[1:8]})


def test_a_new_version_scores_again(folder: Path, place: str) -> None:
    """With another version of the model all files are scored again, and the old parts go."""
    files = landed(folder / "in", 3)
    score(folder, place)
    other = {"score": None, "kernel.gamma": 0.1, "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, other), silent())
    assert score(folder, place).parts_written == 3
    check_bucket(folder, place, files, version=2)


@pytest.mark.parametrize("shown", [0, 1])
def test_what_a_killed_scorer_entered_is_shown_by_the_next(
    folder: Path, place: str, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed once a file was entered, before its parts were shown or all of them, it is ended, not scored."""
    np.save(folder / "in" / "a.npy", X[:9])

    def killed(shelf: BucketShelf, entry: Entry) -> None:
        for file, name in list(entry.aside.items())[:shown]:
            shelf._shown(file, name)
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(batch, "settle", killed)
        with pytest.raises(ZeroDivisionError):
            score(folder, place, {"score.input.part_rows": 4})
    assert len(parts(place)) == shown
    found = score(folder, place, {"score.input.part_rows": 4})
    assert (found.n_rows, found.rows_written) == (9, 0)
    check_bucket(folder, place, {"a.npy": X[:9]})


def test_what_was_entered_of_a_file_that_is_gone_is_shown(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the input was taken away before its parts were shown, they are shown all the same."""
    files = landed(folder / "in", 1)

    def killed(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(batch, "settle", killed)
        with pytest.raises(ZeroDivisionError):
            score(folder, place)
    next((folder / "in").iterdir()).unlink()
    score(folder, place)
    check_bucket(folder, place, files)


def test_parts_that_were_lost_are_made_again(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody removed what was entered and lay aside, its rows are scored again."""
    files = landed(folder / "in", 1)

    def killed(shelf: BucketShelf, entry: Entry) -> None:
        shelf.discard(entry.aside.values())
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(batch, "settle", killed)
        with pytest.raises(ZeroDivisionError):
            score(folder, place)
    assert score(folder, place).parts_written == 1
    check_bucket(folder, place, files)


def test_of_two_scorers_one_enters_a_file(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer that comes second to a file counts nothing, and leaves nothing aside."""
    files = landed(folder / "in", 4)
    one, other = scorer_of(folder, place), scorer_of(folder, place)
    beside(monkeypatch, lambda: other.work_off() and None)
    assert one.look().busy == 4
    assert (one.done.rows, other.done.rows) == (0, sum(map(len, files.values())))
    check_bucket(folder, place, files)
    assert one.work_off().n_rows == other.done.rows


def test_a_file_that_grew_meanwhile_has_no_row_twice(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another scorer has seen a longer file, the parts of the shorter one are never shown."""
    as_csv(folder / "in" / "a.csv", X[:9])
    one, other = scorer_of(folder, place), scorer_of(folder, place)

    def grows() -> None:
        as_csv(folder / "in" / "a.csv", X[:15])
        other.work_off()

    beside(monkeypatch, grows)
    one.work_off()
    check_bucket(folder, place, {"a.csv": X[:15]})


def test_parts_that_somebody_removes_are_not_told(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where what lay aside is gone when it is entered, its rows count only once they are scored again."""
    np.save(folder / "in" / "a.npy", X[:20])
    scorer = Scorer(scoring(folder, {"score.output": place, "score.input.part_rows": 5}), silent())
    root = Address.parse(place) / "_staged"
    beside(monkeypatch, lambda: objects.delete(root / min(entry.key for entry in objects.tree(root))))
    assert (scorer.look().busy, scorer.done.rows) == (1, 0)
    assert parts(place) == {}
    assert (scorer.look().busy, scorer.done.rows) == (0, 20)
    check_bucket(folder, place, {"a.npy": X[:20]})


def test_rows_that_come_back_are_not_taken_for_those_that_went(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slow to remove parts that gave way removes none of the same rows, entered again meanwhile."""
    file, changes = folder / "in" / "a.csv", {"score.on_changed": "rescore"}
    as_csv(file, X[:9])
    score(folder, place, changes)
    deleted, first = bucket_shelf.delete, next(iter(parts(place)))

    def slow(*addresses: Address) -> None:
        if any(address.name == first for address in addresses):
            monkeypatch.setattr(bucket_shelf, "delete", deleted)
            as_csv(file, X[:9])
            score(folder, place, changes)
        deleted(*addresses)

    monkeypatch.setattr(bucket_shelf, "delete", slow)
    as_csv(file, X[1:8])
    score(folder, place, changes)
    assert bucket_shelf.delete is deleted
    check_bucket(folder, place, {"a.csv": X[:9]})


def test_leftovers_go_after_a_day(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What killed scorers laid aside and nobody entered goes when it is a day old; others' files stay."""
    files = landed(folder / "in", 1)
    score(folder, place)
    root = Address.parse(place)
    (name, part), *_ = parts(place).items()
    objects.put(root / "_staged/0f-x.parquet", part)
    objects.put(root / f"x{name}", part)
    objects.put(root / "mine.parquet", b"PAR1")
    score(folder, place)
    assert {"_staged/0f-x.parquet", f"x{name}"} <= held(place).keys()
    monkeypatch.setattr(bucket_shelf, "LEFTOVER_SECONDS", -60)
    score(folder, place)
    assert objects.get(root / "mine.parquet") is not None
    objects.delete(root / "mine.parquet")
    check_bucket(folder, place, files)


def test_a_scorer_that_follows_tells_in_the_bucket(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status lies beside the scores, and the scorer looks again until it is ended."""
    files = landed(folder / "in", 2)
    scorer = scorer_of(folder, place)

    def ended(_: float) -> None:
        assert b'"files": 2' in held(place)["_status.json"]
        raise KeyboardInterrupt

    monkeypatch.setattr(looking.time, "sleep", ended)
    assert scorer.follow().n_rows == sum(map(len, files.values()))
    assert b'"state": "ended"' in held(place)["_status.json"]
    check_bucket(folder, place, files)


def test_scores_in_zarr_need_a_folder(folder: Path, place: str) -> None:
    """Scores that are written over in place are refused for a bucket."""
    changes = {"score.format": "zarr", "score.input.path": str(folder / "train.npy")}
    with pytest.raises(ConfigError, match=r"score\.format: got zarr for s3://.*; a bucket takes parquet"):
        score(folder, place, changes)
    assert held(place) == {}


def config(folder: Path, name: str, place: str, **changes: Any) -> str:
    changed = {"score.output": place, "score.input.part_rows": 5} | changes
    return str(write_yaml(folder / f"{name}.yaml", scoring(folder, changed).model_dump(mode="json")))


@pytest.mark.slow
def test_three_kills_and_two_scorers_at_once(
    folder: Path, bucket: str, place: str, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty objects of mixed kinds, of a store that fails, loses answers and stalls: each row once."""
    files = landed(folder / "in", 30)
    sent(folder / "in", f"{bucket}/in")
    command(folder, "score", config(folder, "alone", str(folder / "alone")), "--quiet", check=True)
    expected = {key: data for key, data in contents(folder / "alone").items() if key.endswith(".parquet")}
    asked = config(folder, "c", place, **{"score.input.path": f"{bucket}/in/"})
    buckets.fail(failing=0.05, lost=0.02, stalling=0.02, seed=6)
    rng = random.Random(8)  # noqa: S311  moments, no secrets
    for kill in range(3):
        target = len(parts_at(place)) + rng.randrange(1, 12)
        with started(folder, "score", asked, "--quiet") as one, started(folder, "score", asked, "--quiet"):
            assert wait_until(lambda target=target: len(parts_at(place)) >= target, one)  # type: ignore[misc]
            time.sleep(rng.random() * 0.2)
        assert len(parts_at(place)) < len(expected), kill
    with started(folder, "score", asked, "--quiet") as one, started(folder, "score", asked, "--quiet") as two:
        assert (one.wait(200), two.wait(200)) == (0, 0)
    counts = buckets.counts()
    assert min(counts["failing"], counts["lost"], counts["stalling"]) > 5
    buckets.fail()
    assert parts(place) == expected
    monkeypatch.setattr(bucket_shelf, "LEFTOVER_SECONDS", -60)  # of what killed scorers laid aside
    assert score_config(load_config(asked), silent()).rows_written == 0
    assert parts(place) == expected
    check_bucket(folder, place, files)


def parts_at(place: str) -> list[str]:
    return [name for name in objects.names(Address.parse(place)) if name.endswith(".parquet")]


def test_everything_lies_in_a_bucket(folder: Path, bucket: str, told: Callable[..., dict[str, Any]]) -> None:
    """Rows, tiles, versions and scores by address: run, report, roll back, score again; as in folders."""
    landed(folder / "in", 3)
    sent(folder / "in", f"{bucket}/in")
    objects.put(Address.parse(f"{bucket}/train.npy"), folder / "train.npy")
    changes = {
        "data.train.path": f"{bucket}/train.npy",
        "gram.path": f"{bucket}/g.zarr",
        "gram.work": str(folder / "work"),
        "models.path": f"{bucket}/models",
        "score.input.path": f"{bucket}/in/",
        "score.output": f"{bucket}/scores",
    }
    asked = str(write_yaml(folder / "c.yaml", scoring(folder, changes).model_dump(mode="json")))
    first = told("run", asked)["result"]
    here = score(folder, str(folder / "alone"))
    assert first["score"]["n_rows"] == here.n_rows
    told("fit", asked, "--restart", "--set", "kernel.gamma=0.1")
    told("score", asked)
    fetched(folder, f"{bucket}/scores")
    assert set(read(folder)["model_version"]) == {2}
    told("models", "rollback", asked)
    told("score", asked)
    fetched(folder, f"{bucket}/scores")
    found, expected = (
        pd.read_parquet(folder / name).sort_values(["source", "row"]) for name in ("scores", "alone")
    )
    columns = ["kpca_0", "kpca_1", "kpca_2", "reconstruction_error", "hotelling_t2", "novelty"]
    np.testing.assert_array_equal(found[columns].to_numpy(), expected[columns].to_numpy())
    report = told("report", asked, "--set", f"report.path={folder}/report.html")["result"]
    assert report["n_rows"] == here.n_rows


@pytest.mark.slow
def test_objects_are_scored_as_they_land(folder: Path, bucket: str, place: str, buckets: Buckets) -> None:
    """A scorer that follows a store that fails scores what lands, and ends on SIGTERM with its status."""
    more = {"score.input.path": f"{bucket}/in/", "score.look_seconds": 0.1}
    asked = config(folder, "c", place, **more)
    buckets.fail(failing=0.05, lost=0.02, stalling=0.02, seed=3)
    files = landed(folder / "in", 3)
    with started(folder, "score", asked, "--follow") as process:
        sent(folder / "in", f"{bucket}/in")
        assert wait_until(
            lambda: {part.split("-")[2] for part in parts_at(place)} == {"000", "001", "002"}, process
        )
        files |= landed(folder / "in", 4, seed=1)
        sent(folder / "in", f"{bucket}/in")
        assert wait_until(lambda: told_at(place).get("files") == 7, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    buckets.fail()
    assert told_at(place)["state"] == "ended"
    check_bucket(folder, place, files)


def told_at(place: str) -> dict[str, Any]:
    found = objects.get(Address.parse(f"{place}/_status.json"))
    return {} if found is None else dict(json.loads(found.data))


@pytest.mark.cluster
def test_processes_write_the_parts_of_threads(folder: Path, bucket: str, place: str) -> None:
    """Two processes read objects and write parts, with the bits of threads and of a folder."""
    landed(folder / "in", 6)
    np.save(folder / "in" / "large.npy", np.tile(X, (5, 1)))
    sent(folder / "in", f"{bucket}/in")
    part_rows = {"score.input.part_rows": 500}
    score(folder, str(folder / "alone"), part_rows)
    processes = {"cluster.kind": "local", "cluster.n_workers": 2, "score.input.path": f"{bucket}/in/"}
    score(folder, place, part_rows | processes)
    expected = {key: data for key, data in contents(folder / "alone").items() if key.endswith(".parquet")}
    assert len(expected) == 6 + 3
    assert parts(place) == expected
