"""Which versions stay."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.place import REMOVED
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import anywhere, publish, read_whole

NOW = Retention(keep=1, age=0)


@pytest.fixture
def registry(models: str) -> Registry:
    made = Registry.of(models, "digits")
    for _ in range(6):
        publish(made)
    return made


@anywhere
def test_the_newest_and_the_named_stay(registry: Registry) -> None:
    """What an alias names or would roll back to and the newest ones stay, with the reason; others go."""
    registry.point(1, "shadow")
    registry.promote(2)
    registry.promote(3)
    found = collect(registry, Retention(keep=2, age=0))
    assert found.removed == (4,)
    assert found.n_bytes > 1000
    assert registry.versions() == [1, 2, 3, 5, 6]
    assert dict(found.kept) == {
        1: "named by shadow",
        2: "champion would roll back to it",
        3: "named by champion",
        5: "one of the newest 2",
        6: "one of the newest 2",
    }
    assert collect(registry, Retention(keep=2, age=0)).removed == ()
    assert registry.rollback() == (3, 2)


def test_what_is_young_stays(registry: Registry) -> None:
    """A version made or named within the age stays, and goes later."""
    for version in (1, 2, 3):
        registry.promote(version)
    manifest = registry.basis_path(4).parent / "manifest.json"
    manifest.write_text(json.dumps({**registry.manifest(4), "created": "2020-01-01T00:00:00Z"}))
    young = collect(registry, Retention(keep=1, age=3600))
    assert young.removed == (4,)
    assert dict(young.kept)[1] == "was named by champion not long ago"
    assert dict(young.kept)[5] == "made not long ago"
    assert collect(registry, Retention(keep=1, age=3600), now=time.time() + 3700).removed == (1, 5)


@anywhere
def test_a_dry_run_takes_nothing_away(registry: Registry) -> None:
    """It tells what would go."""
    registry.promote(2)
    would = collect(registry, NOW, dry_run=True)
    assert registry.versions() == [1, 2, 3, 4, 5, 6]
    assert would == collect(registry, NOW)
    assert would.removed == (1, 3, 4, 5)


def test_refused_versions_do_not_crowd_out_sound_ones(registry: Registry) -> None:
    """As many of each kind stay, and a refused one leaves nothing behind when it goes."""
    for version in (3, 4, 5, 6):
        registry.refuse(version, "a poisoned week")
    assert collect(registry, Retention(keep=2, age=0)).removed == (3, 4)
    assert registry.versions() == [1, 2, 5, 6]
    assert sorted(path.name for path in (registry.folder / "refused").iterdir()) == ["5.json", "6.json"]


@anywhere
def test_no_number_is_given_twice(registry: Registry) -> None:
    """The newest version of all stays, whatever its standing, so that the next gets a new number."""
    registry.refuse(6, "a poisoned week")
    collect(registry, NOW)
    assert registry.versions() == [5, 6]
    assert publish(registry) == 7


def test_a_damaged_alias_stops_the_hand(registry: Registry) -> None:
    """Damaged versions stay, as many as of each other kind; with a damaged alias nothing goes at all."""
    for version in (1, 2, 5):
        (registry.basis_path(version).parent / "manifest.json").write_text("{")
    registry.point(3, "shadow")
    (registry.folder / "aliases" / "shadow").write_text("1")
    assert collect(registry, Retention(keep=1, age=3600)).removed == ()
    found = collect(registry, NOW)
    assert found.removed == (2, 3, 4)
    assert dict(found.kept) == {
        1: "named by shadow",
        5: "one of the newest 1 damaged",
        6: "one of the newest 1",
    }
    publish(registry)
    registry.promote(6)
    (registry.folder / "aliases" / "champion").write_text("{")
    with pytest.raises(DataError, match="champion is damaged"):
        collect(registry, NOW)
    assert registry.versions() == [1, 5, 6, 7]


def test_what_a_killed_one_left_is_swept(registry: Registry) -> None:
    """A version that was on its way out when its remover died goes with the next one."""
    leftover = registry.folder / "versions" / f"{REMOVED}9-0a.partial"
    registry.basis_path(3).parent.rename(leftover)
    assert registry.versions() == [1, 2, 4, 5, 6]
    collect(registry, NOW)
    assert [path.name for path in (registry.folder / "versions").iterdir()] == ["6"]


def test_links_are_never_followed(registry: Registry, tmp_path: Path) -> None:
    """A version or a file that is a link to elsewhere is none, and what it leads to stays."""
    outside = tmp_path / "outside"
    registry.basis_path(1).parent.rename(outside)
    (registry.folder / "versions" / "1").symlink_to(outside)
    (registry.basis_path(2).parent / "manifest.json").rename(tmp_path / "manifest.json")
    (registry.basis_path(2).parent / "manifest.json").symlink_to(tmp_path / "manifest.json")
    assert registry.versions() == [3, 4, 5, 6]
    assert not registry.has(1)
    with pytest.raises(ConfigError, match="no version 1"):
        registry.promote(1)
    collect(registry, NOW)
    assert (outside / "manifest.json").exists()
    assert (tmp_path / "manifest.json").exists()
    registry.promote(6)
    assert read_whole(registry) == 6


def test_retention_that_makes_no_sense_is_refused() -> None:
    """Keeping none, or a negative age, is refused."""
    for wrong in ({"keep": 0}, {"age": -1.0}, {"age": float("nan")}):
        with pytest.raises(ConfigError, match="retention"):
            Retention(**wrong)  # type: ignore[arg-type]
