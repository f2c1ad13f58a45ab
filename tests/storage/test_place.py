"""A folder, and a place of objects, under one registry."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kpca_stream.addresses import Address
from kpca_stream.errors import BusyError, DataError
from kpca_stream.storage import place as place_module
from kpca_stream.storage.bucket import Bucket
from kpca_stream.storage.lock import locked
from kpca_stream.storage.place import Folder, Place
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.objects import Objects
from tests.storage.versions import publish


@pytest.fixture(params=["folder", "objects", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    (tmp_path / "place").mkdir()
    if request.param == "bucket":
        return Bucket(Address.parse(request.getfixturevalue("bucket")) / "place")
    return Folder(tmp_path / "place") if request.param == "folder" else Objects()


def tree(folder: Path, content: str) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(content)
    return folder


def test_a_tree_is_adopted_once(place: Place, tmp_path: Path) -> None:
    """The first of two trees for a key is there whole, the other one is not taken."""
    assert place.adopt(tree(tmp_path / "a", "first"), "versions/1")
    assert not place.adopt(tree(tmp_path / "b", "second"), "versions/1")
    assert place.read("versions/1/manifest.json") == b"first"
    assert place.names("versions") == ["1"]
    assert place.modified("versions/1/manifest.json") > 1e9


def test_a_swap_needs_what_it_expects(place: Place, tmp_path: Path) -> None:
    """A key changes only from the content expected, and only while what it needs is there."""
    place.adopt(tree(tmp_path / "a", "x"), "versions/1")
    needs = "versions/1/manifest.json"
    assert not place.swap("aliases/a", b"1", b"0", needs=needs)
    assert not place.swap("aliases/a", b"1", None, needs="versions/2/manifest.json")
    assert place.read("aliases/a") is None
    assert place.swap("aliases/a", b"1", None, needs=needs)
    assert not place.swap("aliases/a", b"2", None, needs=needs)
    assert place.swap("aliases/a", b"2", b"1", needs=needs)
    assert place.read("aliases/a") == b"2"


def test_of_many_swaps_at_once_none_is_lost(place: Place, tmp_path: Path) -> None:
    """Threads that each add one to a number ten times end at ten times their number."""
    n_threads = 4 if isinstance(place, Bucket) else 8
    place.adopt(tree(tmp_path / "a", "x"), "versions/1")

    def count() -> None:
        done = 0
        while done < 10:
            data = place.read("aliases/a")
            number = b"%d" % (int(data or 0) + 1)
            done += place.swap("aliases/a", number, data, needs="versions/1/manifest.json")

    threads = [threading.Thread(target=count) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read("aliases/a") == b"%d" % (10 * n_threads)


def test_what_is_taken_away_is_gone_unless_it_is_needed(place: Place, tmp_path: Path) -> None:
    """A tree goes whole, or stays whole; one that is not there is gone already."""
    place.adopt(tree(tmp_path / "a", "x"), "versions/1")
    assert not place.take_away("versions/1", lambda: True)
    assert place.read("versions/1/manifest.json") == b"x"
    assert place.take_away("versions/1", lambda: False)
    assert place.names("versions") == []
    assert place.take_away("versions/1", lambda: False)
    assert (place.read("versions/1/manifest.json"), place.modified("versions/1/manifest.json")) == (None, 0)
    assert place.names("nothing") == []


def test_a_registry_works_the_same_over_objects(place: Place, tmp_path: Path) -> None:
    """Publishing, promoting, refusing, rolling back and taking away are the same over either place."""
    folder = tmp_path / "place"
    registry = Registry(place.address if isinstance(place, Bucket) else folder, place)
    assert [publish(registry) for _ in range(5)] == [1, 2, 3, 4, 5]
    for version in (2, 3, 4):
        registry.promote(version)
    registry.point(1, "shadow")
    assert registry.rollback() == (4, 3)
    with pytest.raises(DataError, match="was refused"):
        registry.promote(4)
    assert registry.find("5") == 5
    assert registry.manifest(5)["tag"] == 5
    found = collect(registry, Retention(keep=1, age=0))
    assert found.removed == ()
    registry.promote(5)
    registry.promote(1)
    found = collect(registry, Retention(keep=1, age=0))
    assert (found.removed, registry.versions()) == ((2, 3), [1, 4, 5])
    assert registry.resolve() == 1
    assert publish(registry) == 6


def test_an_alias_that_others_move_meanwhile_is_followed(tmp_path: Path) -> None:
    """A promotion that loses its swap goes back to the winner later; one that always loses gives up."""
    objects = Objects()
    registry = Registry(tmp_path / "m", objects)
    for _ in range(3):
        publish(registry)
    registry.promote(1)

    def once() -> None:
        objects.busy = lambda: None
        registry.promote(2)

    objects.busy = once
    assert registry.promote(3) == 2
    assert registry.aliases()["champion"].before == (2, 1)
    objects.busy = lambda: (setattr(objects, "busy", lambda: None), registry.point(1))
    with pytest.raises(BusyError, match="names version 1, expected 3"):
        registry.rollback()
    assert (registry.resolve(), registry.standing(1)) == (1, "sound")
    turn = iter(range(10**6))

    def always() -> None:
        objects.objects["aliases/champion"] = str(1 + 2 * (next(turn) % 2)).encode(), 0.0

    objects.busy = always
    with pytest.raises(BusyError, match="moved faster than it can be followed"):
        registry.promote(2)


def test_a_lock_that_is_held_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a swap in vain is told who holds it, and can once it is free."""
    monkeypatch.setattr(place_module, "WAIT_SECONDS", 0.05)
    registry = Registry.of(tmp_path, "digits")
    publish(registry)
    with locked(registry.folder, name=".swap"), pytest.raises(BusyError, match="is in use by"):
        registry.promote(1)
    registry.promote(1)
