"""Commands with data and models in buckets: the same numbers as in folders, and nothing lost on the way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from buckets import SECRET, Buckets

from kpca_stream import load_basis
from kpca_stream.addresses import Address
from kpca_stream.cli import main
from kpca_stream.storage import objects
from kpca_stream.storage.registry import Registry
from tests.disturb import folded, killed, started, wait_until, write_yaml

Told = Callable[..., dict[str, Any]]
NO_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": None,
    "AWS_SECRET_ACCESS_KEY": None,
    "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9",
}
N_ROWS, N_COLUMNS = 600, 6


@pytest.fixture
def results(told: Told) -> Told:
    """Runs a command, and gives its result."""
    return lambda *words: told(*words)["result"]


def rows(n_rows: int = N_ROWS, seed: int = 0, n_columns: int = N_COLUMNS) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((8, n_columns))
    return centres[rng.integers(0, 8, n_rows)] + 0.3 * rng.standard_normal((n_rows, n_columns))


def scores_of(output: str | Path, folder: Path) -> pd.DataFrame:
    """All parts of scores in the order of their rows, without what tells the version."""
    if isinstance(output, str):
        root = Address.parse(output)
        folder.mkdir()
        for name in objects.names(root):
            if name.endswith(".parquet"):
                found = objects.get(root / name)
                assert found is not None
                (folder / name).write_bytes(found.data)
        output = folder
    found = pd.concat([pd.read_parquet(part) for part in output.glob("*.parquet")])
    return found.sort_values("row", ignore_index=True).drop(columns="model_version")


def job(folder: Path, data: str, models: str, **more: Any) -> str:
    sections: dict[str, Any] = {
        "name": "cloud",
        "data": {"train": {"path": data}},
        "kernel": {"name": "rbf", "gamma": 0.1},
        "solver": {"n_components": 4},
        "gram": {"path": str(folder / "gram.zarr")},
        "models": {"path": models},
        **more,
    }
    return str(write_yaml(folder / "c.yaml", sections))


def send(values: np.ndarray, folder: Path, address: str) -> None:
    np.save(folder / "sent.npy", values)
    objects.put(Address.parse(address), folder / "sent.npy")


def test_a_model_lives_in_a_bucket(tmp_path: Path, bucket: str, results: Told) -> None:
    """Fit, list, show, promote, roll back, compare, verify and take away work by an address alone."""
    send(rows(), tmp_path, f"{bucket}/data/x.npy")
    send(rows(N_ROWS + 50), tmp_path, f"{bucket}/data-2/x.npy")
    config = job(tmp_path, f"{bucket}/data/x.npy", f"{bucket}/models")
    np.save(tmp_path / "x.npy", rows())
    here = results(
        "fit", config, "--set", f"data.train.path={tmp_path}/x.npy", "--set", f"models.path={tmp_path}/m"
    )
    first = results("fit", config, "--restart")
    assert first["basis"] == f"{bucket}/models/cloud/versions/1/basis.zarr"
    assert first["eigenvalues"] == here["eigenvalues"]
    assert results("fit", config)["reused"]
    second = results("fit", config, "--restart", "--set", f"data.train.path={bucket}/data-2/x.npy")
    model = f"{bucket}/models/cloud"
    assert second["version"] == 2
    assert [each["version"] for each in results("models", "list", model)["versions"]] == [1, 2]
    assert results("models", "show", model)["facts"]["version"] == 2
    assert results("models", "diff", model, "1", "2")["n_rows"] > 0
    assert results("models", "rollback", model)["version"] == 1
    results("models", "promote", model, "2", "--force")
    assert results("models", "list", config)["aliases"][0]["version"] == 2
    results("models", "rollback", model)
    assert all(check["ok"] for check in results("verify", first["basis"])["checks"])
    gone = results("models", "gc", model, "--keep", "1", "--days", "0")
    assert gone["removed"] == []
    ours = load_basis(first["basis"])
    theirs = load_basis(here["basis"])
    X = rows(30, seed=1)
    assert np.array_equal(ours.transform(X), theirs.transform(X))


def test_versions_that_nothing_keeps_go(tmp_path: Path, bucket: str, results: Told) -> None:
    """Of four versions in a bucket those go that no alias names, with all their objects."""
    config = job(tmp_path, "sklearn:iris", f"{bucket}/models")
    for gamma in (0.1, 0.2, 0.3, 0.4):
        results("fit", config, "--restart", "--set", f"kernel.gamma={gamma}")
    found = results("models", "gc", config, "--keep", "1", "--days", "0")
    assert found["removed"] == [1, 2]
    assert found["n_bytes"] > 1000
    root = Address.parse(bucket)
    assert {entry.key.split("/")[3] for entry in objects.tree(root) if "/versions/" in entry.key} == {
        "3",
        "4",
    }


@pytest.mark.parametrize(
    ("settings", "environment", "code", "match"),
    [
        ({"models.path": "s3://no-such-bucket/m"}, {}, 2, "there is no bucket 'no-such-bucket'"),
        ({"data.train.path": "s3://no-such-bucket/x.npy"}, {}, 2, "there is no bucket 'no-such-bucket'"),
        ({"models.path": "s3://me:hunter2@bucket/m"}, {}, 2, "come from the environment"),
        ({"data.train.path": "s3://me:hunter2@bucket/x.npy"}, {}, 2, "come from the environment"),
        ({}, {"AWS_ACCESS_KEY_ID": "somebody-else"}, 2, "refuses the credentials"),
        ({}, {"AWS_ACCESS_KEY_ID": None}, 2, "no credentials in the environment"),
        ({}, NO_CREDENTIALS, 2, "no credentials in the environment"),
        ({}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 75, "try again later"),
    ],
)
def test_what_is_wrong_with_a_bucket_is_one_line(
    settings: dict[str, str],
    environment: dict[str, str | None],
    code: int,
    match: str,
    tmp_path: Path,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command says on one line, without secrets, what to do, and ends with the right code."""
    config = job(tmp_path, "sklearn:iris", f"{bucket}/models")
    monkeypatch.setattr(objects, "RETRIES", 1)
    for name, value in environment.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    objects.forget()
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    assert main(["fit", config, "--quiet", *words]) == code
    objects.forget()
    told = capsys.readouterr().err
    assert match in told
    assert len(told.splitlines()) == 1
    assert "hunter2" not in told
    assert SECRET not in told


def test_an_outage_ends_a_fit_that_goes_on_later(
    tmp_path: Path, bucket: str, buckets: Buckets, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a store refuses every request a fit ends with 75; when it is back the same call publishes."""
    monkeypatch.setattr(objects, "RETRIES", 1)
    objects.forget()
    config = job(tmp_path, "sklearn:iris", f"{bucket}/models")
    buckets.fail(failing=1)
    assert told("fit", config, code=75)["error"]["kind"] == "BusyError"
    buckets.fail()
    assert told("fit", config)["result"]["version"] == 1
    objects.forget()


@pytest.mark.cluster
def test_workers_read_and_score_from_a_bucket(tmp_path: Path, bucket: str, results: Told) -> None:
    """Two processes, each of which opens the bucket itself, find what threads find, to the bit."""
    send(rows(), tmp_path, f"{bucket}/data/x.npy")
    score = {"input": {"path": f"{bucket}/data/"}, "output": str(tmp_path / "threads")}
    config = job(tmp_path, f"{bucket}/data/x.npy", f"{bucket}/models", score=score)
    threads = results("run", config)
    local = {
        "cluster": "{kind: local, n_workers: 2}",
        "score.output": str(tmp_path / "local"),
        "models.path": f"{bucket}/other",
        "gram.path": str(tmp_path / "other.zarr"),
    }
    words = [word for name, value in local.items() for word in ("--set", f"{name}={value}")]
    assert results("run", config, *words)["fit"]["eigenvalues"] == threads["fit"]["eigenvalues"]
    assert scores_of(tmp_path / "local", tmp_path).equals(scores_of(tmp_path / "threads", tmp_path))


@pytest.mark.slow
def test_a_run_in_a_bucket_that_is_killed_goes_on(tmp_path: Path, bucket: str, buckets: Buckets) -> None:
    """Killed in a pass, while it publishes and while it scores, a run ends with the bits of others."""
    X = rows(3060, n_columns=130)
    np.save(tmp_path / "x.npy", X[:3000])
    np.save(tmp_path / "new.npy", X[3000:])
    for part in range(3):
        send(X[1000 * part : 1000 * (part + 1)], tmp_path, f"{bucket}/data/{part}.npy")
    send(X[3000:], tmp_path, f"{bucket}/new/new.npy")
    tiles = {"storage": "zarr", "path": "gram.zarr", "tile_rows": 128, "checkpoint_seconds": 0.001}
    more = {
        "kernel": {"name": "laplacian", "gamma": 0.002},
        "solver": {"method": "lanczos", "n_components": 5, "precision": "float64"},
        "gram": tiles,
        "score": {"input": {"path": f"{bucket}/new/", "part_rows": 4}, "output": f"{bucket}/scores"},
    }
    job(tmp_path, f"{bucket}/data", f"{bucket}/models", **more)
    here = {
        "data.train.path": "x.npy",
        "models.path": "m",
        "gram.path": "other.zarr",
        "score.input.path": "new.npy",
        "score.output": "scores",
    }
    local = [word for name, value in here.items() for word in ("--set", f"{name}={value}")]
    with started(tmp_path, "run", "c.yaml", *local) as process:
        assert process.wait() == 0
    root = Address.parse(bucket)
    buckets.fail(failing=0.05, lost=0.02, stalling=0.02, seed=7)
    moments: list[Callable[[], bool]] = [
        lambda: sum(folded(tmp_path / "gram.zarr")) >= 8,
        lambda: "1" in objects.names(root / "models/cloud/versions"),
        lambda: any(entry.key.endswith(".parquet") for entry in objects.tree(root / "scores")),
    ]
    for moment in moments:
        with started(tmp_path, "run", "c.yaml") as process:
            assert wait_until(moment, process)
            killed(process)
    with started(tmp_path, "run", "c.yaml") as process:
        assert process.wait() == 0, process.communicate()[1]
    counts = buckets.counts()
    assert min(counts["failing"], counts["lost"], counts["stalling"]) > 0
    registry = Registry.of(f"{bucket}/models", "cloud")
    there, expected = registry.opened().basis, Registry.of(tmp_path / "m", "cloud").opened().basis
    assert there.eigenvalues.tobytes() == expected.eigenvalues.tobytes()
    assert there.coefficients.load().tobytes() == expected.coefficients.load().tobytes()
    assert scores_of(f"{bucket}/scores", tmp_path / "fetched").equals(
        scores_of(tmp_path / "scores", tmp_path)
    )


@pytest.mark.slow
def test_a_refit_in_a_bucket(tmp_path: Path, bucket: str, buckets: Buckets, results: Told) -> None:
    """A re-fit sees new objects as new files, and its version is rolled back, while requests fail."""
    more = {
        "solver": {"method": "nystrom", "n_components": 3},
        "nystrom": {"landmarks": 60},
        "refit": {"when": {"new_rows": "5%"}, "gate": {"max_novelty": "99%"}},
    }
    send(rows(300), tmp_path, f"{bucket}/landed/a.npy")
    config = job(tmp_path, f"{bucket}/landed", f"{bucket}/models", **more)
    buckets.fail(failing=0.05, stalling=0.01, seed=4)
    assert results("refit", config)["action"] == "promoted"
    assert results("refit", config)["action"] == "none"
    send(rows(300, seed=3), tmp_path, f"{bucket}/landed/b.npy")
    assert results("refit", config, "--dry-run")["action"] != "none"
    assert results("refit", config)["action"] == "promoted"
    assert results("models", "rollback", config)["version"] == 1
    assert buckets.counts()["failing"] > 0


def test_rows_are_scored_by_a_model_in_a_bucket(tmp_path: Path, bucket: str, results: Told) -> None:
    """Scores of rows on disk by a model in a bucket are those by one in a folder."""
    score = {"input": {"path": "sklearn:iris"}, "output": str(tmp_path / "scores")}
    config = job(tmp_path, "sklearn:iris", f"{bucket}/models", score=score)
    results("run", config)
    there = pd.read_parquet(tmp_path / "scores")
    shutil.rmtree(tmp_path / "scores")
    results("run", config, "--set", f"models.path={tmp_path}/m", "--restart")
    assert there.equals(pd.read_parquet(tmp_path / "scores"))
