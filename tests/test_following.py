"""A scorer that follows: what lands is scored, it tells how it goes, and it ends when it is asked to."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kpca_stream.pipeline import fit_config
from kpca_stream.telemetry import silent
from tests.disturb import started, wait_until, write_yaml
from tests.jobs import ROOT, command, configured
from tests.scorings import check, fitted, landed, read, scoring
from tests.soak.following import follow_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def written(folder: Path, changes: dict[str, Any] | None = None) -> str:
    quick = {"score.look_seconds": 0.05, "score.on_changed": "error"}
    config = scoring(folder, quick | (changes or {})).model_dump(mode="json")
    return str(write_yaml(folder / "c.yaml", config))


def status(folder: Path) -> dict[str, Any]:
    path = folder / "scores" / "_status.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def n_scored(folder: Path) -> int:
    return int(status(folder).get("files", 0))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_lands_is_scored_until_the_scorer_is_ended(folder: Path, number: signal.Signals) -> None:
    """Files are scored as they land; SIGTERM or Ctrl-C ends the scorer with a summary and exit code 0."""
    files = landed(folder / "in", 3)
    with started(folder, "score", written(folder), "--follow") as process:
        assert wait_until(lambda: n_scored(folder) == 3, process)
        files |= landed(folder / "in", 4, seed=1)
        assert wait_until(lambda: n_scored(folder) == 7, process)
        process.send_signal(number)
        assert process.wait(20) == 0
    check(folder, files)
    told = status(folder)
    assert told["state"] == "ended"
    assert told["rows"] == sum(map(len, files.values()))
    assert 0 <= told["lag_seconds"] < 60
    assert time.time() - told["heartbeat"] < 60
    assert told["last_success"] <= told["heartbeat"]


def test_the_heart_beats_while_nothing_comes(folder: Path) -> None:
    """The status file is written at every look, with files that wait and files set aside."""
    (folder / "in" / "notes.txt").write_text("to whom it may concern")
    with started(folder, "score", written(folder), "--follow", "--quiet") as process:
        assert wait_until(lambda: status(folder).get("set_aside") == 1, process)
        first = status(folder)["heartbeat"]
        assert wait_until(lambda: status(folder)["heartbeat"] > first, process)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 65


def test_a_new_version_is_taken_at_the_next_file(folder: Path) -> None:
    """A model published meanwhile scores what comes then; no file has scores of two versions."""
    landed(folder / "in", 2)
    config = written(folder, {"score.on_new_version": "keep"})
    with started(folder, "score", config, "--follow") as process:
        assert wait_until(lambda: n_scored(folder) == 2, process)
        other = {"score": None, "kernel.gamma": 0.1, "gram.path": str(folder / "g2.zarr")}
        fit_config(configured(folder, other), silent())
        landed(folder / "in", 3, seed=1)
        assert wait_until(lambda: n_scored(folder) == 5, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    versions = read(folder).groupby("source")["model_version"].agg(set)
    assert versions.tolist() == [{1}, {1}, {2}, {2}, {2}]


def test_prometheus_reads_the_counters(folder: Path) -> None:
    """With a section metrics the counters are served on loopback, under the model's name."""
    files = landed(folder / "in", 2)
    config = written(folder, {"score.metrics": {"port": 0}})
    pytest.importorskip("prometheus_client")
    from kpca_stream.config import load_config
    from kpca_stream.scorer.heartbeat import Done, Heart

    asked = load_config(config, ()).score
    assert asked is not None
    done = Done(rows=17, files=2, last_success=5.0)
    with Heart.of(asked, "rows", folder / "_status.json", done) as heart:
        heart.beat("waiting", 3)
        page = urllib.request.urlopen(f"http://127.0.0.1:{heart.port}/metrics").read().decode()
    assert 'kpca_stream_rows{model="rows"} 17.0' in page
    assert 'kpca_stream_waiting{model="rows"} 3.0' in page
    assert len(files) == 2


def test_a_large_file_in_hand_is_left_untouched(folder: Path) -> None:
    """SIGTERM in the middle of a file leaves nothing of it, and the next scorer scores it whole."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400_000, 4))
    np.save(folder / "in" / "a.npy", rows)
    config = written(folder, {"score.input.part_rows": 10_000, "score.look_seconds": 5})
    aside = folder / "scores" / "_staged"
    with started(folder, "score", config, "--follow") as process:
        assert wait_until(lambda: aside.exists() and any(aside.glob("*.parquet")), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    found = len(list((folder / "scores").glob("*.parquet")))
    assert found in {0, 40}
    with started(folder, "score", config) as process:
        assert process.wait(60) == 0
    scores = read(folder)
    assert scores["row"].tolist() == list(range(400_000))


def test_the_recipe_follows_a_folder(tmp_path: Path) -> None:
    """`configs/follow.yaml` fits in an empty folder, and scores what lands there."""
    recipe = str(ROOT / "configs" / "follow.yaml")
    (tmp_path / "incoming").mkdir()
    command(tmp_path, "fit", recipe, check=True)
    quick = ("--set", "score.look_seconds=0.1", "--set", "score.input.settle_seconds=0.1")
    load_digits(as_frame=True).data[:3].to_csv(tmp_path / "incoming" / "a.csv", index=False)
    with started(tmp_path, "score", recipe, "--follow", *quick) as process:
        path = tmp_path / "scores" / "follow" / "_status.json"
        assert wait_until(lambda: path.exists() and json.loads(path.read_text())["rows"] == 3, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_a_minute_of_files_landing(folder: Path) -> None:
    """A minute of files that land: memory stays flat, the lag small, and every row has its scores."""
    report = follow_for(folder, seconds=60, seed=1)
    assert report.n_files > 50
    assert report.memory_growth < 0.15
    assert report.largest_lag < 15
    assert report.exit_code == 0
    check(folder, report.files)


def test_two_scorers_divide_the_files(folder: Path) -> None:
    """Two scorers at once score every row once, to the bits of one alone."""
    files = landed(folder / "in", 60)
    config = written(folder)
    codes = []

    def run() -> None:
        with started(folder, "score", config) as process:
            codes.append(process.wait(60))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    check(folder, files)
