"""What an alias names, and has named: the content of its file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Self

from kpca_stream.storage.whole import json_bytes

MOST_BEFORE = 20
MOST_LEFT = 200


@dataclass(frozen=True)
class Alias:
    """A pointer to a version, with a short memory.

    Parameters
    ----------
    version : int
    before : tuple of int
        Versions that it named before, latest first: the way back.
    left : tuple of (int, float)
        When it last ceased to name a version, in seconds since 1970, latest first.
    """

    version: int
    before: tuple[int, ...] = ()
    left: tuple[tuple[int, float], ...] = ()

    @classmethod
    def parsed(cls, data: bytes) -> Self:
        """From a file's content: the number of a version alone will do.

        Raises
        ------
        ValueError
            If it is neither.
        """
        value = json.loads(data)
        if isinstance(value, dict):
            left = tuple((_number(version), float(at)) for version, at in value.get("left", ()))
            return cls(_number(value.get("version")), tuple(map(_number, value.get("before", ()))), left)
        return cls(_number(value))

    @property
    def data(self) -> bytes:
        """The file's content."""
        return json_bytes({"version": self.version, "before": self.before, "left": self.left})

    def moved(self, version: int, now: float) -> Alias:
        """Naming `version` from now on; this one's is the way back."""
        before = (self.version, *(each for each in self.before if each != version))
        return replace(self._leaving(now), version=version, before=before[:MOST_BEFORE])

    def moved_back(self, version: int, now: float) -> Alias:
        """Naming `version` again, one of those before."""
        rest = self.before[self.before.index(version) + 1 :]
        return replace(self._leaving(now), version=version, before=rest)

    def _leaving(self, now: float) -> Alias:
        others = (each for each in self.left if each[0] != self.version)
        return replace(self, left=((self.version, now), *others)[:MOST_LEFT])


def _number(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no number of a version")
    return value
