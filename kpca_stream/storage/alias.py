"""What aliases name, and have named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from kpca_stream.addresses import Location
from kpca_stream.errors import BusyError, ConfigError, DataError
from kpca_stream.storage.intact import parsed_json
from kpca_stream.storage.place import Place
from kpca_stream.storage.whole import json_bytes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ATTEMPTS = 50
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
        value = parsed_json(data)
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


@dataclass(frozen=True)
class Aliases:
    """The aliases of one model.

    Parameters
    ----------
    folder : Path or Address
        Of the model, as messages name it.
    place : Place
        By what operations they are read and swapped.
    """

    folder: Location
    place: Place

    def path(self, name: str) -> Location:
        """Where the alias `name` lies."""
        return self.folder / _key(name)

    def read(self, name: str) -> Alias | None:
        """The alias `name`, or None.

        Raises
        ------
        DataError
            If it is damaged.
        """
        data = self.place.read(_key(name))
        try:
            return None if data is None else Alias.parsed(data)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{self.path(name)} is damaged ({error}); write the number of a version into it"
            ) from error

    def all(self) -> dict[str, Alias]:
        """All aliases, by name."""
        names = sorted(name for name in self.place.names("aliases") if NAME.fullmatch(name))
        return {name: alias for name in names if (alias := self.read(name)) is not None}

    def move(
        self, name: str, moved: Callable[[Alias | None], Alias], needs: Callable[[Alias], str]
    ) -> tuple[Alias | None, Alias]:
        """Swap the alias `name`; whoever swaps it meanwhile is taken into account.

        Parameters
        ----------
        name : str
        moved : callable
            From the alias as it is (None: not there, or damaged) to what it is to be; may be called again.
        needs : callable
            The key that must be there for it.

        Returns
        -------
        tuple of Alias
            Before and after.
        """
        key = _key(name)
        for _ in range(ATTEMPTS):
            data = self.place.read(key)
            found = _parsed_or_none(data)
            after = moved(found)
            if after == found or self.place.swap(key, after.data, data, needs=needs(after)):
                return found, after
        raise self.restless(name)

    def elsewhere(self, name: str, found: Alias | None, expected: int) -> BusyError:
        """That it names another version than the one that was looked at."""
        return BusyError(
            f"{name} of {self.folder} names version {found and found.version}, expected {expected or None}: "
            "somebody else moved it meanwhile; look at it, and do it again"
        )

    def restless(self, name: str) -> BusyError:
        """That one cannot follow."""
        return BusyError(f"{name} of {self.folder} is moved faster than it can be followed; try again")


def checked_name(name: str) -> str:
    """A name that cannot leave the folder."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"name: {name!r} cannot be a name here; expected letters, digits, dots, dashes and underscores, "
            "a letter or digit first"
        )
    return name


def _key(name: str) -> str:
    if name.isdigit():
        raise ConfigError(
            f"alias: got {name!r}, which is a version; expected a name with a letter, such as live"
        )
    return f"aliases/{checked_name(name)}"


def _parsed_or_none(data: bytes | None) -> Alias | None:
    """What is damaged is written anew by whoever moves it."""
    try:
        return None if data is None else Alias.parsed(data)
    except (ValueError, TypeError):
        return None


def _number(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no number of a version")
    return value
