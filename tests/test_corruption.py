"""What was damaged between two runs is named by `verify` and by `fit`, and mended or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.cli import main
from tests.disturb import DAMAGES, cut, flip, write_yaml

X = np.random.default_rng(3).standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5]
TILE = "gram.zarr/tiles/c/1/3"
N_TILES = 15


def write_job(folder: Path) -> None:
    """Rows in a text file, so that the store holds them, and 15 tiles."""
    np.savetxt(folder / "x.csv", X, delimiter=",", header="a,b,c,d", comments="")
    sections = {
        "name": "rows",
        "data": {"train": {"path": "x.csv"}},
        "kernel": {"name": "rbf", "gamma": 0.05},
        "solver": {"method": "lanczos", "n_components": 3, "tol": 1e-10, "max_passes": 50},
        "gram": {"storage": "zarr", "path": "gram.zarr", "tile_rows": 64},
        "models": {"path": "models"},
        "score": {"input": {"path": "x.csv", "rows": "0:50"}, "output": "scores"},
    }
    write_yaml(folder / "c.yaml", sections)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A fit that ended early, its products in checkpoints, and one that was never disturbed."""
    found = {name: tmp_path_factory.mktemp(name) for name in ("stopped", "whole")}
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in found.items():
            write_job(folder)
            patch.chdir(folder)
            settings = ["--set", "solver.max_passes=3"] if name == "stopped" else []
            assert main(["fit", "c.yaml", "--quiet", *settings]) == (1 if settings else 0)
    return found


@pytest.fixture
def stopped(jobs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(jobs["stopped"], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def whole(jobs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(jobs["whole"], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def eigenvalues(jobs: dict[str, Path]) -> list[float]:
    manifest = json.loads((jobs["whole"] / "models/rows/versions/1/manifest.json").read_text())
    values: list[float] = manifest["summary"]["eigenvalues"]
    return values


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[dict[str, Any], str]]:
    """Runs a command; what it prints as JSON, and what it tells."""

    def run(*arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return json.loads(out), err

    return run


def failed(printed: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["detail"] for check in printed["result"]["checks"] if not check["ok"]}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_tile_is_named_and_made_again(
    damage: str, stopped: Path, eigenvalues: list[float], told: Any
) -> None:
    """A tile that is flipped, cut, emptied or lost is named by both, computed again, and nothing else is."""
    DAMAGES[damage](stopped / TILE)
    assert "(1, 3)" in " ".join(failed(told("verify", "gram.zarr", code=65)[0]).values())
    printed, err = told("fit", "c.yaml")
    assert "1 tiles were cut, changed or lost and have been computed again: (1, 3)" in err
    found = printed["result"]
    assert (found["tiles_repaired"], found["tiles_made"]) == (1, 1)
    assert found["tiles_found"] == N_TILES - (damage == "delete")
    assert found["passes_resumed"] == 3
    assert found["eigenvalues"] == eigenvalues
    assert "(1, 3)" in printed["warnings"][0]
    assert failed(told("verify", "gram.zarr")[0]) == {}


def test_many_damaged_tiles_are_counted(stopped: Path, eigenvalues: list[float], told: Any) -> None:
    """Where every tile is damaged every tile is made again, and the first eight are named."""
    for path in (stopped / "gram.zarr/tiles/c").glob("*/*"):
        flip(path)
    printed, err = told("fit", "c.yaml")
    assert f"{N_TILES} tiles were cut, changed or lost" in err
    assert "(1, 3), …; check the disk" in err
    assert printed["result"]["tiles_repaired"] == N_TILES
    assert printed["result"]["eigenvalues"] == eigenvalues


@pytest.mark.parametrize(
    "place", ["tiles/c/1/3.0f.partial", "checkpoints/.a.npz.0f.partial", "zarr.0f.partial"]
)
def test_a_leftover_is_named_and_removed(place: str, stopped: Path, told: Any) -> None:
    """What an interrupted write left is named by both, is no fault, and is gone after the fit."""
    path = stopped / "gram.zarr" / place
    path.write_bytes(b"half")
    printed, _ = told("verify", "gram.zarr")
    (leftovers,) = (check for check in printed["result"]["checks"] if check["name"] == "leftovers")
    assert place in leftovers["detail"]
    assert path.exists()
    _, err = told("fit", "c.yaml")
    assert f"removed 1 leftovers of interrupted writes, the first {path}" in err
    assert not path.exists()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_checkpoint_is_named_and_its_work_done_again(
    damage: str, number: int, stopped: Path, eigenvalues: list[float], told: Any
) -> None:
    """Sums that cannot be read are named by both and computed from the tiles; lost ones simply are."""
    path = stopped / f"gram.zarr/checkpoints/float64-{number:03d}.npz"
    DAMAGES[damage](path)
    is_named = damage != "delete"
    printed, _ = told("verify", "gram.zarr", code=65 if is_named else 0)
    assert (path.name in failed(printed).get("checkpoints", "")) == is_named
    printed, err = told("fit", "c.yaml")
    assert (f"{path.name} cannot be read" in err) == is_named
    found = printed["result"]
    assert (found["tiles_made"], found["passes_resumed"]) == (0, 2)
    assert found["eigenvalues"] == eigenvalues


@pytest.mark.parametrize(
    ("file", "old", "new", "check"),
    [
        ("zarr.json", '"gamma": 0.05', '"gamma": 0.06', "attributes"),
        ("zarr.json", '"digest": "', '"digest": "0', "attributes"),
        ("tiles/zarr.json", '"NaN"', "0.0", "tiles"),
        ("tiles/zarr.json", '"little"', '"big"', "tiles"),
        ("tiles/zarr.json", '"shape"', '"shade"', "tiles"),
    ],
)
def test_a_changed_attribute_is_named_and_refused(
    file: str, old: str, new: str, check: str, stopped: Path, eigenvalues: list[float], told: Any
) -> None:
    """A changed description is named by both; nothing is read by it, and a restart builds the store anew."""
    replace(stopped / "gram.zarr" / file, old, new)
    assert check in failed(told("verify", "gram.zarr", code=65)[0])
    printed, err = told("fit", "c.yaml", code=65)
    assert f"gram.zarr/{file}" in printed["error"]["message"]
    assert "--restart" in printed["error"]["message"]
    assert len([line for line in err.splitlines() if line.startswith("error")]) == 1
    found = told("fit", "c.yaml", "--restart")[0]["result"]
    assert (found["tiles_found"], found["passes_resumed"]) == (0, 0)
    assert found["eigenvalues"] == eigenvalues


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_description_of_the_store_is_named(damage: str, stopped: Path, told: Any) -> None:
    """A store that cannot be opened is named by both; a restart builds it anew."""
    DAMAGES[damage](stopped / "gram.zarr/zarr.json")
    for command in (("verify", "gram.zarr"), ("fit", "c.yaml")):
        code = 2 if damage == "delete" else 65
        assert "gram.zarr" in told(*command, code=code)[0]["error"]["message"]
    if damage != "delete":  # without it, nobody knows that it is a store
        assert told("fit", "c.yaml", "--restart")[0]["result"]["tiles_found"] == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_are_named_and_refused(
    damage: str, stopped: Path, eigenvalues: list[float], told: Any
) -> None:
    """Stored rows that are damaged are named by both and never used; a restart reads the source again."""
    DAMAGES[damage](stopped / "gram.zarr/rows/c/0/0")
    assert "rows" in failed(told("verify", "gram.zarr", code=65)[0])
    printed, _ = told("fit", "c.yaml", code=65)
    assert "gram.zarr/rows" in printed["error"]["message"]
    assert told("fit", "c.yaml", "--restart")[0]["result"]["eigenvalues"] == eigenvalues


@pytest.mark.parametrize("array", ["coefficients", "rows", "row_means"])
def test_a_damaged_basis_does_not_score(array: str, whole: Path, told: Any) -> None:
    """A basis with a flipped bit scores nothing and is named; a restarted fit publishes a sound version."""
    basis = whole / "models/rows/versions/1/basis.zarr"
    flip(next(path for path in sorted((basis / array / "c").rglob("*")) if path.is_file()))
    printed, _ = told("score", "c.yaml", code=65)
    assert "models/rows/versions/1/basis.zarr" in printed["error"]["message"]
    assert not list((whole / "scores").glob("*.parquet"))
    assert told("fit", "c.yaml", "--restart")[0]["result"]["version"] == 2
    assert told("score", "c.yaml")[0]["result"]["n_rows"] == 50


def test_damage_after_the_end_is_found_by_the_next_fit(whole: Path, told: Any) -> None:
    """A finished store whose tiles serve another fit is mended by it, from a lost folder of tiles, too."""
    shutil.rmtree(whole / "gram.zarr/tiles/c/2")
    cut(whole / "gram.zarr/tiles/c/0/0")
    printed, err = told("fit", "c.yaml", "--set", "solver.n_components=2")
    assert "4 tiles were cut, changed or lost and have been computed again: (0, 0), (2, 2)" in err
    assert printed["result"]["tiles_repaired"] == 4
    assert failed(told("verify", "gram.zarr")[0]) == {}


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_tiles_in_each_others_places_are_found(kernel: str, whole: Path, told: Any) -> None:
    """Sound tiles whose files changed places are named by both, since the row means are no longer theirs."""
    settings = ["--set", f"kernel.name={kernel}", "--set", f"gram.path={kernel}.zarr"]
    first = told("fit", "c.yaml", "--restart", *settings)[0]["result"]["eigenvalues"]
    tiles = whole / f"{kernel}.zarr/tiles/c"
    one, other = (path.read_bytes() for path in (tiles / "0/1", tiles / "2/3"))
    (tiles / "0/1").write_bytes(other)
    (tiles / "2/3").write_bytes(one)
    assert "row means" in failed(told("verify", f"{kernel}.zarr", code=65)[0])
    fewer = ("fit", "c.yaml", *settings, "--set", "solver.n_components=2")
    message = told(*fewer, code=65)[0]["error"]["message"]
    assert f"{kernel}.zarr/tiles do not belong to the stored row means" in message
    assert "--restart" in message
    assert told(*fewer, "--restart")[0]["result"]["eigenvalues"] == pytest.approx(first[:2], rel=1e-10)
