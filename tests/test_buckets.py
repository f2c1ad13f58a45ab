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


def rows(n_rows: int = N_ROWS, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((8, N_COLUMNS))
    return centres[rng.integers(0, 8, n_rows)] + 0.3 * rng.standard_normal((n_rows, N_COLUMNS))


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


@pytest.mark.slow
def test_a_fit_in_a_bucket_that_is_killed_goes_on(tmp_path: Path, bucket: str, buckets: Buckets) -> None:
    """Killed in a pass and again while it publishes, a fit ends with the bits of one in folders."""
    X = rows(1500)
    np.save(tmp_path / "x.npy", X)
    for part in range(3):
        send(X[500 * part : 500 * (part + 1)], tmp_path, f"{bucket}/data/{part}.npy")
    more = {
        "solver": {"method": "lanczos", "n_components": 5, "precision": "float64"},
        "gram": {"storage": "zarr", "path": "gram.zarr", "tile_rows": 64, "checkpoint_seconds": 0.001},
    }
    job(tmp_path, f"{bucket}/data", f"{bucket}/models", **more)
    local = ["--set", "data.train.path=x.npy", "--set", "models.path=m", "--set", "gram.path=other.zarr"]
    with started(tmp_path, "fit", "c.yaml", *local) as process:
        assert process.wait() == 0
    buckets.fail(failing=0.05, lost=0.02, stalling=0.02, seed=7)
    with started(tmp_path, "fit", "c.yaml") as process:
        assert wait_until(lambda: sum(folded(tmp_path / "gram.zarr")) > 20, process)
        killed(process)
    versions = Address.parse(bucket) / "models/cloud/versions"
    with started(tmp_path, "fit", "c.yaml") as process:
        assert wait_until(lambda: "1" in objects.names(versions), process)
        killed(process)
    with started(tmp_path, "fit", "c.yaml") as process:
        assert process.wait() == 0, process.communicate()[1]
    registry = Registry.of(f"{bucket}/models", "cloud")
    here = Registry.of(tmp_path / "m", "cloud").opened().basis
    there = registry.opened().basis
    assert there.eigenvalues.tobytes() == here.eigenvalues.tobytes()
    assert there.coefficients.load().tobytes() == here.coefficients.load().tobytes()
    counts = buckets.counts()
    assert min(counts["failing"], counts["lost"], counts["stalling"]) > 0
    assert registry.aliases()["champion"].version == registry.versions()[-1]


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
