"""A full disk, or one that must not be written to, ends a command in one line; with room it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.disturb import can_mount, in_namespace, write_yaml

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_mount(), reason="this user may not make a mount namespace"),
]

N_TILES = 55
FIT = "$KPCA fit c.yaml --quiet --json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((1000, 5))
    np.save(tmp_path / "x.npy", X)
    for name in ("small", "models", "scores"):
        (tmp_path / name).mkdir()
    sections = {
        "name": "rows",
        "data": {"train": {"path": "x.npy"}},
        "kernel": {"name": "rbf", "gamma": 0.1},
        "solver": {"method": "lanczos", "n_components": 5},
        "gram": {
            "storage": "zarr",
            "path": "small/gram.zarr",
            "tile_rows": 100,
            "checkpoint_seconds": 1e-3,
        },
        "cluster": {"n_workers": 2},
        "score": {"input": {"path": "x.npy", "rows": "0:400", "part_rows": 100}, "output": "scores"},
    }
    write_yaml(tmp_path / "c.yaml", sections)
    return tmp_path


def run(folder: Path, *steps: str) -> list[tuple[int, list[str], dict[str, int]]]:
    """Exit code, lines of errors and JSON result of each step."""
    done = in_namespace(folder, steps)
    assert not [line for _, err in done for line in err.splitlines() if "Traceback" in line]
    found = []
    for index, (code, err) in enumerate(done):
        out = (folder / f"{index}.out").read_text()
        found.append((code, err.splitlines(), json.loads(out).get("result") or {} if out[:1] == "{" else {}))
    return found


def mounted(place: str, size: str) -> str:
    return f"mount -t tmpfs -o size={size} none {place}"


def enlarged(place: str) -> str:
    return f"mount -o remount,size=50M {place}"


def is_full(lines: list[str], place: str) -> bool:
    """Whether one line says that this place has no room, and what to do."""
    (line,) = lines
    parts = ("error: ", place, "No space left on device; make room and run the same command again")
    return all(part in line for part in parts)


@pytest.mark.parametrize("kind", ["threads", pytest.param("local", marks=pytest.mark.cluster)])
def test_in_the_build(kind: str, folder: Path) -> None:
    """Where tiles find no room the fit ends, leaves whole tiles alone, and goes on from them."""
    fit = f"{FIT} --set cluster.kind={kind}"
    left = "find small -name '*.partial' | wc -l; ls small/gram.zarr/tiles/c/* | grep -c '^[0-9]'"
    _, (code, lines, _), _, _, (again, _, found) = run(
        folder, mounted("small", "2M"), fit, left, enlarged("small"), fit
    )
    assert (code, again) == (2, 0)
    assert is_full(lines, "small/gram.zarr")
    partial, tiles = map(int, (folder / "2.out").read_text().split())
    assert partial == 0
    assert 0 < tiles < N_TILES
    assert (found["tiles_found"], found["tiles_made"]) == (tiles, N_TILES - tiles)


def test_in_a_checkpoint(folder: Path) -> None:
    """Where sums find no room the fit ends with its tiles whole, and makes none again."""
    place = "small/gram.zarr/checkpoints"
    begun = f"{FIT} --set solver.max_passes=1"
    _, _, (code, lines, _), _, _, (again, _, found) = run(
        folder, begun, mounted(place, "60k"), FIT, f"ls -A {place}", enlarged(place), FIT
    )
    assert (code, again) == (2, 0)
    assert is_full(lines, place)
    assert (folder / "3.out").read_text() == ""
    assert (found["tiles_found"], found["tiles_made"]) == (N_TILES, 0)


def test_in_publishing(folder: Path) -> None:
    """Where the basis finds no room there is no version, nor a part of one, and no pass is made again."""
    _, (code, lines, _), _, _, (again, _, found) = run(
        folder, mounted("models", "50k"), FIT, "find models -type f", enlarged("models"), FIT
    )
    assert (code, again) == (2, 0)
    assert is_full(lines, "models/rows")
    assert (folder / "2.out").read_text() == ""
    assert found["version"] == 1
    assert (found["tiles_made"], found["tiles_read"]) == (0, 0)
    assert found["passes_resumed"] == found["n_passes"]


def test_in_the_scores(folder: Path) -> None:
    """Where scores find no room nothing of the file is half scored, and all of it follows."""
    score = "$KPCA score c.yaml --quiet --json"
    _, _, (code, lines, _), _, _, (again, _, found) = run(
        folder, FIT, mounted("scores", "32k"), score, "ls -A scores", enlarged("scores"), score
    )
    assert (code, again) == (2, 0)
    assert is_full(lines, "scores/")
    assert set((folder / "3.out").read_text().split()) == {"_ledger", "_staged"}
    assert (found["parts_written"], found["n_parts"], found["n_rows"]) == (4, 4, 400)


def test_in_kept_rows(folder: Path) -> None:
    """Where the rows of a text file find no room the fit ends in one line, and any fit may begin there."""
    np.savetxt(folder / "x.csv", np.load(folder / "x.npy"), delimiter=",", header="a,b,c,d,e", comments="")
    text = f"{FIT} --set data.train.path=x.csv"
    steps = [mounted("small", "20k"), text, "ls small/gram.zarr/tiles", enlarged("small"), FIT]
    _, (code, lines, _), (no_tiles, _, _), _, (again, _, _) = run(folder, *steps)
    assert (code, no_tiles, again) == (2, 2, 0)
    assert is_full(lines, "small/gram.zarr")


def test_scores_that_must_not_be_written(folder: Path) -> None:
    """A read-only folder of scores ends in one line that names it, and leaves no part."""
    score = "$KPCA score c.yaml --quiet --json"
    steps = [FIT, "mount --bind scores scores", "mount -o remount,bind,ro scores", score, "ls -A scores"]
    results = run(folder, *steps)
    code, (line,), _ = results[3]
    assert code == 2
    assert line.startswith("error: scores/")
    assert "Read-only file system; expected a place that may be written to" in line
    assert (folder / "4.out").read_text() == ""


def test_a_store_that_must_not_be_written_to(folder: Path) -> None:
    """A read-only store ends a fit in one line that names it, may be verified, and stays as it is."""
    store = "small/gram.zarr"
    other = f"{FIT} --set solver.n_components=4"
    steps = [FIT, f"mount --bind {store} {store}", f"mount -o remount,bind,ro {store}"]
    steps += [other, f"$KPCA verify {store} --quiet --json", f"umount {store}", other]
    results = run(folder, *steps)
    code, (line,), _ = results[3]
    assert code == 2
    assert line.startswith(
        f"error: {store}/lock: Read-only file system; expected a place that may be written"
    )
    assert (results[4][0], results[4][1]) == (0, [])
    assert results[6][2]["tiles_found"] == N_TILES
