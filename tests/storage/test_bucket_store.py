"""Zarr's store over a bucket: what Zarr's own law of stores asks, and how a process ends that used it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from kpca_stream.addresses import Address
from kpca_stream.storage.bucket_store import BucketStore

ROOT = Path(__file__).resolve().parents[2]

TOLD_LATE = """
import asyncio, sys, threading, time
from kpca_stream.storage.located import open_group
from kpca_stream.addresses import Address

told = asyncio.BaseEventLoop.call_soon_threadsafe

def told_late(loop, *arguments, **keywords):
    handle = told(loop, *arguments, **keywords)
    if threading.current_thread() is not threading.main_thread():
        for _ in range(500):  # until the process has ended
            time.sleep(0.001)
    return handle

asyncio.BaseEventLoop.call_soon_threadsafe = told_late
assert open_group(Address.parse(sys.argv[1])).attrs["rows"] == 45
sys.exit(7)
"""


@pytest.fixture
def store(bucket: str) -> BucketStore:
    return BucketStore(Address.parse(bucket))


def test_a_process_that_ends_while_a_request_is_told_as_done_keeps_its_code(
    bucket: str, store: BucketStore
) -> None:
    """What tells of the last request may be slower than the end of the process: the exit code is its own."""
    zarr.create_group(store, path="group", attributes={"rows": 45})
    ended = subprocess.run(
        [sys.executable, "-c", TOLD_LATE, f"{bucket}/group"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (7, "")


def test_parts_of_an_object_are_those_of_its_bytes(store: BucketStore) -> None:
    """A range, all from an offset on, the last bytes, more than there are; None of what is not there."""
    prototype = default_buffer_prototype()
    sync(store.set("a/b", prototype.buffer.from_bytes(b"0123456789")))
    parts = {
        b"0123456789": (None, SuffixByteRequest(20)),
        b"234": (RangeByteRequest(2, 5),),
        b"789": (OffsetByteRequest(7), SuffixByteRequest(3)),
    }
    wanted = [(expected, part) for expected, some in parts.items() for part in some]
    found = sync(store.get_partial_values(prototype, [("a/b", part) for _, part in wanted]))
    assert [None if one is None else one.to_bytes() for one in found] == [expected for expected, _ in wanted]
    assert [sync(store.get("a/c", prototype, part)) for _, part in wanted] == [None] * len(wanted)


def test_keys_are_listed_removed_and_put_once(store: BucketStore) -> None:
    """What lies below a prefix, names right below it, and a second value that changes nothing."""
    prototype = default_buffer_prototype()
    first, second = (prototype.buffer.from_bytes(data) for data in (b"first", b"second"))
    for key in ("a/b", "a/c/d", "ab/e"):
        sync(store.set_if_not_exists(key, first))
        sync(store.set_if_not_exists(key, second))
    assert (found := sync(store.get("a/b", prototype))) is not None
    assert found.to_bytes() == b"first"
    assert sorted(sync(_all_of(store.list()))) == ["a/b", "a/c/d", "ab/e"]
    assert sorted(sync(_all_of(store.list_prefix("a/")))) == ["a/b", "a/c/d"]
    assert sync(_all_of(store.list_dir("a"))) == ["b", "c"]
    sync(store.delete_dir("a"))
    sync(store.delete("never/there"))
    assert sync(_all_of(store.list())) == ["ab/e"]


def test_a_store_to_be_read_is_not_written_to(store: BucketStore) -> None:
    """Nothing is put or removed through it."""
    read_only = store.with_read_only(read_only=True)
    value = default_buffer_prototype().buffer.from_bytes(b"0")
    for writing in (
        read_only.set("a", value),
        read_only.set_if_not_exists("a", value),
        read_only.delete("a"),
    ):
        with pytest.raises(ValueError, match="read-only"):
            sync(writing)
    assert not sync(store.exists("a"))
    assert read_only != store


async def _all_of(keys) -> list[str]:  # noqa: ANN001 - Zarr's iterators
    return [key async for key in keys]
