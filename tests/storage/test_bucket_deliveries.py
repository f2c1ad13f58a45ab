"""What a listing of a bucket tells of an input: which objects are one array, and which ones changed."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from zarr.storage import ObjectStore

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError
from kpca_stream.storage import objects
from kpca_stream.storage.inbox import arrived, is_single


@pytest.fixture
def root(bucket: str) -> Address:
    return Address.parse(f"{bucket}/in")


def put(root: Address, *keys: str, data: bytes = b"1") -> None:
    for key in keys:
        objects.put(root / key, data)


def grown(address: Address, n_rows: int) -> None:
    """A Zarr array of so many rows at `address`, which is made or gets longer."""
    store = ObjectStore(pytest.importorskip("obstore").store.from_url(str(address)))
    if objects.exists(address):
        array = zarr.open_array(store, mode="r+")
        array.resize((n_rows, 2))
    else:
        array = zarr.create_array(store, shape=(n_rows, 2), chunks=(4, 2), dtype="f8")
    array[:] = np.arange(2.0 * n_rows).reshape(n_rows, 2)


def test_objects_are_told_apart(root: Address) -> None:
    """Each object is one delivery, each array too; hidden and unfinished names are left alone."""
    put(
        root, "b.npy", "a.csv", "day/c.parquet", "_x.npy", ".y.npy", "z.npy.tmp", "_old/d.npy", "day/.e/f.npy"
    )
    put(root.parent / "inside", "other.npy")
    grown(root / "m.zarr", 6)
    grown(root / "day/plain", 3)
    found = arrived(f"{root}/")
    assert [delivery.name for delivery in found] == [
        "a.csv",
        "b.npy",
        "day/c.parquet",
        "day/plain",
        "m.zarr",
    ]
    assert [delivery.path for delivery in found][2] == f"{root}/day/c.parquet"
    assert all(delivery.changed > 1e9 for delivery in found)
    assert not is_single(f"{root}/")


def test_what_is_asked_for_by_its_name_is_one(root: Address) -> None:
    """An object and an array are inputs by themselves, of which rows may be asked."""
    put(root, "a.npy")
    grown(root / "plain", 6)
    for name in ("a.npy", "plain"):
        (found,) = arrived(f"{root}/{name}", "0:3")
        assert (found.name, found.path, found.rows) == (name, f"{root}/{name}", "0:3")
        assert is_single(f"{root}/{name}")
    (found,) = arrived(f"{root}/a.npy::group/rows")
    assert found.path == f"{root}/a.npy::group/rows"


def test_a_stamp_is_of_the_content(root: Address) -> None:
    """The same bytes put again are no change, others are; so it is with an array that grows."""
    put(root, "a.npy")
    grown(root / "m.zarr", 3)

    def stamps() -> list[str]:
        return [delivery.stamp for delivery in arrived(f"{root}/")]

    before = stamps()
    put(root, "a.npy")
    grown(root / "m.zarr", 3)
    assert stamps() == before
    put(root, "a.npy", data=b"2")
    grown(root / "m.zarr", 9)
    assert all(now != then for now, then in zip(stamps(), before, strict=True))


def test_nothing_is_there_yet(root: Address) -> None:
    """Where nothing is, the slash at the end says whether something is to land there."""
    assert arrived(f"{root}/") == []
    with pytest.raises(ConfigError, match=r"no such object and none below it, .* end it in /"):
        arrived(str(root))


def test_rows_are_of_one_object(root: Address) -> None:
    """A slice of rows is refused where there are many objects."""
    put(root, "a.npy", "b.npy")
    with pytest.raises(ConfigError, match=r"score\.input\.rows: got '0:3' for many objects"):
        arrived(str(root), "0:3")
