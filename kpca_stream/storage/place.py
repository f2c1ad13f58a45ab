"""The few operations that a registry needs of the place it lies in.

A folder has them here. An object store has them too: keys below a prefix, a read, a put with
``If-None-Match``, a put with ``If-Match``; a tree of objects is there when the one that is written last is.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kpca_stream.storage import intact
from kpca_stream.storage.lock import locked
from kpca_stream.storage.whole import remove, remove_tree, sweep_leftovers, written_whole

WAIT_SECONDS = 20.0
REMOVED = ".removed-"


class Place(Protocol):
    """Where versions and aliases lie; keys are paths with slashes, relative to it."""

    def names(self, key: str) -> list[str]:
        """What lies right below `key`, in no order; hidden entries and links to elsewhere are left out."""

    def read(self, key: str) -> bytes | None:
        """The content at `key`; None where there is none, or a link to elsewhere."""

    def modified(self, key: str) -> float:
        """When `key` was written, in seconds since 1970; 0 where it is not there."""

    def swap(self, key: str, data: bytes, expected: bytes | None, *, needs: str | None = None) -> bool:
        """Write `key` whole if it holds `expected` (None: is not there) and the key `needs`, if any, is."""

    def making(self, key: str) -> AbstractContextManager[Path]:
        """A local folder to make in what is then adopted below `key`; none is left after the block."""

    def adopt(self, folder: Path, key: str) -> bool:
        """Make a whole folder the tree at `key`, unless something is there."""

    def take_away(self, key: str, unless: Callable[[], bool]) -> bool:
        """Remove the tree at `key`, unless `unless` says not to; no swap comes between the two.

        Readers see all of it or nothing.
        """

    def sweep(self, key: str) -> None:
        """Remove what is on its way out right below `key`, also of one that died meanwhile."""


@dataclass(frozen=True)
class Folder:
    """A folder as a `Place`: by renames, and by a lock to look and swap under, which a dead holder loses."""

    path: Path

    def names(self, key: str) -> list[str]:
        """See `Place`."""
        if self._leads_away(key):
            return []
        try:
            with os.scandir(self.path / key) as entries:
                return [entry.name for entry in entries if entry.name[0] != "." and not entry.is_symlink()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, key: str) -> bytes | None:
        """See `Place`."""
        path = self.path / key
        if self._leads_away(key) or not path.is_file():
            return None
        try:
            intact.check_size(path)
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified(self, key: str) -> float:
        """See `Place`."""
        try:
            return (self.path / key).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def swap(self, key: str, data: bytes, expected: bytes | None, *, needs: str | None = None) -> bool:
        """See `Place`."""
        path = self._parented(key)
        with locked(self.path, name=".swap", wait=WAIT_SECONDS):
            if self.read(key) != expected or not (self.path / (needs or "")).exists():
                return False
            with written_whole(path) as file:
                file.write(data)
        return True

    @contextmanager
    def making(self, key: str) -> Iterator[Path]:
        """See `Place`; what is made lies where it is adopted to, so that a rename will do."""
        folder = self.path / key
        partial = folder / f".{uuid.uuid4().hex}.partial"
        partial.mkdir(parents=True)
        sweep_leftovers(folder)
        try:
            yield partial
        finally:
            remove_tree(partial)

    def adopt(self, folder: Path, key: str) -> bool:
        """See `Place`."""
        target = self._parented(key)
        try:
            folder.rename(target)
        except OSError:
            if not target.exists():
                raise
            return False
        return True

    def take_away(self, key: str, unless: Callable[[], bool]) -> bool:
        """See `Place`."""
        path = self.path / key
        removed = path.with_name(f"{REMOVED}{path.name}-{uuid.uuid4().hex}.partial")
        with locked(self.path, name=".swap", wait=WAIT_SECONDS):
            if unless():
                return False
            with suppress(FileNotFoundError):  # another one took it
                path.rename(removed)
        self.sweep(key.rpartition("/")[0])
        return True

    def sweep(self, key: str) -> None:
        """See `Place`."""
        for path in (self.path / key).glob(f"{REMOVED}*"):
            with suppress(FileNotFoundError):  # another one sweeps too
                remove(path)

    def _leads_away(self, key: str) -> bool:
        """Whether a part of `key` is a link, which may lead anywhere."""
        path = self.path / key
        return any(part.is_symlink() for part in (path, *path.parents[: key.count("/")]))

    def _parented(self, key: str) -> Path:
        path = self.path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
