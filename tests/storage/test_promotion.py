"""Promotions, refusals and the way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kpca_stream.errors import BusyError, ConfigError, DataError
from kpca_stream.storage import registry as registry_module
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import anywhere, publish, read_whole


@pytest.fixture
def registry(models: str) -> Registry:
    made = Registry.of(models, "digits")
    for _ in range(3):
        publish(made)
    return made


@anywhere
def test_rollback_goes_the_way_back(registry: Registry) -> None:
    """An alias goes back step by step over what it named, and each promotion tells what it replaced."""
    assert [registry.promote(version) for version in (1, 2, 3)] == [None, 1, 2]
    assert registry.rollback() == (3, 2)
    assert registry.rollback(reason="worse") == (2, 1)
    assert registry.resolve() == 1
    assert registry.refusal(2).startswith("worse (20")  # type: ignore[union-attr]
    assert "rolled back to version 2" in str(registry.refusal(3))
    with pytest.raises(ConfigError, match="named no other version"):
        registry.rollback()


@anywhere
def test_what_was_rolled_back_stays_away(registry: Registry) -> None:
    """A version that was rolled back is promoted by force only, and is then sound to go back from."""
    for version in (1, 2):
        registry.promote(version)
    registry.rollback()
    with pytest.raises(DataError, match=r"version 2 of .* was refused: rolled back to version 1"):
        registry.promote(2)
    assert registry.promote(2, force=True) == 1
    assert registry.promote(2) == 2
    registry.promote(3)
    assert registry.rollback() == (3, 2)
    assert registry.rollback() == (2, 1)
    assert "rolled back to version 1" in str(registry.refusal(2))


def test_the_way_back_leaves_out_what_is_not_sound(registry: Registry) -> None:
    """Versions that are gone, refused or damaged are passed over."""
    publish(registry)
    for version in (1, 2, 3, 4):
        registry.promote(version)
    registry.refuse(3, "worse")
    (registry.basis_path(2).parent / "manifest.json").write_text("[]")
    assert registry.rollback() == (4, 1)


def test_a_damaged_champion_can_be_rolled_back(registry: Registry) -> None:
    """Neither its manifest nor its folder is needed to go back."""
    for version in (1, 2, 3):
        registry.promote(version)
    (registry.basis_path(3).parent / "manifest.json").write_text("{")
    assert registry.rollback() == (3, 2)
    shutil.rmtree(registry.basis_path(2).parent)
    assert registry.rollback() == (2, 1)


@anywhere
def test_a_refused_candidate_is_kept_with_its_reason(registry: Registry) -> None:
    """Refused by its manifest or later, it stays as it was published, and the first reason counts."""
    before = registry.manifest(2)
    registry.refuse(2, "a poisoned week")
    registry.refuse(2, "another reason")
    assert registry.refusal(2) == "a poisoned week"
    assert registry.manifest(2) == before
    assert registry.refusal(1) is None
    basis = registry.opened_version(1).basis
    refused = registry.publish(basis, lambda _: {"fit": "x", "refused": "angle 80 degrees"})
    assert registry.refusal(refused) == "angle 80 degrees"
    registry.promote(refused, force=True)
    assert registry.refusal(refused) is None
    registry.refuse(refused, "worse after all")
    assert registry.refusal(refused) == "worse after all"
    assert [registry.standing(version) for version in (1, 2, refused, 9)] == [
        "sound",
        "refused",
        "refused",
        "gone",
    ]
    with pytest.raises(ConfigError, match="no version 9"):
        registry.refuse(9, "worse")


@anywhere
def test_a_promotion_may_ask_what_it_replaces(registry: Registry) -> None:
    """If the alias names another version than the one expected, nothing is changed."""
    registry.promote(1)
    registry.promote(2, expected=1)
    with pytest.raises(BusyError, match="names version 2, expected 1"):
        registry.promote(3, expected=1)
    with pytest.raises(BusyError, match="names version None, expected 1"):
        registry.promote(3, "shadow", expected=1)
    assert registry.resolve() == 2


@anywhere
def test_a_first_promotion_may_ask_that_it_is_the_first(registry: Registry) -> None:
    """Where nothing was expected to be named, what somebody else has promoted meanwhile stays."""
    assert registry.promote(2, expected=0) is None
    with pytest.raises(BusyError, match="names version 2, expected None"):
        registry.promote(3, expected=0)
    assert registry.resolve() == 2


def test_promoting_again_changes_nothing(registry: Registry) -> None:
    """To promote what is named already writes nothing and leaves the way back as it is."""
    registry.promote(1)
    registry.promote(2)
    content = (registry.folder / "aliases" / "champion").read_bytes()
    assert registry.promote(2) == 2
    assert (registry.folder / "aliases" / "champion").read_bytes() == content
    assert registry.rollback() == (2, 1)


def test_a_number_alone_is_an_alias(registry: Registry) -> None:
    """A file that holds the number of a version, as an operator may write it, names that version."""
    path = registry.folder / "aliases" / "champion"
    path.parent.mkdir()
    path.write_text("2")
    assert registry.resolve() == 2
    assert registry.promote(3) == 2
    assert registry.rollback() == (3, 2)
    for junk in ('{"version": true}', '{"version": 0}', '{"version": 1, "before": 3}', "[1]", '{"left": 1}'):
        path.write_text(junk)
        with pytest.raises(DataError, match="write the number of a version"):
            registry.resolve()
    assert registry.promote(1) is None
    assert registry.resolve() == 1


@anywhere
def test_aliases_are_told_with_what_they_name(registry: Registry) -> None:
    """All aliases, by name; hidden files and locks are none."""
    registry.promote(1)
    registry.promote(2)
    registry.promote(3, "shadow")
    found = registry.aliases()
    assert {name: (alias.version, alias.before) for name, alias in found.items()} == {
        "champion": (2, (1,)),
        "shadow": (3, ()),
    }


def test_a_manifest_of_another_version_is_damage(registry: Registry) -> None:
    """A manifest that tells another number, or is no object, is refused by its path."""
    path = registry.basis_path(2).parent / "manifest.json"
    for content in (json.dumps({"version": 1}), "[1]", "3"):
        path.write_text(content)
        with pytest.raises(DataError, match=r"2/manifest\.json is damaged"):
            registry.manifest(2)
        assert registry.standing(2) == "damaged"


@pytest.mark.parametrize("name", ["²", "\u0661", "01", "0", "-1", "1.5", "9" * 30])
def test_folders_that_are_no_numbers_are_no_versions(registry: Registry, name: str) -> None:
    """Names that only look like numbers are left alone."""
    shutil.copytree(registry.basis_path(1).parent, registry.folder / "versions" / name)
    assert registry.versions() == [1, 2, 3]
    assert publish(registry) == 4


@anywhere
def test_a_version_that_goes_while_it_opens_is_looked_up_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that resolved a version just before it was taken away gets the one that is named now."""
    registry.promote(1)
    opening = registry_module.open_basis

    def taken_away(path: Path) -> object:
        if registry.has(1):
            for version in (2, 3):
                registry.promote(version)
            registry.promote(2)
            assert collect(registry, Retention(keep=1, age=0)).removed == (1,)
        return opening(path)

    monkeypatch.setattr(registry_module, "open_basis", taken_away)
    assert read_whole(registry) == 2


def test_versions_that_always_go_are_told(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each version is gone before it opens, the reader is told to try again."""
    registry.promote(1)

    def taken_away(path: Path) -> object:
        shutil.rmtree(path.parent)
        path.parent.mkdir()  # its number stays taken
        publish(registry)
        registry.promote(registry.versions()[-1])
        raise FileNotFoundError(path)

    monkeypatch.setattr(registry_module, "open_basis", taken_away)
    monkeypatch.setattr(registry_module, "ATTEMPTS", 4)
    with pytest.raises(BusyError, match="try again"):
        registry.opened()


def test_damage_is_not_taken_for_a_version_that_went(registry: Registry) -> None:
    """A damaged basis of the champion is told as such."""
    registry.promote(1)
    (registry.basis_path(1) / "zarr.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        registry.opened()
