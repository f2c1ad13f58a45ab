"""The few operations that all that lies in buckets is made of, through obstore.

Credentials, endpoint and region come from the environment, as obstore reads them (``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, ``AWS_ALLOW_HTTP``, or
those of Google and Azure), never from a configuration. A request that fails in a way that passes is sent
again after a while that grows; an answer that was lost on its way does no harm. A signal ends at once what
reads; what changes something is not left under way, since marks and claims count on that.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.signals import interruptible
from kpca_stream.storage.outage import told_of

CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
RETRIES = 10
FIRST_WAIT = timedelta(milliseconds=200)
LONGEST_WAIT = timedelta(seconds=5)
GIVE_UP_AFTER = timedelta(seconds=120)
WRITER = "writer"
"""The name, among what is kept beside an object, of the put that made it."""
MOST_SMALL_BYTES = 2**26
"""Of what is read whole: a basis names its columns in one file."""
PART_BYTES = 8 * 2**20
PARTS_AT_ONCE = 4
"""What is sent or fetched at once of a large object."""


@dataclass(frozen=True)
class Version:
    """What tells one content of a key from another one: the ETag, and what Google counts instead."""

    etag: str | None
    number: str | None = None


@dataclass(frozen=True)
class Found:
    """An object's content, and which one it was."""

    data: bytes
    version: Version


@dataclass(frozen=True)
class Entry:
    """What is known of an object without reading it.

    Parameters
    ----------
    key : str
        Relative to the address that was asked about; of one object its name.
    size : int
        Bytes.
    modified : float
        By the store's clock, in seconds since 1970.
    version : Version
    """

    key: str
    size: int
    modified: float
    version: Version


@interruptible
def get(address: Address, *, most_bytes: int | None = MOST_SMALL_BYTES) -> Found | None:
    """The content at `address`, whole; None where there is none.

    Raises
    ------
    DataError
        If it has more than `most_bytes`.
    """
    obstore = _library(address)
    with suppress(FileNotFoundError), told_of(address):
        result = obstore.get(opened(address), address.key)
        meta = result.meta
        if most_bytes is not None and meta["size"] > most_bytes:
            raise DataError(
                f"{address}: got {meta['size']:,} bytes, expected a small file of at most "
                f"{most_bytes:,}; restore it from a copy, or remove it"
            )
        return Found(bytes(result.bytes()), Version(meta["e_tag"], meta["version"]))
    return None


@interruptible
def get_range(address: Address, start: int, stop: int, *, version: Version | None = None) -> bytes | None:
    """Bytes ``start`` to ``stop`` of an object; None where it is not there, or is not that `version`."""
    obstore = _library(address)
    options: dict[str, Any] = {"range": (start, stop)}
    if version is not None and version.etag is not None:
        options["if_match"] = version.etag
    with suppress(FileNotFoundError, obstore.exceptions.PreconditionError), told_of(address):
        return bytes(obstore.get(opened(address), address.key, options=options).bytes())
    return None


def put(address: Address, data: bytes | Path) -> None:
    """Make `data`, or the content of a file, what is at `address`, whole; sent in parts where it is large."""
    obstore = _library(address)
    with told_of(address):
        obstore.put(opened(address), address.key, data, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)


def put_if_absent(address: Address, data: bytes) -> bool:
    """Put `data` at `address` unless something is there.

    Returns
    -------
    bool
        Whether this call put it. False may also mean that it did, its answer was lost, and another one was
        put on top of it: look, and decide anew.
    """
    return _put_where(address, data, "create")


def put_if_match(address: Address, data: bytes, version: Version) -> bool:
    """Put `data` at `address` if its content is `version` still; returns as `put_if_absent` does."""
    known = {"e_tag": version.etag, "version": version.number}
    return _put_where(address, data, {name: value for name, value in known.items() if value is not None})


def copy(source: Address, target: Address) -> bool:
    """Make what is at `source` what is at `target`, within one bucket; False where nothing is at `source`."""
    obstore = _library(source)
    with told_of(source), suppress(FileNotFoundError):
        obstore.copy(opened(source), source.key, target.key)
        return True
    return False


@interruptible
def head(address: Address) -> Entry | None:
    """What is known of the object at `address`; None where there is none."""
    obstore = _library(address)
    with told_of(address):
        with suppress(FileNotFoundError):
            return _entry(obstore.head(opened(address), address.key), address.name)
        _next_of(iter(obstore.list(opened(address), address.key or None)))  # says where there is no bucket
    return None


def exists(address: Address) -> bool:
    """Whether an object is at `address`, or any below it."""
    return head(address) is not None or next(tree(address), None) is not None


@interruptible
def names(address: Address) -> list[str]:
    """Names of what lies right below `address`, objects and beginnings of keys, in order."""
    obstore = _library(address)
    with told_of(address):
        listed = obstore.list_with_delimiter(opened(address), address.key or None)
    found = {*listed["common_prefixes"], *(entry["path"] for entry in listed["objects"])}
    return sorted(path.rpartition("/")[2] for path in found - {address.key})  # a console's mark of a folder


def tree(address: Address) -> Iterator[Entry]:
    """All objects below `address`, at any depth, as they are listed."""
    obstore = _library(address)
    below = f"{address.key}/" if address.key else ""
    with told_of(address):
        batches = iter(obstore.list(opened(address), address.key or None))
        while batch := _next_of(batches):
            for meta in batch:
                if meta["path"] != address.key:
                    yield _entry(meta, meta["path"].removeprefix(below))


def delete(*addresses: Address) -> None:
    """Remove objects of one bucket; those that are not there are gone already."""
    if addresses:
        obstore, store = _library(addresses[0]), opened(addresses[0])
        keys = [address.key for address in addresses]
        with told_of(addresses[0]):
            try:
                obstore.delete(store, keys)
            except FileNotFoundError:  # tells of one that is not there, and leaves others
                for key in keys:
                    with suppress(FileNotFoundError):
                        obstore.delete(store, key)


def delete_tree(address: Address, first: Sequence[str] = (), last: Sequence[str] = ()) -> None:
    """Remove all objects below `address`: keys `first` before the others, keys `last` after them."""
    delete(*(address / key for key in first))
    keys = [entry.key for entry in tree(address)]
    delete(*(address / key for key in keys if key not in last))
    delete(*(address / key for key in last))


def opened(address: Address) -> Any:
    """The store of obstore's for the bucket of `address`, once in each process.

    Raises
    ------
    ConfigError
        If obstore is not installed, or the environment says what it does not understand.
    """
    return _opened(address.scheme, address.bucket, os.getpid())


@lru_cache(maxsize=8)
def _opened(scheme: str, bucket: str, process: int) -> Any:  # noqa: ARG001 - a fork opens its own
    address = Address(scheme, bucket)
    store = _library(address).store
    with told_of(address):
        return store.from_url(f"{scheme}://{bucket}", client_options=_client(), retry_config=_retries())


def forget() -> None:
    """Open stores anew from now on, with what the environment says then."""
    _opened.cache_clear()


def _library(address: Address) -> Any:
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise ConfigError(
            f"{address}: buckets need obstore, which is not installed; pip install 'kpca-stream[cloud]'"
        ) from error
    return obstore


def _client() -> Any:
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    if any(os.environ.get(name, "").lower() in ("true", "1") for name in ("AWS_ALLOW_HTTP", "ALLOW_HTTP")):
        options["allow_http"] = True  # obstore reads the environment only where it gets no options
    return options


def _retries() -> Any:
    backoff = {"init_backoff": FIRST_WAIT, "max_backoff": LONGEST_WAIT, "base": 2}
    return {"max_retries": RETRIES, "backoff": backoff, "retry_timeout": GIVE_UP_AFTER}


def _put_where(address: Address, data: bytes, mode: Any) -> bool:
    """Put with a mark of one's own, by which one's put is known again where its answer was lost."""
    obstore = _library(address)
    refused = obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError
    own = uuid.uuid4().hex
    with told_of(address):
        try:
            obstore.put(opened(address), address.key, data, mode=mode, attributes={WRITER: own})
        except refused:
            with suppress(FileNotFoundError):
                return bool(obstore.get(opened(address), address.key).attributes.get(WRITER) == own)
            return False
    return True


@interruptible
def _next_of(batches: Iterator[Any]) -> Any:
    return next(batches, None)


def _entry(meta: Any, key: str) -> Entry:
    version = Version(meta["e_tag"], meta["version"])
    return Entry(key, meta["size"], meta["last_modified"].timestamp(), version)
