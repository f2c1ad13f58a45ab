"""Where scores lie: parts that everybody sees, parts that lie aside until they are entered, the ledger.

::

    scores/file-v1-0f3a….parquet    a part
    scores/_staged/…                parts that are not entered yet
    scores/_ledger/…                see `ledger`
    scores/_status.json             how a scorer that follows is getting on

A folder has this here, and `bucket_shelf` has it for an object store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from kpca_stream.addresses import Location
from kpca_stream.storage.ledger import FOLDER, Entry, Ledger
from kpca_stream.storage.place import Folder
from kpca_stream.storage.scores import Label, Target, label_of
from kpca_stream.storage.scores_zarr import ZarrScores
from kpca_stream.storage.whole import remove, sweep_leftovers, untouched, written_whole

STAGED = "_staged"
STATUS = "_status.json"


class Shelf(Protocol):
    """Where the scores of one output lie."""

    @property
    def address(self) -> str:
        """How users call it."""

    @property
    def ledger(self) -> Ledger:
        """What was scored."""

    @property
    def mark(self) -> str:
        """Of this scorer, in the names of what it lays aside, where another may write beside it."""

    def check(self, n_components: int) -> None:
        """Refuse to add scores of so many components, where those that are there have others beside them."""

    def target(self, name: str) -> Target:
        """Where a part of this name is laid aside."""

    def show(self, entry: Entry) -> bool:
        """Let the parts of an entry that lie aside be seen, and remove those in whose place they are.

        Doing it again changes nothing. False where one of them is lost.
        """

    def discard(self, names: Iterable[str]) -> None:
        """Remove what was laid aside."""

    def shown(self) -> Iterator[str]:
        """Files of parts that everybody sees, and of others."""

    def label(self, file: str) -> Label | None:
        """Whose scores a file holds; None where it holds none of this package's, or is too young to tell."""

    def remove(self, file: str) -> None:
        """Remove a part."""

    @property
    def status(self) -> Location:
        """Where a scorer that follows tells how it is getting on."""

    def sweep(self) -> None:
        """Remove what was laid aside and nobody touched for a day."""


def settle(shelf: Shelf, entry: Entry) -> Entry:
    """End what whoever wrote `entry` began: all of its parts can be seen, and none besides.

    Of several that do so at once none does harm. Where a part is lost, all that came with it go, to be scored
    again: the entry as it ended, which is returned, lacks them.
    """
    if entry.is_settled:
        return entry
    is_whole = shelf.show(entry)
    shelf.discard(entry.aside.values())
    ended = entry.settled() if is_whole else entry.without_lost()
    is_ended = shelf.ledger.write(ended, over=entry) is not None
    for file in entry.aside if is_ended and not is_whole else ():
        shelf.remove(file)
    return ended


@dataclass(frozen=True)
class FileTarget:
    """A file of a folder."""

    path: Path

    @property
    def name(self) -> str:
        """See `Target`."""
        return self.path.name

    def written(self) -> AbstractContextManager[BinaryIO]:
        """See `Target`."""
        return written_whole(self.path)


@dataclass(frozen=True)
class FolderShelf:
    """A folder as a `Shelf`: by renames; or, with `zarr`, a Zarr group that parts are put into."""

    path: Path
    zarr: ZarrScores | None = None

    @classmethod
    def of(cls, path: Path, *, is_zarr: bool) -> FolderShelf:
        """The folder at `path`, which is made."""
        for name in (f"{FOLDER}/locks", STAGED):
            (path / name).mkdir(parents=True, exist_ok=True)
        return cls(path, ZarrScores(path / "scores.zarr") if is_zarr else None)

    @property
    def address(self) -> str:
        """See `Shelf`."""
        return str(self.path)

    @property
    def ledger(self) -> Ledger:
        """See `Shelf`."""
        return Ledger(Folder(self.path / FOLDER), self.address, self.path / FOLDER / "locks")

    @property
    def mark(self) -> str:
        """See `Shelf`: nobody else has the same file in hand."""
        return ""

    def check(self, n_components: int) -> None:
        """See `Shelf`: arrays of one shape hold the scores of all rows."""
        if self.zarr is not None:
            self.zarr.check(n_components)

    def target(self, name: str) -> Target:
        """See `Shelf`."""
        return FileTarget(self.path / STAGED / name)

    def show(self, entry: Entry) -> bool:
        """See `Shelf`."""
        found = self._named(entry) if self.zarr is None else self._put(entry, self.zarr)
        for file in entry.gone:
            self.remove(file)
        return found

    def _named(self, entry: Entry) -> bool:
        is_whole = True
        for file, name in entry.aside.items():
            try:
                (self.path / STAGED / name).replace(self.path / file)
            except FileNotFoundError:  # shown before
                is_whole &= (self.path / file).exists()
        return is_whole

    def _put(self, entry: Entry, rows: ZarrScores) -> bool:
        parts = [part for part in entry.parts if part.file in entry.aside]
        if not all((self.path / STAGED / name).exists() for name in entry.aside.values()):
            return False
        if entry.gone or (parts and parts[0].start == 0):
            rows.clear()
        for part in parts:
            rows.put(self.path / STAGED / entry.aside[part.file], part.start, part.stop)
        return True

    def discard(self, names: Iterable[str]) -> None:
        """See `Shelf`."""
        for name in names:
            (self.path / STAGED / name).unlink(missing_ok=True)

    def shown(self) -> Iterator[str]:
        """See `Shelf`."""
        return (path.name for path in self.path.glob("*.parquet"))

    def label(self, file: str) -> Label | None:
        """See `Shelf`."""
        return label_of(self.path / file)

    def remove(self, file: str) -> None:
        """See `Shelf`."""
        (self.path / file).unlink(missing_ok=True)

    @property
    def status(self) -> Location:
        """See `Shelf`."""
        return self.path / STATUS

    def sweep(self) -> None:
        """See `Shelf`; of a file that somebody has in hand nothing goes, however long it takes."""
        sweep_leftovers(self.path)
        for path in untouched(self.path / STAGED):
            label = label_of(path)
            with self.ledger.claimed([] if label is None else [label.source]) as free:
                if free or label is None:
                    remove(path)
