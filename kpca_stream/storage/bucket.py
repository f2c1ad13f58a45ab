"""A bucket as a `Place`: no renames and no locks, but puts under conditions.

::

    versions/7/.claim            who makes this version: put where nothing was
    versions/7/basis.zarr/...    put one by one
    versions/7/manifest.json     put last: a version without it does not count
    versions/7/.held-UUID        somebody lets an alias name it at the moment
    versions/7/.going-UUID       somebody takes it away, or asks whether that may be

Who swaps says so first and then looks whether anything is going; who takes away says so first and then looks
what is held. A store of objects shows to everybody what was put, so that at least one of the two sees the
other: who takes away gives way, who swaps waits for the end of it. The marks of those who died meanwhile
count for no longer than `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kpca_stream.addresses import Address
from kpca_stream.errors import BusyError
from kpca_stream.storage import objects
from kpca_stream.storage.objects import Entry
from kpca_stream.storage.place import WAIT_SECONDS
from kpca_stream.storage.whole import LEFTOVER_SECONDS

CLAIM, HELD, GOING, PROBE = ".claim", ".held-", ".going-", ".now-"
CLOSING = "manifest.json"
"""What is put last, and removed first."""
SENT_AT_ONCE = 4
PATIENCE_SECONDS = 3600.0
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Bucket:
    """What lies below an address as a `Place`."""

    address: Address

    def names(self, key: str) -> list[str]:
        """See `Place`."""
        return [name for name in objects.names(self.address / key) if name[0] != "."]

    def read(self, key: str) -> bytes | None:
        """See `Place`."""
        found = objects.get(self.address / key)
        return None if found is None else found.data

    def modified(self, key: str) -> float:
        """See `Place`."""
        entry = objects.head(self.address / key)
        return 0.0 if entry is None else entry.modified

    def swap(self, key: str, data: bytes, expected: bytes | None, *, needs: str | None = None) -> bool:
        """See `Place`."""
        if needs is None:
            return self._swapped(key, data, expected)
        tree = self.address / needs.rpartition("/")[0]
        with _marking(tree, HELD) as held:
            _await_those_who_take_away(tree, held)
            if objects.head(self.address / needs) is None:
                return False
            return self._swapped(key, data, expected)

    @contextmanager
    def making(self, key: str) -> Iterator[Path]:  # noqa: ARG002 - made elsewhere
        """See `Place`; what is made lies in a local temporary folder until it is sent."""
        with tempfile.TemporaryDirectory(prefix="kpca-stream-") as folder:
            yield Path(folder)

    def adopt(self, folder: Path, key: str) -> bool:
        """See `Place`; what `CLOSING` names is put last."""
        return send(folder, self.address / key, closing=CLOSING)

    def take_away(self, key: str, unless: Callable[[], bool]) -> bool:
        """See `Place`."""
        tree = self.address / key
        with _marking(tree, GOING) as going:
            # Marks first: whose mark is gone again has swapped what `unless` looks at.
            if _is_marked(tree, HELD, going) or unless():
                return False
            objects.delete(tree)
            objects.delete_tree(tree, first=[CLOSING], last=[going.name])
        return True

    def sweep(self, key: str) -> None:
        """See `Place`; marks of those that died go, too."""
        for name in objects.names(self.address / key):
            tree = self.address / key / name
            entries = {entry.key: entry for entry in objects.tree(tree)}
            if CLOSING in entries and not any(map(_is_mark, entries)):
                continue
            now = self._now(tree)
            if CLOSING in entries:
                old = (key for key, entry in entries.items() if now - entry.modified > PATIENCE_SECONDS)
                objects.delete(*(tree / key for key in old if _is_mark(key)))
            elif _is_gone(entries, now):
                objects.delete_tree(tree, last=[CLAIM])

    def _swapped(self, key: str, data: bytes, expected: bytes | None) -> bool:
        address = self.address / key
        if expected is None:
            return objects.put_if_absent(address, data)
        found = objects.get(address)
        if found is None or found.data != expected:
            return False
        return objects.put_if_match(address, data, found.version)

    def _now(self, tree: Address) -> float:
        """By the store's clock."""
        probe = tree / f"{PROBE}{uuid.uuid4().hex}"
        objects.put(probe, b"")
        entry = objects.head(probe)
        objects.delete(probe)
        return 0.0 if entry is None else entry.modified


def send(folder: Path, tree: Address, *, closing: str) -> bool:
    """Put all files of `folder` below the address `tree`, the one named `closing` last.

    Returns
    -------
    bool
        Whether it is there: False where somebody has put, or claimed, something there.
    """
    own = uuid.uuid4().hex.encode()
    if objects.head(tree / closing) is not None or not objects.put_if_absent(tree / CLAIM, own):
        return False
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / closing]
    with ThreadPoolExecutor(SENT_AT_ONCE) as pool:
        for _ in pool.map(lambda path: objects.put(tree / path.relative_to(folder).as_posix(), path), files):
            pass
    claim = objects.get(tree / CLAIM)  # which a sweep of a day later may have taken
    if claim is None or claim.data != own:
        return False
    return objects.put_if_absent(tree / closing, (folder / closing).read_bytes())


@contextmanager
def _marking(tree: Address, kind: str) -> Iterator[Address]:
    """One's own mark of a `kind` in a tree, for as long as the block lasts, however it ends."""
    mark = tree / f"{kind}{uuid.uuid4().hex}"
    try:
        objects.put(mark, b"")
        yield mark
    finally:
        objects.delete(mark)


def _await_those_who_take_away(tree: Address, own: Address) -> None:
    """Wait for who takes the tree away: he sees one's `own` mark and gives way, or is soon done."""
    end = time.monotonic() + WAIT_SECONDS
    while _is_marked(tree, GOING, own):
        if time.monotonic() >= end:
            raise BusyError(
                f"{tree} is being taken away by somebody else, or by one who died over it and left "
                f"{GOING}...; try again: that counts for {PATIENCE_SECONDS / 60:.0f} minutes"
            )
        time.sleep(POLL_SECONDS)


def _is_marked(tree: Address, kind: str, own: Address) -> bool:
    """Whether somebody's mark of a `kind` lies beside one's `own`, and is no older than it may be."""
    entries = {entry.key: entry for entry in objects.tree(tree) if _is_mark(entry.key)}
    now = entries[own.name].modified if own.name in entries else 0.0
    others = (entry for key, entry in entries.items() if key.startswith(kind) and key != own.name)
    return any(now - entry.modified <= PATIENCE_SECONDS for entry in others)


def _is_mark(key: str) -> bool:
    return key.startswith((HELD, GOING, PROBE))


def _is_gone(entries: dict[str, Entry], now: float) -> bool:
    """Whether a tree without what closes it is on its way out, or was left half made a day ago."""
    if any(key.startswith(GOING) for key in entries):
        return True
    return bool(entries) and now - max(entry.modified for entry in entries.values()) > LEFTOVER_SECONDS
