"""What lies in an input that is in a bucket: its objects by listing, each told by its ETag and size.

An object is there whole or not at all; an array is many of them, which are told together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError
from kpca_stream.storage.deliveries import Delivery
from kpca_stream.storage.objects import Entry, head, tree
from kpca_stream.storage.source import ZARR_MARKS
from kpca_stream.storage.sources.folder import is_ignored
from kpca_stream.storage.sources.hdf5 import SEPARATOR


def objects(path: str, rows: str | None = None) -> list[Delivery]:
    """All that lies in the input, in order of names.

    Parameters
    ----------
    path : str
        One object or array; or what keys begin with, where objects of any kinds land. A slash at its end says
        that it is the latter, also where nothing has landed yet.
    rows : str, optional
        A slice, of one object or array only.

    Raises
    ------
    ConfigError
        If there is nothing, or rows are asked of many objects.
    """
    address, dataset = _parsed(path)
    one = _one(path, address)
    if one is not None:
        return [_delivery(address.name, address, dataset, rows, one)]
    if rows is not None:
        raise ConfigError(
            f"score.input.rows: got {rows!r} for many objects, expected it for one object or array; "
            "leave it out"
        )
    found = dict(_grouped(tree(address)))
    if not found and not path.endswith("/"):
        raise ConfigError(
            f"{path}: no such object and none below it, expected rows to score there; correct the address, "
            "or end it in / where objects are to land"
        )
    return [_delivery(name, address / name, dataset, None, found[name]) for name in sorted(found)]


def is_one_object(path: str) -> bool:
    """Whether an input is one object or array rather than what many begin with."""
    address, _ = _parsed(path)
    return _one(path, address) is not None


def _parsed(path: str) -> tuple[Address, str]:
    place, separator, dataset = path.partition(SEPARATOR)
    return Address.parse(place), separator + dataset


def _one(path: str, address: Address) -> list[Entry] | None:
    """The object of this very address, or those of the array there; None where it is neither."""
    if not path.endswith("/"):
        entry = head(address) if address.key else None
        if entry is not None:
            return [entry]
    if address.suffix.lower() == ".zarr" or any(head(address / mark) for mark in ZARR_MARKS):
        return list(tree(address)) or None
    return None


def _grouped(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Objects by themselves, and those of an array together; hidden and unfinished names are left out."""
    entries = list(entries)
    arrays = {str(PurePosixPath(e.key).parent) for e in entries if PurePosixPath(e.key).name in ZARR_MARKS}
    of_array: dict[str, list[Entry]] = {}
    for entry in entries:
        name = _name(PurePosixPath(entry.key), arrays)
        if name is not None:
            of_array.setdefault(name, []).append(entry)
    yield from of_array.items()


def _name(key: PurePosixPath, arrays: set[str]) -> str | None:
    """The key as far as the array that it lies in, or the whole; None where it is to be left alone."""
    for folder in (*reversed(key.parents[:-1]), key):
        if is_ignored(folder.name):
            return None
        if folder is not key and (folder.suffix.lower() == ".zarr" or str(folder) in arrays):
            return str(folder)
    return str(key)


def _delivery(name: str, address: Address, dataset: str, rows: str | None, entries: list[Entry]) -> Delivery:
    changed = max(entry.modified for entry in entries)
    size = entries[0].size if len(entries) == 1 else 0
    return Delivery(name, f"{address}{dataset}", rows, _stamp(entries), changed, size)


def _stamp(entries: list[Entry]) -> str:
    if len(entries) == 1:
        return f"{entries[0].size}:{entries[0].version.etag}"
    told = "\n".join(f"{entry.key}\t{entry.size}\t{entry.version.etag}" for entry in entries)
    return f"objects:{hashlib.blake2b(told.encode(), digest_size=16).hexdigest()}"
