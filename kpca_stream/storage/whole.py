"""Files that are written whole or not at all, and failures to write that name the file."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

LEFTOVER_SECONDS = 86400.0


@contextmanager
def written_whole(path: Path, *, synced: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, which takes the name `path` when the block ends: written beside it and synced.

    If the block fails, what lay at `path` stays, and nothing is left of the new one. One that is not `synced`
    is on its way to the disk; a power failure may leave it cut, which a checksum must tell.

    Raises
    ------
    OSError
        With the name of the file, if there is no room or no permission.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with naming(path), partial.open("wb") as file:
            yield file
            file.flush()
            _send(file.fileno(), synced=synced)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _send(descriptor: int, *, synced: bool) -> None:
    if synced:
        os.fsync(descriptor)
    else:  # has the system begin to write, while the caller goes on computing
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an `OSError` of the block the name `path`, where it has none: a failed write tells only why."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: Path, value: Any, *, synced: bool = True) -> None:
    """Write a small JSON file whole or not at all; `synced` as for `written_whole`."""
    with written_whole(path, synced=synced) as file:
        file.write(json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """`value` as the content of a small JSON file."""
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def sweep_leftovers(folder: Path) -> None:
    """Remove what interrupted writes left in `folder`: hidden ``.partial`` entries untouched for a day."""
    for path in untouched(folder, ".*.partial"):
        with suppress(FileNotFoundError):  # another process sweeps too
            remove(path)


def untouched(folder: Path, pattern: str = "*") -> Iterator[Path]:
    """Entries of `folder` that nobody touched for a day."""
    for path in folder.glob(pattern):
        is_old = False
        with suppress(FileNotFoundError):  # another process removes them too
            is_old = time.time() - path.stat().st_mtime > LEFTOVER_SECONDS
        if is_old:
            yield path


def folder_size(folder: Path) -> int:
    """Bytes that the files of a folder hold; those that go meanwhile count nothing."""
    n_bytes = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                n_bytes += Path(path, name).lstat().st_size
    return n_bytes


def remove_tree(path: Path) -> None:
    """Remove a folder that may not be there."""
    if path.exists():
        shutil.rmtree(path)


def remove(path: Path) -> None:
    """Remove a folder or a file that may not be there."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)
