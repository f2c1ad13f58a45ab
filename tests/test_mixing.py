"""One store belongs to one run: others are refused by name, wait, or start it anew where asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from kpca_stream.cli import main
from kpca_stream.storage import naming
from tests.disturb import flip, killed, started, wait_until, write_yaml
from tests.jobs import contents

X = np.random.default_rng(5).standard_normal((200, 3)) * [3.0, 2.0, 1.0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    sections = {
        "name": "rows",
        "data": {"train": {"path": "x.npy"}},
        "kernel": {"name": "rbf", "gamma": 0.05},
        "solver": {"method": "lanczos", "n_components": 3},
        "gram": {"storage": "zarr", "path": "work/gram.zarr", "tile_rows": 64},
    }
    write_yaml(Path("c.yaml"), sections)
    return tmp_path


CHANGES = {
    "kernel": (["kernel.name=laplacian"], "kernel: 'rbf' there, 'laplacian' now"),
    "gamma": (["kernel.gamma=0.06"], "gamma: 0.05 there, 0.06 now"),
    "precision": (["solver.precision=float32"], "precision: 'float64' there, 'float32' now"),
    "tile size": (["gram.tile_rows=32"], "tile_rows: 64 there, 32 now"),
    "scale": (["data.scale=standard"], "scale: False there, True now"),
    "columns": (["data.columns=[0, 1]"], "fingerprint: "),
    "rows": (["data.train.rows='0:100'"], "fingerprint: "),
    "one value": ([], "fingerprint: "),
    "format": ([], f"format_version: {naming.FORMAT_VERSION} there, 99 now"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_run_is_refused_by_what_differs(
    what: str, folder: Path, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other data, settings or formats are named with both values and touch no file; a restart starts anew."""
    told("fit", "c.yaml")
    before = contents(folder / "work")
    settings, difference = CHANGES[what]
    arguments = ["fit", "c.yaml", *(part for setting in settings for part in ("--set", setting))]
    if what == "one value":
        changed = X.copy()
        changed[137, 2] = np.nextafter(changed[137, 2], 9)
        np.save("x.npy", changed)
    if what == "format":
        monkeypatch.setattr(naming, "FORMAT_VERSION", 99)
        arguments += ["--set", "solver.n_components=2"]  # else it is published already
    message = told(*arguments, code=65)["error"]["message"]
    assert difference in message
    assert "gram.zarr holds another run" in message
    assert contents(folder / "work") == before
    found = told(*arguments, "--restart")["result"]
    assert (found["tiles_found"], found["version"], found["reused"]) == (0, 2, False)
    elsewhere = ["--set", "gram.path=work/new.zarr", "--set", "models.path=other"]
    assert told(*arguments, *elsewhere)["result"]["eigenvalues"] == found["eigenvalues"]
    assert contents(folder / "work").keys() >= {"gram.zarr/tiles/zarr.json"}


@pytest.mark.usefixtures("folder")
def test_a_restart_fits_anew_what_is_published(told: Any) -> None:
    """Asked to restart, a fit is made again though it is there, to the same bits, as the next version."""
    first = told("run", "c.yaml")["result"]["fit"]
    assert told("run", "c.yaml")["result"]["fit"]["reused"]
    again = told("run", "c.yaml", "--restart")["result"]["fit"]
    assert (again["reused"], again["version"], again["tiles_found"]) == (False, 2, 0)
    assert again["eigenvalues"] == first["eigenvalues"]


@pytest.mark.parametrize("what", ["a folder", "a file in a store", "a basis", "a group", "a file"])
def test_a_restart_removes_nothing_of_others(what: str, folder: Path, told: Any) -> None:
    """A folder that is not a run's store alone is refused by what is in it, and stays as it is."""
    told("fit", "c.yaml")
    path = folder / "work" / "gram.zarr"
    if what == "a folder":
        path = folder / "thesis"
        path.mkdir()
        (path / "tiles").mkdir()
        (path / "tiles" / "bathroom.jpg").write_text("mine")
    elif what == "a file in a store":
        (path / "notes.txt").write_text("mine")
    elif what == "a basis":
        path = folder / "copy.zarr"
        (folder / "models/rows/versions/1/basis.zarr").rename(path)
    elif what == "a group":
        path = folder / "group.zarr"
        zarr.open_group(path, mode="w").attrs["mine"] = True
    else:
        path = folder / "x.txt"
        path.write_text("mine")
    before = contents(folder)
    message = told("fit", "c.yaml", "--restart", "--set", f"gram.path={path}", code=2)["error"]["message"]
    assert path.name in message
    assert contents(folder) == before


def test_an_interrupted_restart_mixes_nothing(folder: Path, told: Any) -> None:
    """What a killed restart leaves still names its run: that one goes on, another is refused."""
    first = told("fit", "c.yaml")["result"]
    store = folder / "work" / "gram.zarr"
    for path in (store / "tiles" / "c" / "0").iterdir():
        path.unlink()
    (store / "row_means" / "zarr.json").unlink()
    other = ("fit", "c.yaml", "--set", "kernel.gamma=0.06")
    assert "gamma" in told(*other, code=65)["error"]["message"]
    found = told("fit", "c.yaml", "--set", "models.path=other")["result"]
    assert found["eigenvalues"] == first["eigenvalues"]
    assert told(*other, "--restart")["result"]["tiles_found"] == 0


def test_a_store_of_a_run_that_never_began_is_taken(folder: Path, told: Any) -> None:
    """A folder with a lock and half a description, as an early kill leaves it, is no obstacle."""
    store = folder / "work" / "gram.zarr"
    store.mkdir(parents=True)
    (store / "lock").touch()
    (store / "zarr.0123.partial").write_text("{")
    assert told("fit", "c.yaml")["result"]["tiles_made"] == 10
    assert not list(store.glob("*.partial"))


KERNEL = """
import pathlib, time

def slow(X, Y):
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return X @ Y.T
"""


@pytest.mark.slow
def test_two_fits_in_one_store(folder: Path, told: Any) -> None:
    """The second is told who holds the store and changes nothing, restart or not; a dead holder loses it."""
    Path("mine.py").write_text(KERNEL)
    arguments = ("fit", "c.yaml", "--set", "kernel.name='mine:slow'")
    store = folder / "work" / "gram.zarr"
    with started(folder, *arguments) as process:
        assert wait_until((store / "zarr.json").exists, process)
        before = contents(store)
        for restart in ((), ("--restart",)):
            error = told("fit", "c.yaml", *restart, code=75)["error"]
            assert f'"process": {process.pid}' in error["message"]
            assert "work/gram.zarr is in use by" in error["message"]
        assert contents(store).keys() >= before.keys()
        assert killed(process) == []
    assert str(process.pid) in (store / "lock").read_text()
    Path("go").touch()
    assert told(*arguments)["result"]["version"] == 1
    assert told("verify", str(store))["result"]["kind"] == "gram"


def test_a_flipped_bit_in_any_file_of_a_store_never_changes_a_result(folder: Path, told: Any) -> None:
    """Whatever file is damaged, the next fit ends with the same bits or refuses."""
    first = told("fit", "c.yaml")["result"]["eigenvalues"]
    store = folder / "work" / "gram.zarr"
    originals = contents(store)
    for seed, name in enumerate(sorted(originals)):
        flip(store / name, seed)
        code = main(["fit", "c.yaml", "--quiet", "--set", f"models.path=m{seed}"])
        assert code in (0, 65), name
        if code == 0:
            manifest = json.loads((folder / f"m{seed}/rows/versions/1/manifest.json").read_text())
            assert manifest["summary"]["eigenvalues"] == first, name
        for other, content in originals.items():
            (store / other).write_bytes(content)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "setting",
    ["gram.checkpoint_seconds=1", "limits.memory=2GiB", "cluster.n_workers=1", "gram.storage=memory"],
)
def test_how_it_is_run_makes_no_other_fit(setting: str, told: Any) -> None:
    """What changes no bit makes no other run: the version that is there is taken."""
    told("fit", "c.yaml")
    assert told("fit", "c.yaml", "--set", setting)["result"]["reused"]
