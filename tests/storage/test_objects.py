"""Operations on objects in buckets, while the store answers, fails, stalls and loses its answers."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from buckets import SECRET, Buckets

from kpca_stream.addresses import Address, is_address, located
from kpca_stream.errors import BusyError, ConfigError
from kpca_stream.storage import objects
from kpca_stream.storage.located import zarr_store


@pytest.fixture
def root(bucket: str) -> Address:
    return Address.parse(bucket) / "a"


def test_an_address_is_read_and_written_alike() -> None:
    """What an address writes is what it was parsed from, and names below it join with a slash."""
    address = Address.parse("s3://bucket/models/")
    assert str(address / "digits/versions") == "s3://bucket/models/digits/versions"
    assert (address.name, address.parent, address.parent.name) == (
        "models",
        Address("s3", "bucket"),
        "bucket",
    )
    assert located("s3://bucket/x.npy") == Address("s3", "bucket", "x.npy")
    assert not is_address("sklearn:digits")
    assert not is_address("/data/s3://x")


@pytest.mark.parametrize("text", ["s3://", "s3:///key", "s3://b/a//b", "s3://b/../c", "s3://b_u$/x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """A bucket without a name, and keys that lead elsewhere, are refused."""
    with pytest.raises(ConfigError, match="expected"):
        Address.parse(text)


def test_a_password_in_an_address_is_refused_and_not_told() -> None:
    """An address with a name and a password is refused by a message that holds neither."""
    for text in ("s3://someone:hunter2@bucket/x", "s3://someone:hunter2/3@bucket/x", "s3://hunter2@bucket"):
        with pytest.raises(ConfigError, match="come from the environment") as caught:
            Address.parse(text)
        assert "hunter2" not in str(caught.value)
        assert "someone" not in str(caught.value)


def test_objects_are_put_read_listed_and_removed(root: Address) -> None:
    """What was put is there, and listed by name and by tree; what was removed is not."""
    assert objects.get(root / "x") is None
    assert objects.head(root / "x") is None
    objects.put(root / "x", b"123")
    objects.put(root / "y/z", b"4")
    found, entry = objects.get(root / "x"), objects.head(root / "x")
    assert found is not None
    assert entry is not None
    assert (found.data, entry.size, entry.version) == (b"123", 3, found.version)
    assert objects.get_range(root / "x", 1, 3) == b"23"
    assert objects.names(root) == ["x", "y"]
    assert [each.key for each in objects.tree(root)] == ["x", "y/z"]
    objects.delete(root / "x", root / "nothing")
    objects.delete_tree(root)
    assert not objects.exists(root)


def test_many_objects_are_listed_and_removed(root: Address) -> None:
    """More objects than a page of a listing holds are all listed, and removed at once."""
    for index in range(1100):
        objects.put(root / f"{index:04}", b"")
    assert len(list(objects.tree(root))) == len(objects.names(root)) == 1100
    objects.delete_tree(root)
    assert list(objects.tree(root)) == []


def test_to_ask_for_an_object_lists_no_folder(root: Address, buckets: Buckets) -> None:
    """That there is no object is known after one page of what lies below, of whatever number."""
    with ThreadPoolExecutor(4) as pool:
        deque(pool.map(lambda index: objects.put(root / f"inbox/{index}", b""), range(1001)), 0)
    buckets.fail()
    assert objects.head(root / "inbox") is None
    assert buckets.counts()["GET"] == 1


def test_a_missing_object_saves_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a store tells of an object that it was to remove and has not, all the others are removed."""
    store = pytest.importorskip("obstore.store").LocalStore(tmp_path)
    monkeypatch.setattr(objects, "opened", lambda _: store)
    root = Address("gs", "bucket", "a")
    keys = [root / f"{index:02}" for index in range(40)]
    for key in keys:
        objects.put(key, b"1")
    objects.delete(root / "missing", *keys[:30], root / "gone", *keys[30:])
    assert list(objects.tree(root)) == []


def test_a_put_needs_what_it_expects(root: Address) -> None:
    """A put under a condition is done where that holds, and changes nothing where it does not."""
    assert objects.put_if_absent(root, b"1")
    assert not objects.put_if_absent(root, b"2")
    first = objects.get(root)
    assert first is not None
    assert objects.put_if_match(root, b"3", first.version)
    assert not objects.put_if_match(root, b"4", first.version)
    assert not objects.put_if_match(root / "other", b"5", first.version)
    last = objects.get(root)
    assert last is not None
    assert last.data == b"3"


@pytest.mark.slow
def test_of_many_swaps_none_is_lost_where_answers_are(root: Address, buckets: Buckets) -> None:
    """Of four threads that each add ten marks all marks are there, though a fifth of the requests fail.

    A mark whose answer was lost, and on which another one was put meanwhile, is put once more.
    """
    objects.put(root, b"")
    buckets.fail(failing=0.1, lost=0.1, seed=3)

    def add(letter: bytes) -> None:
        done = 0
        while done < 10:
            found = objects.get(root)
            assert found is not None
            done += objects.put_if_match(root, found.data + letter + b"%d" % done, found.version)

    threads = [threading.Thread(target=add, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = buckets.counts()
    found = objects.get(root)
    assert found is not None
    marks = [found.data[at : at + 2] for at in range(0, len(found.data), 2)]
    for letter in (b"a", b"b", b"c", b"d"):
        own = [mark for mark in marks if mark.startswith(letter)]
        assert sorted(set(own)) == [letter + b"%d" % index for index in range(10)]
        assert own == sorted(own)
    assert 40 <= len(marks) <= 40 + counts["lost"]
    assert counts["failing"] > 3
    assert counts["lost"] > 3


def test_stalls_and_refusals_do_no_harm(root: Address, buckets: Buckets) -> None:
    """A store that refuses every third request and stalls some is written to and read from as any."""
    buckets.fail(failing=0.3, stalling=0.1, seed=1)
    for index in range(8):
        objects.put(root / str(index), b"%d" % index)
    assert [objects.get(root / name).data for name in objects.names(root)] == [b"%d" % i for i in range(8)]  # type: ignore[union-attr]
    assert buckets.counts()["failing"] > 2


def test_a_zarr_array_lies_in_a_bucket(root: Address) -> None:
    """An array is written and read through Zarr's store, which pickles without the secret."""
    store = zarr_store(root, read_only=False)
    array = zarr.create_array(store, name=root.key, shape=(10, 2), chunks=(4, 2), dtype="f8")
    array[:] = np.arange(20.0).reshape(10, 2)
    opened = zarr.open_array(zarr_store(root), path=root.key, mode="r")
    assert SECRET.encode() not in pickle.dumps(opened)
    again = pickle.loads(pickle.dumps(opened))  # noqa: S301
    assert np.array_equal(again[2:7], np.arange(20.0).reshape(10, 2)[2:7])


def test_a_bucket_that_is_not_there_is_named(buckets: Buckets) -> None:
    """Whatever is asked of a bucket that does not exist, the message names it, as a mistake to correct."""
    address = Address.parse("s3://no-such-bucket/x")
    for ask in (objects.get, objects.head, objects.names, lambda a: objects.put(a, b"1")):
        with pytest.raises(ConfigError, match="there is no bucket 'no-such-bucket'"):
            ask(address)
    with pytest.raises(ConfigError, match="there is no bucket"):
        objects.put_if_absent(address, b"1")
    assert buckets.counts()["failing"] == 0


def test_credentials_that_are_refused_are_told(root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong credentials are a mistake to correct, told on one line without them."""
    objects.forget()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    for ask in (objects.get, objects.head, objects.names):
        with pytest.raises(ConfigError, match="refuses the credentials") as caught:
            ask(root)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
    objects.forget()


def test_a_store_that_cannot_be_reached_may_be_later(root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, the same may succeed later."""
    objects.forget()
    monkeypatch.setattr(objects, "RETRIES", 2)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(BusyError, match="try again later") as caught:
        objects.get(root)
    assert "\n" not in str(caught.value)
    objects.forget()


def test_without_obstore_the_extra_is_named(root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where obstore is not installed, the message says what installs it."""
    objects.forget()
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ConfigError, match=r"pip install 'kpca-stream\[cloud\]'"):
        objects.get(root)
    objects.forget()
