"""The folder of a run's store: cleared, set aside for a restart, brought back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.errors import ConfigError
from kpca_stream.storage import premises
from kpca_stream.storage.layout import RunStore
from tests.jobs import contents

IDENTITY: dict[str, Any] = {"fingerprint": "abc", "kernel": "rbf"}


def filled(path: Path) -> RunStore:
    store = RunStore.open(path)
    store.claim(IDENTITY)
    store.open_tiles(4, 4, np.float32)[...] = np.ones((4, 4), np.float32)
    store.write_means(np.ones(4), np.ones(4), grand_mean=1.0, trace=0.0)
    store.publish("vectors", np.ones((4, 1)))
    store.checkpoints.save("pass", {"sums": np.ones(3)}, {})
    (path / "lock").touch()
    (path / "zarr.0f.partial").touch()
    return store


def test_a_cleared_store_is_as_new(tmp_path: Path) -> None:
    """Clearing removes all that a run leaves but the lock; then any run may claim the store."""
    path = tmp_path / "s"
    filled(path)
    premises.clear(path)
    assert sorted(entry.name for entry in path.iterdir()) == ["lock", "zarr.0f.partial"]
    premises.clear(path)
    store = RunStore.open(path)
    store.claim({"fingerprint": "other"})
    assert store.present_tiles() == set()
    assert premises.CONTENTS[-1] == "zarr.json"


@pytest.mark.parametrize("name", ["notes.txt", "coefficients"])
def test_clearing_stops_at_what_is_not_a_store_s(name: str, tmp_path: Path) -> None:
    """Where anything else lies in the folder nothing is removed."""
    store = filled(tmp_path / "s")
    (store.path / name).mkdir()
    with pytest.raises(ConfigError, match=f"it holds {name}"):
        premises.clear(store.path)
    assert store.present_tiles() == {(0, 0)}


class Killed(BaseException):
    """Ends a step where a kill would."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let moves and removals of contents through up to this number, and none after it."""
    n_calls = 0

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *arguments: Any) -> Any:
            nonlocal n_calls
            n_calls += path.name in (*premises.CONTENTS, premises.ASIDE)
            if n_calls > step:
                raise Killed
            return do(path, *arguments)

        return call

    monkeypatch.setattr(premises, "remove", counted(premises.remove))
    for name in ("replace", "rmdir"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))


def begun(path: Path) -> None:
    """A restart whose rows were looked at, and whose run is not named yet."""
    premises.settle(path)
    premises.set_aside(path)
    RunStore.open(path).open_tiles(8, 4, np.float64)[...] = np.zeros((8, 8))


def test_what_is_set_aside_comes_back(tmp_path: Path) -> None:
    """A restart that ends before it names its run leaves the store as it was, to the byte."""
    filled(tmp_path)
    before = contents(tmp_path)
    begun(tmp_path)
    assert RunStore.open(tmp_path).identity == {}
    premises.settle(tmp_path)
    assert contents(tmp_path) == before


def test_what_is_set_aside_goes_once_a_run_has_begun(tmp_path: Path) -> None:
    """A restart that names its run removes the run of before, and nothing of its own."""
    filled(tmp_path)
    premises.set_aside(tmp_path)
    RunStore.open(tmp_path).claim({"fingerprint": "other"})
    assert not (tmp_path / premises.ASIDE).exists()
    after = contents(tmp_path)
    premises.settle(tmp_path)
    assert contents(tmp_path) == after
    assert RunStore.open(tmp_path).identity["fingerprint"] == "other"


def test_a_kill_before_the_run_is_named_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the moving away or back is killed, the next fit finds the store as it was, to the byte."""
    filled(tmp_path / "whole")
    before, step, is_done = contents(tmp_path / "whole"), 0, False
    while not is_done:
        store = tmp_path / str(step)
        shutil.copytree(tmp_path / "whole", store)
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            try:
                begun(store)
                premises.settle(store)
                is_done = True
            except Killed:
                step += 1
        premises.settle(store)
        assert contents(store) == before
        assert not (store / premises.ASIDE).exists()
    assert step > len(premises.CONTENTS)


def test_a_kill_after_the_run_is_named_mixes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the removal is killed, the next fit finds the new run, and nothing of the one before."""
    filled(tmp_path / "whole")
    premises.set_aside(tmp_path / "whole")
    step, is_done = 0, False
    while not is_done:
        store = tmp_path / str(step)
        shutil.copytree(tmp_path / "whole", store)
        with monkeypatch.context() as patch:
            opened = RunStore.open(store)
            kill_at(step, patch)
            try:
                opened.claim({"fingerprint": "other"})
                is_done = True
            except Killed:
                step += 1
        premises.settle(store)
        assert {name.split("/")[0] for name in contents(store)} == {"zarr.json", "zarr.0f.partial"}
        assert RunStore.open(store).identity["fingerprint"] == "other"
        assert not (store / premises.ASIDE).exists()
    assert step == len(premises.CONTENTS) + 1
