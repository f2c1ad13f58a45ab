"""What was scored: one small JSON file for each input file, written when its parts have their names.

::

    scores/_ledger/ledger.json    whose scores these are
    scores/_ledger/types.json     of the columns carried through, where there are some
    scores/_ledger/0f3a….json     one input file: its stamp, and the parts that hold its rows
    scores/_ledger/locks/0f       who has the input files in hand whose keys begin so

Readers of Parquet folders leave out what begins with an underscore.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage import intact
from kpca_stream.storage.lock import claimed, locked
from kpca_stream.storage.whole import write_json

FORMAT_VERSION = 1
_FOLDER = "_ledger"
_TYPES = "types.json"
_WAIT_SECONDS = 20.0
_STRIPE = 2
MOST_ROWS = 2**60
PART_NAME = re.compile(r"[A-Za-z0-9-]+\.parquet")


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
        if not PART_NAME.fullmatch(self.file):
            raise ValueError(f"a part is called {self.file!r}, expected the name of a file of scores")


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

    @property
    def n_rows(self) -> int:
        """Rows that lie in parts."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_novel(self) -> int:
        """Novel rows among these."""
        return sum(part.n_novel for part in self.parts)


@dataclass(frozen=True)
class Ledger:
    """The ledger of one folder of scores."""

    folder: Path

    @classmethod
    def of(cls, output: Path, premises: dict[str, Any]) -> Ledger:
        """The ledger of the scores in `output`, which is begun if there is none.

        Raises
        ------
        ConfigError
            If what is there was scored on other premises.
        DataError
            If it is damaged.
        """
        ledger = cls(output / _FOLDER)
        (ledger.folder / "locks").mkdir(parents=True, exist_ok=True)
        path = ledger.folder / "ledger.json"
        asked = {"format_version": FORMAT_VERSION, **premises}
        found = _read_json(path) if path.exists() else {}
        unlike = [key for key, value in asked.items() if found.get(key) != value]
        if not found:
            write_json(path, asked)
        elif unlike and not any(entry.parts for entry in ledger.entries()):
            (ledger.folder / _TYPES).unlink(missing_ok=True)
            write_json(path, asked)
        elif unlike:
            raise ConfigError(
                f"{output} holds scores with {unlike[0]} {found.get(unlike[0])!r}, got {asked[unlike[0]]!r}; "
                "choose another score.output, or set it back"
            )
        return ledger

    def read(self, name: str) -> Entry | None:
        """The entry of an input file; None if there is none."""
        path = self._path(name)
        return _entry(path) if path.exists() else None

    def entries(self) -> Iterator[Entry]:
        """All entries, in no order that means anything."""
        for path in sorted(self.folder.glob("*.json")):
            if path.name not in {"ledger.json", _TYPES}:
                yield _entry(path)

    def write(self, entry: Entry) -> None:
        """Put `entry` in place of the one of its name."""
        write_json(self._path(entry.name), dataclasses.asdict(entry))

    def agreed(self, types: Mapping[str, str]) -> dict[str, str]:
        """The types of the columns carried through: those entered first, with `types` for what is new."""
        path = self.folder / _TYPES
        known = _read_json(path) if path.exists() else {}
        if types.keys() <= known.keys():
            return known
        with locked(self.folder, name="locks/types", wait=_WAIT_SECONDS):
            known = {**types, **(_read_json(path) if path.exists() else {})}
            write_json(path, known)
        return known

    @contextmanager
    def claimed(self, names: Iterable[str]) -> Iterator[frozenset[str]]:
        """Those of some input files that nobody else has in hand; nobody else gets them in the block.

        Another scorer that dies loses its claims.
        """
        places = {name: self.folder / "locks" / _key(name)[:_STRIPE] for name in names}
        with claimed(places.values()) as free:
            yield frozenset(name for name, place in places.items() if place in free)

    def _path(self, name: str) -> Path:
        return self.folder / f"{_key(name)}.json"


def _key(name: str) -> str:
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=12).hexdigest()


def _entry(path: Path) -> Entry:
    stored = _read_json(path)
    try:
        parts = tuple(ScoredPart(**part) for part in stored.pop("parts"))
        return Entry(**stored, parts=parts)
    except (TypeError, KeyError, ValueError) as error:
        raise _damaged(path, error) from error


def _read_json(path: Path) -> dict[str, Any]:
    intact.check_size(path)
    try:
        return dict(intact.parsed_json(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} is damaged ({error}); restore it from a copy, or remove it: what it names is scored again"
    )
