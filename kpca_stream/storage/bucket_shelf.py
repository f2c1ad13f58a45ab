"""A bucket as a shelf of scores: puts, copies within the bucket, and entries that are swapped by their ETag.

There are no locks: of several scorers each may score the same file, and the one whose entry comes first has
done it. Parts lie aside under names that nobody else takes, and get names that tell their rows and what was
there before, so that whoever shows them shows the same, and whoever removes them removes no later ones.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from kpca_stream.addresses import Address, Location
from kpca_stream.errors import DataError
from kpca_stream.storage.bucket import Bucket
from kpca_stream.storage.ledger import FOLDER, Entry, Ledger
from kpca_stream.storage.object_stamp import ObjectStamp
from kpca_stream.storage.objects import (
    copy,
    delete,
    head,
    names,
    put,
    tree,
)
from kpca_stream.storage.scores import Label, Target, label_of
from kpca_stream.storage.shelf import STAGED, STATUS
from kpca_stream.storage.whole import LEFTOVER_SECONDS

AT_ONCE = 16
"""Requests under way, where many are independent."""


@dataclass(frozen=True)
class ObjectTarget:
    """An object: written to a temporary file, which is put when it is whole."""

    address: Address

    @property
    def name(self) -> str:
        """See `Target`."""
        return self.address.name

    @contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """See `Target`."""
        with tempfile.NamedTemporaryFile(prefix="kpca-stream-") as file:
            yield file  # type: ignore[misc]
            file.flush()
            put(self.address, Path(file.name))


@dataclass(frozen=True)
class BucketShelf:
    """What lies below an address, as a `Shelf`."""

    root: Address
    mark: str = field(default_factory=lambda: f"{uuid.uuid4().hex[:12]}-")

    @property
    def address(self) -> str:
        """See `Shelf`."""
        return str(self.root)

    @property
    def ledger(self) -> Ledger:
        """See `Shelf`."""
        return Ledger(Bucket(self.root / FOLDER), self.address, at_once=AT_ONCE)

    def check(self, n_components: int) -> None:
        """See `Shelf`: each part has columns of its own."""

    def target(self, name: str) -> Target:
        """See `Shelf`."""
        return ObjectTarget(self._aside(name))

    def show(self, entry: Entry) -> bool:
        """See `Shelf`."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            is_whole = all(pool.map(self._shown, entry.aside, entry.aside.values()))
        delete(*(self.root / file for file in entry.gone))  # names that never come again
        return is_whole

    def _shown(self, file: str, name: str) -> bool:
        return copy(self._aside(name), self.root / file) or head(self.root / file) is not None

    def discard(self, names: Iterable[str]) -> None:
        """See `Shelf`."""
        delete(*(self._aside(name) for name in names))

    def shown(self) -> Iterator[str]:
        """See `Shelf`."""
        return (name for name in names(self.root) if name.endswith(".parquet") and name[0] not in "._")

    def label(self, file: str) -> Label | None:
        """See `Shelf`: without locks only what is a day old is surely nobody's."""
        known = head(self.root / file)
        if known is None or time.time() - known.modified < LEFTOVER_SECONDS:
            return None
        try:
            return label_of(ObjectStamp(file, self.root / file, known.size, known.version).open())
        except DataError:  # somebody else removed it
            return None

    def remove(self, file: str) -> None:
        """See `Shelf`."""
        delete(self.root / file)

    @property
    def status(self) -> Location:
        """See `Shelf`."""
        return self.root / STATUS

    def sweep(self) -> None:
        """See `Shelf`."""
        old = (e.key for e in tree(self.root / STAGED) if time.time() - e.modified > LEFTOVER_SECONDS)
        self.discard(old)

    def _aside(self, name: str) -> Address:
        return self.root / STAGED / name
