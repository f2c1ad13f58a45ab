"""The recipes in `configs/` do what their first lines say, with the commands as they stand there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from buckets import Buckets

from kpca_stream.addresses import Address
from kpca_stream.config import load_config
from kpca_stream.storage.objects import put, tree
from kpca_stream.storage.source import open_source
from tests.jobs import ROOT, command

DAY = 700
RNG = np.random.default_rng(1)
X = RNG.standard_normal((3000, 3)) @ RNG.standard_normal((3, 6)) + 0.1 * RNG.standard_normal((3000, 6))


def out_of_core(folder: Path) -> None:
    array = zarr.create_array(folder / "rows.zarr", shape=(300, 6), chunks=(64, 6), dtype="f4")
    array[:] = X[:300]
    (folder / "new").mkdir()
    np.save(folder / "new" / "monday.npy", X[300:360])


def nightly(folder: Path) -> None:
    (folder / "landed").mkdir()
    for day in range(3):
        land(folder, day)


def land(folder: Path, day: int) -> None:
    frame = pd.DataFrame(X[DAY * day : DAY * (day + 1)], columns=list("abcdef"))
    frame.to_parquet(folder / "landed" / f"day-{day}.parquet")


def precomputed(folder: Path) -> None:
    np.save(folder / "K.npy", X[:100] @ X[:100].T)
    np.save(folder / "K_new.npy", X[100:120] @ X[:100].T)


def own_kernel(folder: Path) -> None:
    lines = (ROOT / "configs" / "own-kernel.yaml").read_text().splitlines()
    code = [line.removeprefix("#").removeprefix("   ") for line in lines if line.startswith("#   ")]
    python = [line for line in code if not line.startswith("kpca-stream")]
    (folder / "histograms.py").write_text("\n".join(python) + "\n")


def nothing(_: Path) -> None:
    """The rows come with scikit-learn."""


RECIPES: dict[str, tuple[Callable[[Path], None], int]] = {
    "nystrom": (nothing, 360),
    "out-of-core": (out_of_core, 60),
    "nightly": (nightly, 3 * DAY),
    "precomputed": (precomputed, 20),
    "own-kernel": (own_kernel, 100),
}
"""What prepares the rows, and how many rows have scores afterwards."""
ON_CLUSTERS = ("slurm", "kubernetes")
"""Recipes that need a cluster: a test with Slurm runs the one, the pods of ``deploy/`` the other."""


def commands(name: str) -> list[list[str]]:
    """Those of a recipe's first lines, in their order, without the way back."""
    text = (ROOT / "configs" / f"{name}.yaml").read_text()
    found = [shlex.split(line) for line in re.findall(r"(?m)^#\s+kpca-stream (.*)$", text)]
    return [words for words in found if words[:2] != ["models", "rollback"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """Its commands succeed one after the other in a folder with the rows that it names, and score them."""
    prepare, n_scored = RECIPES[name]
    prepare(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    assert commands(name)
    for words in commands(name):
        done = command(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    scores = load_config(ROOT / "configs" / f"{name}.yaml").score
    assert scores is not None
    assert len(pd.read_parquet(tmp_path / scores.output)) == n_scored


def test_every_recipe_is_run_somewhere() -> None:
    """Each configuration is run by this test or by one that names it, and is in the README."""
    readme = (ROOT / "README.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        assert f"(configs/{path.name})" in readme
        called = f'"{path.name}"' in tests or f'commands("{path.stem}")' in tests
        assert called or path.stem in RECIPES, path


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_a_recipe_for_a_cluster_has_no_mistakes(name: str, tmp_path: Path) -> None:
    """`config check` says so; its fit is that of the same rows by threads."""
    recipe = str(ROOT / "configs" / f"{name}.yaml")
    assert command(tmp_path, "config", "check", recipe, check=True).stdout.endswith(": no mistakes\n")
    settings = ("cluster={kind: threads}", "gram.path=gram.zarr", "models.path=models", "score.output=scores")
    here = [word for setting in settings for word in ("--set", setting)]
    done = command(tmp_path, "run", recipe, "--json", "--quiet", *here, check=True)
    result = json.loads(done.stdout)["result"]
    assert (result["fit"]["n_samples"], result["score"]["n_rows"]) == (1437, 360)


def test_ten_million_rows_fit_the_recipe() -> None:
    """By a thousand landmarks they take less than 4 GiB of memory, by the plan."""
    words = next(words for words in commands("nystrom") if words[0] == "plan")
    done = command(ROOT, *words, "--json", "--quiet", check=True)
    result = json.loads(done.stdout)["result"]
    assert (result["n_samples"], result["n_landmarks"]) == (10_000_000, 1000)
    assert result["memory_total"] < result["memory_limit"] == 4 * 2**30


@pytest.mark.slow
def test_the_recipe_of_a_bucket_runs_as_it_stands(tmp_path: Path, buckets: Buckets) -> None:
    """Its commands succeed, and leave a model and the scores of all new rows in the bucket."""
    root = Address("s3", buckets.make("kpca-example"))
    for name, part in (("rows/a", X[:200]), ("rows/b", X[200:300]), ("new/c", X[300:350])):
        pd.DataFrame(part, columns=list("abcdef")).to_parquet(tmp_path / "part.parquet")
        put(root / f"{name}.parquet", tmp_path / "part.parquet")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for words in commands("s3.yaml".removesuffix(".yaml")):
        done = command(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    scored = [entry.key for entry in tree(root / "scores") if entry.key.endswith(".parquet")]
    assert sum(open_source(str(root / "scores" / key)).n_samples for key in scored) == 50


@pytest.mark.slow
def test_the_nightly_recipe_does_nothing_twice(tmp_path: Path) -> None:
    """Called again, nothing is due and nothing is scored; a day more is added to the sums and scored."""
    nightly(tmp_path)
    recipe = str(ROOT / "configs" / "nightly.yaml")

    def night() -> tuple[Any, Any]:
        found = [command(tmp_path, each, recipe, "--json", check=True).stdout for each in ("refit", "score")]
        return tuple(json.loads(text)["result"] for text in found)  # type: ignore[return-value]

    night()
    refit, score = night()
    assert (refit["action"], score["rows_written"]) == ("none", 0)
    land(tmp_path, 3)
    refit, score = night()
    assert (refit["action"], refit["fitted"]["kind"]) == ("promoted", "added")
    assert refit["fitted"]["rows_read"] == DAY
    assert score["rows_written"] == DAY
