"""What was scored: one small JSON file for each input file, written when its parts are whole.

::

    scores/_ledger/ledger.json    whose scores these are
    scores/_ledger/types.json     of the columns carried through, where there are some
    scores/_ledger/0f3a….json     one input file: its stamp, and the parts that hold its rows
    scores/_ledger/locks/0f       in a folder: who has the input files in hand whose keys begin so

An entry is what decides: it changes only from the one that was read, and its parts, which lie aside until
then, are shown once it is there. So of several scorers one enters a file, and whoever finds an entry whose
parts lie aside still ends what another one began. Readers of Parquet folders leave out what begins with an
underscore.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.intact import check_bytes, parsed_json
from kpca_stream.storage.lock import claimed
from kpca_stream.storage.place import Place
from kpca_stream.storage.whole import json_bytes

FORMAT_VERSION = 1
PREMISES = "ledger.json"
FOLDER = "_ledger"
_TYPES = "types.json"
_STRIPE = 2
MOST_ROWS = 2**60
PART_NAME = re.compile(r"[A-Za-z0-9-]+\.parquet")
READ_AHEAD = 1024


@dataclass(frozen=True, kw_only=True)
class ScoredPart:
    """Rows ``start`` to ``stop`` of an input file that were scored.

    Parameters
    ----------
    start, stop : int
    content : str
        Digest of these rows.
    file : str
        Name of the part that holds their scores.
    n_rows, n_novel : int
        Rows written (fewer than there are, where rows with missing values are dropped), and novel ones.
    version : int
        Of the model.
    fit : str
        What tells this version from one of the same number in another registry.
    """

    start: int
    stop: int
    content: str
    file: str
    n_rows: int
    n_novel: int
    version: int
    fit: str

    def __post_init__(self) -> None:
        """Refuse a name that leads out of the folder of the parts, and numbers that count nothing."""
        counts = (self.start, self.stop, self.n_rows, self.n_novel, self.version)
        if not all(type(count) is int and 0 <= count < MOST_ROWS for count in counts):
            raise ValueError(f"a part counts {counts}, expected numbers of rows")
        _check_names(self.file)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one input file: its parts, or the fault for which it was set aside."""

    name: str
    stamp: str
    fit: str
    """Of the model that looked into it last."""
    parts: tuple[ScoredPart, ...] = ()
    fault: str | None = None
    at: float = 0.0
    """When it was entered, in seconds since 1970."""
    aside: dict[str, str] = field(default_factory=dict)
    """Files of parts that may not be seen yet, and where these lie aside."""
    gone: tuple[str, ...] = ()
    """Files of the parts in whose place these are, which may be seen still."""
    stored: bytes | None = field(default=None, compare=False, repr=False)
    """As it was read; None where it was not."""

    def __post_init__(self) -> None:
        """Refuse names that lead out of the folders of the parts."""
        _check_names(*self.aside, *self.aside.values(), *self.gone)

    @property
    def n_rows(self) -> int:
        """Rows that lie in parts."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_novel(self) -> int:
        """Novel rows among these."""
        return sum(part.n_novel for part in self.parts)

    @property
    def is_settled(self) -> bool:
        """Whether all of its parts can be seen, and none besides."""
        return not self.aside and not self.gone

    def settled(self) -> Entry:
        """The same, once that is so."""
        return replace(self, aside={}, gone=())

    def without_lost(self) -> Entry:
        """The same without the parts that lay aside: it must be looked into again."""
        kept = tuple(part for part in self.parts if part.file not in self.aside)
        return replace(self.settled(), stamp="", parts=kept)


@dataclass(frozen=True)
class Ledger:
    """The ledger of one output.

    Parameters
    ----------
    place : Place
    name : str
        How messages call the output.
    locks : Path or None
        The folder of the claims; without, nobody has a file for himself, and who enters it first has done it.
    at_once : int
        Entries that are read at once.
    """

    place: Place
    name: str
    locks: Path | None = None
    at_once: int = 1

    def begin(self, premises: dict[str, Any]) -> None:
        """Begin the ledger if there is none.

        Raises
        ------
        ConfigError
            If what is there was scored on other premises.
        DataError
            If it is damaged.
        """
        asked = {"format_version": FORMAT_VERSION, **premises}
        stored = self.place.read(PREMISES)
        found = {} if stored is None else self._object(PREMISES, stored)
        unlike = [key for key, value in asked.items() if found.get(key) != value]
        if not unlike:
            return
        if found and any(entry.parts for entry in self.entries()):
            raise ConfigError(
                f"{self.name} holds scores with {unlike[0]} {found.get(unlike[0])!r}, got "
                f"{asked[unlike[0]]!r}; choose another score.output, or set it back"
            )
        if not self.place.swap(PREMISES, json_bytes(asked), stored):
            self.begin(premises)  # somebody else began it
        elif (types := self.place.read(_TYPES)) is not None:
            self.place.swap(_TYPES, json_bytes({}), types)  # they were those of other columns

    def read(self, name: str) -> Entry | None:
        """The entry of an input file; None if there is none."""
        key = _key(name)
        stored = self.place.read(key)
        return None if stored is None else self._entry(key, stored)

    def read_all(self, names: Iterable[str]) -> Iterator[Entry]:
        """The entries of some input files, of those that have one."""
        return self._read([_key(name) for name in names])

    def entries(self) -> Iterator[Entry]:
        """All entries, in no order that means anything."""
        keys = sorted(self.place.names(""))
        return self._read([key for key in keys if key.endswith(".json") and key not in {PREMISES, _TYPES}])

    def _read(self, keys: Sequence[str]) -> Iterator[Entry]:
        with ThreadPoolExecutor(self.at_once) as pool:
            for first in range(0, len(keys), READ_AHEAD):  # not all are in memory at once
                some = keys[first : first + READ_AHEAD]
                for key, stored in zip(some, pool.map(self.place.read, some), strict=True):
                    if stored is not None:
                        yield self._entry(key, stored)

    def write(self, entry: Entry, over: Entry | None) -> Entry | None:
        """Put `entry` in place of `over` (None: of nothing); None where another one is there meanwhile.

        Raises
        ------
        DataError
            If it would be too large to be read again.
        """
        key, expected, stored = _key(entry.name), None if over is None else over.stored, _bytes(entry)
        parts = f"{entry.name} is in {len(entry.parts):,} parts"
        remedy = f"{parts}: let it go on as another file, or raise score.input.part_rows"
        check_bytes(f"{self.name}/{FOLDER}/{key}", len(stored), remedy)
        is_there = self.place.swap(key, stored, expected)
        return replace(entry, stored=stored) if is_there else None

    def agreed(self, types: Mapping[str, str]) -> dict[str, str]:
        """The types of the columns carried through: those entered first, with `types` for what is new."""
        while True:
            stored = self.place.read(_TYPES)
            known = {} if stored is None else self._object(_TYPES, stored)
            if types.keys() <= known.keys():
                return known
            self.place.swap(_TYPES, json_bytes({**types, **known}), stored)

    @contextmanager
    def claimed(self, names: Iterable[str]) -> Iterator[frozenset[str]]:
        """Those of some input files that nobody else has in hand; nobody else gets them in the block.

        Another scorer that dies loses its claims.
        """
        if self.locks is None:
            yield frozenset(names)
            return
        places = {name: self.locks / _key(name)[:_STRIPE] for name in names}
        with claimed(places.values()) as free:
            yield frozenset(name for name, place in places.items() if place in free)

    def _entry(self, key: str, stored: bytes) -> Entry:
        values = self._object(key, stored)
        try:
            parts = tuple(ScoredPart(**part) for part in values.pop("parts"))
            gone = tuple(values.pop("gone", ()))
            return Entry(**values, parts=parts, gone=gone, stored=stored)
        except (TypeError, KeyError, ValueError) as error:
            raise self._damaged(key, error) from error

    def _object(self, key: str, stored: bytes) -> dict[str, Any]:
        try:
            return dict(parsed_json(stored))
        except (ValueError, TypeError) as error:
            raise self._damaged(key, error) from error

    def _damaged(self, key: str, error: Exception) -> DataError:
        return DataError(
            f"{self.name}/{FOLDER}/{key} is damaged ({error}); restore it from a copy, or remove it: what it "
            "names is scored again"
        )


def _check_names(*names: str) -> None:
    for name in names:
        if not PART_NAME.fullmatch(name):
            raise ValueError(f"a part is called {name!r}, expected the name of a file of scores")


def _bytes(entry: Entry) -> bytes:
    values = dataclasses.asdict(entry)
    del values["stored"]
    for name in ("aside", "gone"):  # seldom there
        if not values[name]:
            del values[name]
    return json_bytes(values)


def _key(name: str) -> str:
    digest = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=12).hexdigest()
    return f"{digest}.json"
