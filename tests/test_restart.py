"""A restart costs the run of before only once its own has begun; what a killed fit left is cleared up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.config import load_config
from kpca_stream.pipeline import fit_config
from kpca_stream.storage import premises
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import silent
from tests.disturb import write_yaml
from tests.jobs import contents

X = np.random.default_rng(8).standard_normal((200, 3)) * [3.0, 2.0, 1.0]
STORE = Path("work/gram.zarr")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(X)
    sections = {
        "name": "rows",
        "data": {"train": {"path": "x.csv"}},
        "kernel": {"name": "rbf", "gamma": 0.05},
        "solver": {"method": "lanczos", "n_components": 3},
        "gram": {"storage": "zarr", "path": str(STORE), "tile_rows": 64},
        "score": {"input": {"path": "x.csv"}, "output": "scores"},
    }
    write_yaml(Path("c.yaml"), sections)
    return tmp_path


def write_rows(rows: Any) -> None:
    np.savetxt("x.csv", rows, delimiter=",", header="a,b,c", comments="", fmt="%s")


def refusals() -> dict[str, tuple[Any, list[str], int]]:
    """Rows, settings and exit codes of restarts that are refused, early and late."""
    bad, asymmetric = X.copy(), X[:3, :3] @ X[:3, :3].T
    bad[150, 1] = np.nan
    asymmetric[0, 1] += 1
    return {
        "a missing value": (bad, [], 65),
        "one row": (X[:1], [], 65),
        "a matrix that is not symmetric": (asymmetric, ["kernel={name: precomputed}"], 65),
        "one value in all rows": (np.ones((9, 3)), ["kernel.gamma=median"], 2),
        "too little memory": (X, ["limits.memory=1MiB"], 2),
        "a text": (np.full((4, 3), "x"), ["data.columns=[0]"], 65),
    }


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("why", refusals())
def test_a_restart_that_is_refused_costs_nothing(why: str, told: Any) -> None:
    """Whatever a restart is refused for, the store is as before, to the byte, and its run goes on."""
    assert (
        told("fit", "c.yaml", "--set", "solver.max_passes=1", code=1)["error"]["kind"] == "ConvergenceError"
    )
    before = contents(STORE)
    rows, settings, code = refusals()[why]
    write_rows(rows)
    arguments = [part for setting in settings for part in ("--set", setting)]
    told("fit", "c.yaml", "--restart", *arguments, code=code)
    assert contents(STORE) == before
    write_rows(X)
    found = told("fit", "c.yaml")["result"]
    assert (found["tiles_found"], found["tiles_made"]) == (10, 0)
    assert found["passes_resumed"] == 1


@pytest.mark.usefixtures("folder")
def test_a_restart_that_was_killed_is_undone(told: Any) -> None:
    """A store in whose restart no run has begun is called empty, and the next fit finds the run of before."""
    told("fit", "c.yaml")
    premises.set_aside(STORE)
    for _ in range(2):  # without a description, and with one that names no run
        message = told("verify", str(STORE), code=2)["error"]["message"]
        assert "work/gram.zarr is the empty store of a run" in message
        assert "brings back what a restart that was killed set aside" in message
        RunStore.open(STORE)
    found = told("fit", "c.yaml", "--set", "solver.n_components=2")["result"]
    assert (found["tiles_found"], found["tiles_made"]) == (10, 0)
    assert told("verify", str(STORE))["result"]["kind"] == "gram"


@pytest.mark.usefixtures("folder")
def test_a_restart_with_sound_rows_leaves_only_its_own(told: Any) -> None:
    """What was set aside is gone once the new run has begun, though that does not converge."""
    told("fit", "c.yaml")
    write_rows(X[:150])
    told("fit", "c.yaml", "--restart", "--set", "solver.max_passes=1", code=1)
    assert not (STORE / premises.ASIDE).exists()
    assert told("fit", "c.yaml")["result"]["tiles_found"] == 6


class Killed(BaseException):
    """Ends a fit where a kill would."""


def killed_at(what: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that gets as far as this call, and no further."""

    def end(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(what, name, end)
        with pytest.raises(Killed):
            fit_config(load_config(Path("c.yaml")), silent())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("what", "name"), [(Registry, "point"), (RunStore, "finish")])
def test_a_fit_killed_after_it_was_published_is_ended_by_the_next(
    what: Any, name: str, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fit makes nothing again: it points to the version, and removes what only a run needs."""
    killed_at(what, name, monkeypatch)
    checkpoints = STORE / "checkpoints"
    assert list(checkpoints.iterdir())
    assert (STORE / "vectors.npy").exists()
    if name == "point":
        assert "fit a model first" in told("score", "c.yaml", code=2)["error"]["message"]
    found = told("run", "c.yaml")["result"]
    assert (found["fit"]["reused"], found["fit"]["version"], found["score"]["version"]) == (True, 1, 1)
    assert not list(checkpoints.iterdir())
    assert not (STORE / "vectors.npy").exists()


@pytest.mark.usefixtures("folder")
def test_another_fits_checkpoints_are_left_alone(told: Any) -> None:
    """A fit that is published already removes nothing of the fit that was begun in its store since."""
    told("fit", "c.yaml")
    other = ("fit", "c.yaml", "--set", "solver.n_components=2")
    told(*other, "--set", "solver.max_passes=1", code=1)
    assert told("fit", "c.yaml")["result"]["reused"]
    assert told(*other)["result"]["passes_resumed"] == 1


@pytest.mark.usefixtures("folder")
def test_a_store_that_no_fit_began_in_is_called_so(told: Any) -> None:
    """``verify`` says of a store without a run, or with a lock only, that it is empty, and what to do."""
    RunStore.open(STORE)
    refused = Path("work/refused.zarr")
    write_rows(X[:1])
    told("fit", "c.yaml", "--set", f"gram.path={refused}", code=65)
    for path in (STORE, refused):
        message = told("verify", str(path), code=2)["error"]["message"]
        assert message.startswith(f"{path} is the empty store of a run: no fit got as far as its first tile")
        assert message.endswith("; fit with it as gram.path, or remove it")
    RunStore.open(STORE).open_tiles(4, 2, np.float32)
    assert "does not say of which data" in told("verify", str(STORE), code=65)["error"]["message"]
