"""Immutable versions, and aliases that point to one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.storage import objects, whole
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.manifest import manifest_key
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.source import open_source
from tests.storage.versions import anywhere

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def basis() -> Basis:
    X = np.random.default_rng(0).standard_normal((30, 3))
    return fit(open_source(X), FitSettings(n_components=2)).basis


@pytest.fixture
def registry(models: str) -> Registry:
    return Registry.of(models, "digits")


def named(fit_name: str) -> Any:
    return lambda number: {"fit": fit_name, "of": number}


@anywhere
def test_versions_are_numbered_in_their_order(registry: Registry, basis: Basis) -> None:
    """Each publication gets the next number, its basis opens, and its manifest knows the number."""
    assert [registry.publish(basis, named(text)) for text in ("a", "b", "a")] == [1, 2, 3]
    assert registry.versions() == [1, 2, 3]
    assert registry.manifest(2) == {"version": 2, "fit": "b", "of": 2}
    assert open_basis(registry.basis_path(3)).n_rows == 30
    assert registry.find("a") == 3
    assert registry.find("c") is None


@anywhere
def test_a_damaged_version_hides_no_other(registry: Registry, basis: Basis) -> None:
    """A fit is found though the manifest of another version is cut or too large, and never in these."""
    for text in ("a", "b", "a", "c"):
        registry.publish(basis, named(text))
    place = registry.place
    for version, content in ((3, b'{"fit": "a"'), (4, b" " * (2**26 + 1))):
        place.swap(manifest_key(version), content, place.read(manifest_key(version)))
    assert registry.find("a") == 1
    assert registry.find("c") is None


@anywhere
def test_what_could_not_be_read_again_is_not_published(
    registry: Registry, basis: Basis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest too large to be read is an error that says what to do, and leaves nothing of the version."""
    monkeypatch.setattr(objects, "MOST_SMALL_BYTES", 2000)
    with pytest.raises(DataError, match=r"versions/1/manifest\.json: .* at most 2,000; .* larger files"):
        registry.publish(basis, lambda _: {"fit": "a", "trained": ["file"] * 2000})
    assert registry.place.names("versions") == []
    assert registry.publish(basis, named("a")) == 1


def test_a_later_version_leaves_the_earlier_ones_as_they_are(registry: Registry, basis: Basis) -> None:
    """Publishing changes no byte of what was published before."""
    registry.publish(basis, named("a"))
    before = {p: p.read_bytes() for p in registry.folder.rglob("*") if p.is_file()}
    registry.publish(basis, named("b"))
    assert all(path.read_bytes() == content for path, content in before.items())


def test_an_alias_names_one_version_and_is_swapped(registry: Registry, basis: Basis) -> None:
    """An alias can be moved forth and back; other aliases stay."""
    for text in ("a", "b"):
        registry.publish(basis, named(text))
    registry.point(2)
    registry.point(1, "shadow")
    assert (registry.resolve(), registry.resolve("shadow")) == (2, 1)
    registry.point(1)
    assert (registry.resolve(), registry.resolve("shadow")) == (1, 1)
    assert [path.name for path in (registry.folder / "aliases").iterdir() if path.suffix == ".partial"] == []


def test_an_alias_of_no_version_is_refused(registry: Registry, basis: Basis) -> None:
    """Neither pointing to a version that is not there nor resolving such a pointer succeeds."""
    registry.publish(basis, named("a"))
    with pytest.raises(ConfigError, match="no version 7"):
        registry.point(7)
    with pytest.raises(ConfigError, match="has no champion"):
        registry.resolve()
    registry.point(1)
    for text in ("7", "{", '"1"', ""):
        (registry.folder / "aliases" / "champion").write_text(text)
        with pytest.raises(DataError, match="champion"):
            registry.resolve()


def test_an_alias_is_not_a_number(registry: Registry, basis: Basis) -> None:
    """A name that is a number would be taken for the version of that number."""
    registry.publish(basis, named("a"))
    with pytest.raises(ConfigError, match="got '7', which is a version"):
        registry.point(1, "7")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a\\b", "a\0b", "-x", "a b"])
def test_names_cannot_leave_the_folder(tmp_path: Path, basis: Basis, name: str) -> None:
    """A model's or an alias's name with a separator, a leading dot or the like is refused."""
    with pytest.raises(ConfigError, match="cannot be a name"):
        Registry.of(tmp_path, name)
    registry = Registry.of(tmp_path, "good")
    registry.publish(basis, named("a"))
    for call in (lambda: registry.point(1, name), lambda: registry.resolve(name)):
        with pytest.raises(ConfigError, match="cannot be a name"):
            call()


def test_what_is_not_whole_does_not_count(registry: Registry, basis: Basis) -> None:
    """A folder without manifest is no version, and its number is not given again."""
    registry.publish(basis, named("a"))
    (registry.folder / "versions" / "2" / "basis.zarr").mkdir(parents=True)
    (registry.folder / "versions" / ".0a.partial").mkdir()
    (registry.folder / "versions" / "notes").mkdir()
    assert registry.versions() == [1]
    assert registry.publish(basis, named("b")) == 3
    assert registry.versions() == [1, 3]


def test_a_publication_that_fails_leaves_nothing(registry: Registry, basis: Basis) -> None:
    """An error while the manifest is made removes the basis that was written beside it."""

    def failing(_: int) -> dict[str, Any]:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        registry.publish(basis, failing)
    assert list((registry.folder / "versions").iterdir()) == []
    assert registry.publish(basis, named("a")) == 1


def test_old_leftovers_are_swept(registry: Registry, basis: Basis, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed publisher left goes after a day, and what another one writes now stays."""
    leftover = registry.folder / "versions" / ".0a.partial"
    (leftover / "basis.zarr").mkdir(parents=True)
    registry.publish(basis, named("a"))
    assert leftover.exists()
    monkeypatch.setattr(whole, "LEFTOVER_SECONDS", -1.0)
    whole.sweep_leftovers(registry.folder / "versions")
    assert not leftover.exists()
    assert registry.versions() == [1]


def test_a_damaged_manifest_is_named(registry: Registry, basis: Basis) -> None:
    """A manifest that is no JSON is refused by its path."""
    registry.publish(basis, named("a"))
    (registry.folder / "versions" / "1" / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        registry.manifest(1)


PUBLISH = """
import sys
from kpca_stream.addresses import located
from kpca_stream.storage.basis import open_basis
from kpca_stream.storage import objects
from kpca_stream.storage.manifest import manifest_key
from kpca_stream.storage.registry import Registry
basis = open_basis(located(sys.argv[1]))
registry = Registry.of(sys.argv[2], "digits")
for _ in range(6):
    version = registry.publish(basis, lambda number: {"fit": sys.argv[3]})
    registry.point(version)
    print(version, registry.resolve())
"""


@anywhere
def test_publishers_at_the_same_time_get_different_numbers(
    registry: Registry, basis: Basis, models: str
) -> None:
    """Three processes that publish at once get each number once, and the alias always names a version."""
    registry.publish(basis, named("first"))
    command = [sys.executable, "-c", PUBLISH, str(registry.basis_path(1)), models]
    children = [
        subprocess.Popen([*command, str(k)], stdout=subprocess.PIPE, text=True, cwd=ROOT) for k in range(3)
    ]
    lines = [line.split() for child in children for line in child.communicate(timeout=120)[0].splitlines()]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert sorted(int(version) for version, _ in lines) == list(range(2, 20))
    assert registry.versions() == list(range(1, 20))
    for version in registry.versions()[1:]:
        assert registry.manifest(version)["fit"] in "012"
    assert registry.resolve() in registry.versions()
    assert len(registry.place.names("versions")) == 19


def test_a_version_without_its_basis_does_not_count(registry: Registry, basis: Basis) -> None:
    """It is damaged, is not what a fit finds, and is not what a rollback goes to."""
    for text in ("a", "b"):
        registry.publish(basis, named(text))
        registry.point(registry.versions()[-1])
    shutil.rmtree(registry.folder / "versions" / "1" / "basis.zarr")
    assert (registry.standing(1), registry.standing(2)) == ("damaged", "sound")
    assert (registry.find("a"), registry.find("b")) == (None, 2)
    with pytest.raises(ConfigError, match="no other version that is there and sound"):
        registry.rollback()
    with pytest.raises(DataError, match=r"version 1 of .* has no basis; promote another"):
        registry.promote(1)


def test_a_basis_may_lie_elsewhere(registry: Registry, basis: Basis, tmp_path: Path) -> None:
    """A link to it, on a larger disk say, is as good."""
    registry.publish(basis, named("a"))
    place = registry.folder / "versions" / "1" / "basis.zarr"
    place.rename(tmp_path / "moved.zarr")
    place.symlink_to(tmp_path / "moved.zarr")
    assert (registry.standing(1), registry.find("a")) == ("sound", 1)
