"""What lies in an input now: files that land in a folder, or one file or array, each told by a stamp.

Nothing is opened. The input is listed again for every look, since file systems on a network tell nobody what
arrives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kpca_stream.errors import ConfigError
from kpca_stream.storage.source import is_array_folder
from kpca_stream.storage.sources.folder import is_ignored
from kpca_stream.storage.sources.hdf5 import SEPARATOR

CLOCKS_APART = 60.0
"""Seconds by which the clock of a file server may be behind: files younger than that are looked at twice."""
_SKLEARN = "sklearn:"


@dataclass(frozen=True)
class Delivery:
    """One file or array that is scored by itself.

    Parameters
    ----------
    name : str
        Its path within the input: the same wherever the input lies.
    path : str
        What `open_source` takes.
    rows : str or None
        A slice of its rows.
    stamp : str
        Size and time of last change: another one means that it must be looked into.
    changed : float
        Time of last change, in seconds.
    size : int
        Bytes of a file; 0 for an array in a folder.
    """

    name: str
    path: str
    rows: str | None = None
    stamp: str = ""
    changed: float = 0.0
    size: int = 0


def deliveries(path: str, rows: str | None = None) -> list[Delivery]:
    """All that lies in the input, in order of names.

    Parameters
    ----------
    path : str
        A folder of files of any kinds, also in folders below it; or one file or array, as for `open_source`.
        Hidden and unfinished names (``.x``, ``_x``, ``x.tmp``, ``x.partial``, ``x.part``) are left out.
    rows : str, optional
        A slice, of one file or array only.

    Raises
    ------
    ConfigError
        If there is no such path, or rows are asked of a folder.
    """
    if path.startswith(_SKLEARN):
        return [Delivery(path.removeprefix(_SKLEARN), path, rows)]
    root, dataset = _root(path)
    if not root.exists():
        raise ConfigError(f"{path}: no such file or folder, expected rows to score there; correct the path")
    if is_one(path):
        return [_delivery(root.name, root, dataset, rows)]
    if rows is not None:
        raise ConfigError(
            f"score.input.rows: got {rows!r} for a folder, expected it for one file or array; leave it out"
        )
    return [_delivery(name, root / name, dataset, None) for name in sorted(_names(root, ""))]


def is_one(path: str) -> bool:
    """Whether an input is one file or array rather than a folder of files."""
    root, _ = _root(path)
    return not root.is_dir() or is_array_folder(root)


def _root(path: str) -> tuple[Path, str]:
    """The file or folder, and what chooses a dataset of it."""
    if os.path.lexists(path):
        return Path(path), ""
    place, separator, dataset = path.partition(SEPARATOR)
    return Path(place), separator + dataset


def _names(folder: Path, prefix: str, above: frozenset[str] = frozenset()) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that it lies in
        return
    with suppress(FileNotFoundError), os.scandir(folder) as entries:  # gone since it was listed
        for entry in entries:
            if is_ignored(entry.name):
                continue
            if _is_folder(entry) and not is_array_folder(Path(entry.path)):
                yield from _names(Path(entry.path), f"{prefix}{entry.name}/", above | {real})
            else:
                yield prefix + entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: opening it will say so
        return False


def _delivery(name: str, path: Path, dataset: str, rows: str | None) -> Delivery:
    try:
        stamp, changed, size = _stamp(path)
    except OSError as error:  # gone between listing and looking, or a dangling link: opening it will say so
        stamp, changed, size = f"unreadable:{error.errno}", time.time(), 0
    return Delivery(name, f"{path}{dataset}", rows, stamp, changed, size)


def _stamp(path: Path) -> tuple[str, float, int]:
    status = path.stat()
    if not path.is_dir():
        return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}", status.st_mtime, status.st_size
    # Zarr renames what it writes into place, which leaves the time in the folder.
    newest = max(place.stat().st_mtime_ns for place in _places(path))
    return f"folder:{newest}", newest / 1e9, 0


def _places(folder: Path) -> Iterator[Path]:
    for place, _, files in os.walk(folder):
        yield Path(place)
        yield from (Path(place, name) for name in files if name.startswith((".z", "zarr.json")))


@dataclass
class Settling:
    """Tells what is still being written: a stamp must stay the same for some seconds.

    Parameters
    ----------
    seconds : float
    """

    seconds: float
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all others."""
        self._seen = {name: self._seen[name] for name in names if name in self._seen}

    def is_settled(self, delivery: Delivery) -> bool:
        """Whether it was last changed long enough ago, by the clock or by what earlier looks saw."""
        now = time.monotonic()
        stamp, since = self._seen.get(delivery.name, ("", now))
        if stamp != delivery.stamp:
            self._seen[delivery.name] = (delivery.stamp, now)
            since = now
        if now - since >= self.seconds or time.time() - delivery.changed >= max(self.seconds, CLOCKS_APART):
            self._seen.pop(delivery.name, None)
            return True
        return False
