"""What a version was fitted on: files with their stamps, and how the files of now differ from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kpca_stream.storage.source import Part, Source


@dataclass(frozen=True)
class File:
    """A file, or the rows of it that are meant.

    Parameters
    ----------
    name : str
    identity : str
        Changes when the file or the choice of rows does.
    n_rows : int
    """

    name: str
    identity: str
    n_rows: int

    @property
    def written_ns(self) -> int:
        """When it was written, in nanoseconds; 0 where that is not known."""
        stamp = self.identity.rsplit(":", 3)[-3]
        return int(stamp) if stamp.isdecimal() else 0


@dataclass(frozen=True)
class Trained:
    """The files that a version was fitted on, in order, and the settings of its fit."""

    files: tuple[File, ...]
    settings: str

    @classmethod
    def of(cls, source: Source, settings: str) -> Self:
        """All files of `source` as they are now; `settings` is a digest of how they are fitted."""
        files = (File(part.name, part.identity, part.stop - part.start) for part in source.parts())
        return cls(tuple(files), settings)

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self | None:
        """As the manifest of a version tells; None where it does not."""
        stored = manifest.get("trained")
        if not isinstance(stored, Mapping):
            return None
        return cls(tuple(File(*file) for file in stored["files"]), stored["settings"])

    def as_json(self) -> dict[str, Any]:
        """For a manifest."""
        return {
            "settings": self.settings,
            "files": [[file.name, file.identity, file.n_rows] for file in self.files],
        }

    @property
    def n_rows(self) -> int:
        """Of all files, before any are dropped."""
        return sum(file.n_rows for file in self.files)

    @property
    def newest_ns(self) -> int:
        """When the newest file was written."""
        return max((file.written_ns for file in self.files), default=0)


@dataclass(frozen=True)
class Landed:
    """How the files of now differ from those of before.

    Parameters
    ----------
    new : tuple of Part
        New or changed files, in order, with the rows of the source that they are.
    changed : tuple of str
        Names of those that were there before, and were written again.
    gone : tuple of File
        That are there no more; of changed ones, as they were.
    is_continued : bool
        Whether all files of before come first, in their order.
    """

    new: tuple[Part, ...]
    changed: tuple[str, ...]
    gone: tuple[File, ...]
    is_continued: bool

    @classmethod
    def of(cls, before: Trained | None, source: Source) -> Self:
        """Of `source` against what was fitted before; all files are new where that is not known."""
        known = () if before is None else before.files
        parts = source.parts()
        identities, names = {file.identity for file in known}, {file.name for file in known}
        present = {part.identity for part in parts}
        new = tuple(part for part in parts if part.identity not in identities)
        first = [part.identity for part in parts[: len(known)]]
        return cls(
            new=new,
            changed=tuple(part.name for part in new if part.name in names),
            gone=tuple(file for file in known if file.identity not in present),
            is_continued=bool(known) and first == [file.identity for file in known],
        )

    @property
    def n_new(self) -> int:
        """Rows of new and changed files."""
        return sum(part.stop - part.start for part in self.new)

    @property
    def n_gone(self) -> int:
        """Rows that are there no more."""
        return sum(file.n_rows for file in self.gone)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First row and end of runs of new files."""
        return _joined([(part.start, part.stop) for part in self.new])


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found
