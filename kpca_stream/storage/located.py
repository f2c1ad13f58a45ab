"""What reads and writes small things alike where they lie in a folder and where they lie in a bucket."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import zarr
from zarr.abc.store import Store

from kpca_stream.addresses import Address, Location
from kpca_stream.storage import objects
from kpca_stream.storage.whole import folder_size, json_bytes, write_json

REQUESTS_AT_ONCE = 16


def is_there(place: Location) -> bool:
    """Whether something is at `place`."""
    return objects.exists(place) if isinstance(place, Address) else place.exists()


def is_folder(place: Location) -> bool:
    """Whether something is below `place`."""
    return bool(objects.names(place)) if isinstance(place, Address) else place.is_dir()


def is_file(place: Location) -> bool:
    """Whether a file, or an object, is at `place`."""
    return objects.head(place) is not None if isinstance(place, Address) else place.is_file()


def names_in(place: Location) -> list[str]:
    """Names of what lies right below `place`, in any order."""
    if isinstance(place, Address):
        return objects.names(place)
    return [entry.name for entry in place.iterdir()]


def stamp_of(place: Location) -> str:
    """What changes when the file at `place` does."""
    if isinstance(place, Path):
        return str(place.stat().st_mtime_ns)
    entry = objects.head(place)
    if entry is None:
        raise FileNotFoundError(str(place))
    return f"{entry.version.etag}:{entry.version.number}"


def written_at(place: Location) -> float:
    """When the file at `place` was written, in seconds since 1970; 0 where it is gone."""
    if isinstance(place, Path):
        return place.stat().st_mtime_ns / 1e9
    entry = objects.head(place)
    return 0.0 if entry is None else entry.modified


def size_of(place: Location) -> int:
    """Bytes of all that lies below `place`."""
    if isinstance(place, Path):
        return folder_size(place)
    return sum(entry.size for entry in objects.tree(place))


def content_of(place: Location) -> bytes:
    """The small file at `place`.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    if isinstance(place, Path):
        return place.read_bytes()
    found = objects.get(place)
    if found is None:
        raise FileNotFoundError(str(place))
    return found.data


def tell(place: Location, value: object) -> None:
    """Write a small JSON file at `place`, whole, which need not outlast a power failure."""
    if isinstance(place, Path):
        write_json(place, value, synced=False)
    else:
        objects.put(place, json_bytes(value))


def ends_of_files(place: Location, n_bytes: int) -> bytes:
    """The last bytes of each file below `place`, in the order of their paths, one after the other."""
    if isinstance(place, Path):
        files = sorted(file for file in place.rglob("*") if file.is_file())
        return b"".join(_end_of(file, n_bytes) for file in files)
    return b"".join(_ends_of_objects(place, n_bytes))


def open_group(place: Location) -> zarr.Group:
    """The Zarr group at `place`, to be read."""
    if isinstance(place, Path):
        return zarr.open_group(place, mode="r", use_consolidated=False)
    return zarr.open_group(zarr_store(place), path=place.key, mode="r", use_consolidated=False)


def open_node(place: Location) -> zarr.Array[Any] | zarr.Group:
    """The Zarr array or group at `place`, to be read."""
    if isinstance(place, Path):
        return zarr.open(place, mode="r")
    return zarr.open(zarr_store(place), path=place.key, mode="r")


def zarr_store(address: Address, *, read_only: bool = True) -> Store:
    """The bucket of `address` as a store of Zarr's; what lies there has ``address.key`` as its path."""
    from kpca_stream.storage.bucket_store import BucketStore  # obstore is not always installed

    return BucketStore(address, read_only=read_only)


def address_of(store: Store) -> Address | None:
    """The bucket that a store of Zarr's is, where it is one of this package's."""
    address = getattr(store, "address", None)
    return address if isinstance(address, Address) else None


def _end_of(file: Path, n_bytes: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - n_bytes))
        return opened.read()


def _ends_of_objects(place: Address, n_bytes: int) -> Iterable[bytes]:
    entries = sorted(objects.tree(place), key=lambda entry: PurePosixPath(entry.key))
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        yield from pool.map(lambda entry: _end_of_object(place, entry, n_bytes), entries)


def _end_of_object(place: Address, entry: objects.Entry, n_bytes: int) -> bytes:
    start = max(0, entry.size - n_bytes)
    return objects.get_range(place / entry.key, start, entry.size) or b""
