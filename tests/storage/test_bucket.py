"""A bucket as a place: who gives way to whom, what the dead leave, and what counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets

from kpca_stream.addresses import Address
from kpca_stream.errors import BusyError, ConfigError
from kpca_stream.storage import bucket as bucket_module
from kpca_stream.storage import objects
from kpca_stream.storage.basis import open_basis, save_basis
from kpca_stream.storage.bucket import CLAIM, CLOSING, GOING, HELD, Bucket
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import publish, tagged

NOW = Retention(keep=1, age=0)


@pytest.fixture
def place(bucket: str) -> Bucket:
    return Bucket(Address.parse(bucket) / "models/digits")


BASIS = "basis.zarr/zarr.json"


def adopt(place: Bucket, folder: Path, version: int) -> bool:
    """A version of two small files."""
    (folder / BASIS).parent.mkdir(parents=True, exist_ok=True)
    (folder / BASIS).write_text(str(version))
    (folder / CLOSING).write_text(json.dumps({"version": version}))
    return place.adopt(folder, f"versions/{version}")


def keys(place: Bucket) -> list[str]:
    return sorted(entry.key for entry in objects.tree(place.address))


def test_a_version_that_goes_is_not_named(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody takes a version away no alias can come to name it; where that is given up one can."""
    monkeypatch.setattr(bucket_module, "WAIT_SECONDS", 0.0)
    adopt(place, tmp_path / "a", 1)
    needs = f"versions/1/{CLOSING}"

    def asked() -> bool:
        with pytest.raises(BusyError, match=r"versions/1 is being taken away .* try again"):
            place.swap("aliases/a", b"1", None, needs=needs)
        return True

    assert not place.take_away("versions/1", asked)
    assert place.swap("aliases/a", b"1", None, needs=needs)
    assert keys(place) == ["aliases/a", f"versions/1/{CLAIM}", f"versions/1/{BASIS}", f"versions/1/{CLOSING}"]


def test_a_version_that_is_being_named_stays(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes away between the look and the swap of another one gives way."""
    adopt(place, tmp_path / "a", 1)
    swapped, tried = Bucket._swapped, list[bool]()

    def later(self: Bucket, *arguments: Any) -> bool:
        tried.append(place.take_away("versions/1", lambda: False))
        return swapped(self, *arguments)

    monkeypatch.setattr(Bucket, "_swapped", later)
    assert place.swap("aliases/a", b"1", None, needs=f"versions/1/{CLOSING}")
    assert tried == [False]
    assert place.read(f"versions/1/{CLOSING}") is not None


def test_a_version_that_was_named_during_the_look_stays(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A promotion that ends between the look at the aliases and the look at the marks is not overlooked."""
    adopt(place, tmp_path / "a", 1)
    swapped = Bucket._swapped
    named, names = threading.Event(), threading.Event()

    def later(self: Bucket, *arguments: Any) -> bool:
        named.set()  # it has looked, and found nobody who takes the version away
        names.wait(10)
        return swapped(self, *arguments)

    monkeypatch.setattr(Bucket, "_swapped", later)
    with ThreadPoolExecutor(1) as pool:
        promotion = pool.submit(place.swap, "aliases/a", b"1", None, needs=f"versions/1/{CLOSING}")
        named.wait(10)

        def is_named() -> bool:
            found = place.read("aliases/a") is not None
            names.set()
            promotion.result()
            return found

        taken = place.take_away("versions/1", is_named)
        names.set()
    assert (promotion.result(), taken) == (True, False)
    assert place.read(f"versions/1/{CLOSING}") is not None


def test_who_takes_away_is_waited_for(place: Bucket, tmp_path: Path) -> None:
    """A promotion during the look of one who takes the version away ends when that is given up."""
    adopt(place, tmp_path / "a", 1)
    looks, goes_on = threading.Event(), threading.Event()

    def is_named() -> bool:
        looks.set()
        return goes_on.wait(10)

    with ThreadPoolExecutor(2) as pool:
        removal = pool.submit(place.take_away, "versions/1", is_named)
        looks.wait(10)
        promotion = pool.submit(place.swap, "aliases/a", b"1", None, needs=f"versions/1/{CLOSING}")
        while not any(HELD in key for key in keys(place)):
            assert not promotion.done()
        goes_on.set()
    assert (removal.result(), promotion.result()) == (False, True)


@pytest.mark.parametrize("end", [KeyboardInterrupt, BusyError])
def test_who_fails_over_a_look_leaves_no_mark(
    place: Bucket, tmp_path: Path, end: type[BaseException]
) -> None:
    """A signal or an outage while it is asked whether a version may go leaves it as it was."""
    adopt(place, tmp_path / "a", 1)
    before = keys(place)

    def fails() -> bool:
        raise end("here")

    with pytest.raises(end):
        place.take_away("versions/1", fails)
    assert keys(place) == before


def test_the_dead_are_not_waited_for_long(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks of those who died hold others up for an hour, and are swept after it."""
    monkeypatch.setattr(bucket_module, "WAIT_SECONDS", 0.0)
    needs = f"versions/1/{CLOSING}"
    adopt(place, tmp_path / "a", 1)
    objects.put(place.address / f"versions/1/{GOING}dead", b"")
    registry = Registry(place.address)
    for told in (lambda: registry.promote(1), lambda: registry.refuse(1, "worse")):
        with pytest.raises(BusyError, match=r"by one who died over it .* counts for 60 minutes"):
            told()
    objects.put(place.address / f"versions/1/{HELD}dead", b"")
    assert not place.take_away("versions/1", lambda: False)
    place.sweep("versions")
    assert f"versions/1/{GOING}dead" in keys(place)
    monkeypatch.setattr(bucket_module, "PATIENCE_SECONDS", -1.0)
    assert place.swap("aliases/a", b"1", None, needs=needs)
    place.sweep("versions")
    assert [key for key in keys(place) if "dead" in key] == []
    assert place.take_away("versions/1", lambda: False)


def test_what_is_half_there_does_not_count(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version without what closes it is none, keeps its number, and goes after a day."""
    objects.put(place.address / f"versions/1/{CLAIM}", b"dead")
    objects.put(place.address / f"versions/1/{BASIS}", b"half")
    registry = Registry(place.address)
    assert registry.versions() == []
    assert not adopt(place, tmp_path / "a", 1)
    assert publish(registry) == 2
    place.sweep("versions")
    assert "1" in place.names("versions")
    monkeypatch.setattr(bucket_module, "LEFTOVER_SECONDS", -1.0)
    place.sweep("versions")
    assert place.names("versions") == ["2"]
    registry.promote(2)
    assert registry.opened().version == 2


def test_what_a_killed_one_began_to_take_away_goes(place: Bucket, tmp_path: Path) -> None:
    """A tree whose closing object is gone and that is marked as going is swept at once."""
    adopt(place, tmp_path / "a", 1)
    objects.put(place.address / f"versions/1/{GOING}dead", b"")
    objects.delete(place.address / f"versions/1/{CLOSING}")
    place.sweep("versions")
    assert keys(place) == []


class Died(BaseException):
    """As if the process had been killed."""


STEPS: dict[str, Callable[[Registry], Any]] = {
    "promote": lambda registry: registry.promote(3),
    "rollback": lambda registry: registry.rollback() if registry.resolve() == 2 else None,
    "refuse": lambda registry: registry.refuse(1, "worse"),
    "collect": lambda registry: collect(registry, NOW),
}


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_request(
    step: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each request in turn, a step leaves a whole champion, and the next call ends it."""
    opened, left = objects.opened, [10**6]

    def until_death(address: Address) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Died
        return opened(address)

    monkeypatch.setattr(objects, "opened", until_death)
    ends, done, n = None, False, 0
    while not done:
        left[0] = 10**6
        registry = Registry(Address.parse(bucket) / f"models/{n}")
        place = registry.place
        assert isinstance(place, Bucket)
        assert all(adopt(place, tmp_path / "a", version) for version in (1, 2, 3, 4))
        registry.promote(1)
        registry.promote(2)
        left[0] = n
        with suppress(Died):
            STEPS[step](registry)
            done = True
        left[0] = 10**6
        assert registry.resolve() in registry.versions()
        for version in registry.versions():
            assert place.read(f"versions/{version}/{BASIS}") == b"%d" % version
        STEPS[step](registry)
        end = registry.resolve(), registry.versions(), registry.refusal(registry.versions()[0])
        ends = ends or end
        assert end == ends, n
        n += 1
    assert n > 5


def test_a_basis_is_saved_to_an_address_once(bucket: str) -> None:
    """What was saved opens; what is there is never overwritten."""
    address = Address.parse(bucket) / "saved.zarr"
    save_basis(tagged(3), address)
    assert open_basis(address).trace == 3
    with pytest.raises(ConfigError, match="never overwritten"):
        save_basis(tagged(4), address)
    assert open_basis(address).trace == 3


def test_a_damaged_basis_in_a_bucket_is_refused(bucket: str) -> None:
    """A chunk that is another one's, though whole, is noticed when the basis is opened."""
    address = Address.parse(bucket) / "saved.zarr"
    save_basis(tagged(3), address)
    save_basis(tagged(4), address.parent / "other.zarr")
    other = objects.get(address.parent / "other.zarr/coefficients/c/0/0")
    assert other is not None
    objects.put(address / "coefficients/c/0/0", other.data)
    with pytest.raises(ValueError, match="array coefficients is missing or changed"):
        open_basis(address)


def test_a_store_that_fails_is_no_damage(
    bucket: str, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A basis whose store refuses every request is not told as damaged, but as one to try again."""
    address = Address.parse(bucket) / "saved.zarr"
    save_basis(tagged(3), address)
    basis = open_basis(address)
    monkeypatch.setattr(objects, "RETRIES", 1)
    objects.forget()
    again = open_basis(address)
    buckets.fail(failing=1)
    with pytest.raises(BusyError, match="try again later"):
        open_basis(address)
    with pytest.raises(BusyError, match="try again later"):
        again.coefficients.load()
    buckets.fail()
    objects.forget()
    assert basis.coefficients.load().shape == again.coefficients.load().shape
