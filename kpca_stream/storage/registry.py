"""Immutable versions of a model, and aliases that point to one.

::

    NAME/versions/1/basis.zarr      the basis
    NAME/versions/1/manifest.json   written last: a version without it does not count
    NAME/aliases/champion           names a version, and those before; swapped by an atomic rename
    NAME/refused/2.json             why version 2 must not be promoted, said after it was published

Readers take no lock. A version is there whole from the rename that publishes it to the one that takes it
away, which no alias may name then, nor have named within some time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from kpca_stream.addresses import Address, Location, located
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.alias import ATTEMPTS, Alias, Aliases, checked_name
from kpca_stream.storage.basis import Basis, open_basis, save_basis
from kpca_stream.storage.bucket import Bucket
from kpca_stream.storage.intact import check_bytes
from kpca_stream.storage.located import is_there
from kpca_stream.storage.manifest import CREATED, Mark, manifest_key, parsed, seconds_of
from kpca_stream.storage.place import Folder, Place
from kpca_stream.storage.whole import naming, write_json

CHAMPION = "champion"
MANIFEST_REMEDY = "it names every file that was fitted on: fit fewer, larger files"
NUMBER = re.compile(r"[1-9][0-9]{0,17}")
Standing = Literal["sound", "refused", "damaged", "gone"]


class Opened(NamedTuple):
    """A whole version, as an alias named it."""

    version: int
    manifest: dict[str, Any]
    basis: Basis


@dataclass(frozen=True)
class Registry:
    """The versions of one model, in one folder.

    Parameters
    ----------
    folder : Path or Address
    store : Place, optional
        Where they lie by other operations than those of a folder.
    """

    folder: Location
    store: Place | None = None

    @classmethod
    def of(cls, models: str | Location, name: str) -> Registry:
        """The registry of model `name` below `models`; a name cannot leave the folder."""
        return cls(located(models) / checked_name(name))

    @property
    def place(self) -> Place:
        """By what operations it is read and written."""
        if self.store is not None:
            return self.store
        return Bucket(self.folder) if isinstance(self.folder, Address) else Folder(self.folder)

    @property
    def named(self) -> Aliases:
        """The aliases."""
        return Aliases(self.folder, self.place)

    def versions(self) -> list[int]:
        """Numbers of the versions that are whole."""
        numbers = (name for name in self.place.names("versions") if NUMBER.fullmatch(name))
        return sorted(
            int(name) for name in numbers if "manifest.json" in self.place.names(f"versions/{name}")
        )

    def basis_path(self, version: int) -> Location:
        """Where the basis of `version` lies."""
        return self._version(version) / "basis.zarr"

    def manifest(self, version: int) -> dict[str, Any]:
        """What is known of `version`."""
        data = self.place.read(manifest_key(version))
        if data is None:
            raise ConfigError(f"{self.folder} has no version {version}; there are {self.versions()}")
        return self._manifest(data, version)

    def created(self, version: int) -> float:
        """When `version` was made, in seconds since 1970."""
        try:
            told = seconds_of(self.manifest(version).get("created"))
        except (ConfigError, DataError):  # gone or damaged
            told = None
        return self.place.modified(manifest_key(version)) if told is None else told

    def has(self, version: int) -> bool:
        """Whether `version` is there, whole."""
        return self.place.read(manifest_key(version)) is not None

    def find(self, fit: str) -> int | None:
        """The newest version whose manifest names this fit, and whose basis is there."""
        for version in reversed(self.versions()):
            with suppress(ConfigError, DataError):  # gone or damaged
                if self.manifest(version).get("fit") == fit and self.has_basis(version):
                    return version
        return None

    def publish(self, basis: Basis, manifest: Callable[[int], dict[str, Any]]) -> int:
        """Write `basis` as the next version; readers see it whole or not at all.

        Parameters
        ----------
        basis : Basis
        manifest : callable
            What to write beside it, given the number of the version. Where it says why under ``refused``,
            the version is kept, and never promoted unless that is forced.

        Returns
        -------
        int
            The number.

        Raises
        ------
        DataError
            If the manifest would be too large to be read again.
        """
        with self.place.making("versions") as partial:
            with naming(partial.parent):
                save_basis(basis, partial / "basis.zarr")
            while True:
                taken = (int(name) for name in self.place.names("versions") if NUMBER.fullmatch(name))
                version = max(taken, default=0) + 1
                write_json(partial / "manifest.json", {"version": version, **manifest(version)})
                n_bytes = (partial / "manifest.json").stat().st_size
                check_bytes(self.folder / manifest_key(version), n_bytes, MANIFEST_REMEDY)
                if self.place.adopt(partial, f"versions/{version}"):
                    return version

    def point(self, version: int, alias: str = CHAMPION, *, expected: int | None = None) -> int | None:
        """Make `alias` name `version`, and remember what it named before.

        Parameters
        ----------
        version : int
        alias : str
        expected : int, optional
            Only if it names this one now; 0 if it names none.

        Returns
        -------
        int or None
            What it named before.

        Raises
        ------
        ConfigError
            If there is no such version.
        BusyError
            If it names another one than expected: somebody else moved it meanwhile.
        """

        def moved(found: Alias | None) -> Alias:
            self.manifest(version)
            if expected is not None and expected != (0 if found is None else found.version):
                raise self.named.elsewhere(alias, found, expected)
            if found is None or found.version == version:
                return found or Alias(version)
            return found.moved(version, time.time())

        found, _ = self.named.move(alias, moved, _needs)
        return None if found is None else found.version

    def promote(
        self, version: int, alias: str = CHAMPION, *, expected: int | None = None, force: bool = False
    ) -> int | None:
        """As `point`, but not to a version that was refused; with `force` it is refused no longer.

        Raises
        ------
        DataError
            If it was refused, with the reason, or its basis is gone.
        """
        reason = self.refusal(version)
        if reason is not None and not force and not self._is_named(version, alias):
            raise DataError(
                f"version {version} of {self.folder} was refused: {reason}; promote another, or this one "
                "with kpca-stream models promote --force"
            )
        if not self.has_basis(version):
            raise DataError(
                f"version {version} of {self.folder} has no basis; promote another, or restore it from a copy"
            )
        if force:
            Mark(self.place, version).set(None, self.manifest(version))
        return self.point(version, alias, expected=expected)

    def rollback(self, alias: str = CHAMPION, *, reason: str | None = None) -> tuple[int, int]:
        """Make `alias` name what it named before; the version it leaves is refused, so that it stays away.

        Returns
        -------
        tuple of int
            Which version it named, and which it names now.

        Raises
        ------
        ConfigError
            If there is none to go back to.
        BusyError
            If somebody else moves it meanwhile: then it is another version that would be left.
        """
        seen: list[int] = []

        def moved(found: Alias | None) -> Alias:
            sound = None if found is None else self.way_back(found)
            if found is None or sound is None:
                raise ConfigError(
                    f"{alias} of {self.folder} has named no other version that is there and sound; promote "
                    f"one of {self._sound()}, or fit anew"
                )
            seen.append(found.version)
            if found.version != seen[0]:
                raise self.named.elsewhere(alias, found, seen[0])
            if self.standing(found.version) == "sound":
                told = reason or f"rolled back to version {sound}"
                self.refuse(found.version, f"{told} ({datetime.now(UTC):{CREATED}})")
            return found.moved_back(sound, time.time())

        found, now = self.named.move(alias, moved, _needs)
        return (now.version if found is None else found.version), now.version

    def refuse(self, version: int, reason: str) -> None:
        """Keep `version`, but never promote it unless forced; a reason that was given before stays."""
        Mark(self.place, version).set(reason, self.manifest(version))

    def refusal(self, version: int) -> str | None:
        """Why `version` must not be promoted, or None."""
        return Mark(self.place, version).refusal(self.manifest(version))

    def standing(self, version: int) -> Standing:
        """Whether `version` may be promoted, by what its manifest says, and whether its basis is there."""
        try:
            refusal = self.refusal(version)
        except ConfigError:
            return "gone"
        except DataError:
            return "damaged"
        if not self.has_basis(version):
            return "damaged" if self.has(version) else "gone"
        return "sound" if refusal is None else "refused"

    def has_basis(self, version: int) -> bool:
        """Whether the basis of `version` is there; `verify` tells whether it is whole."""
        is_within = self.place.read(f"versions/{version}/basis.zarr/zarr.json") is not None
        return is_within or is_there(self.basis_path(version) / "zarr.json")  # links are followed by readers

    def _sound(self) -> list[int]:
        return [version for version in self.versions() if self.standing(version) == "sound"]

    def way_back(self, alias: Alias) -> int | None:
        """The version that a rollback of `alias` goes to, or None."""
        return next((version for version in alias.before if self.standing(version) == "sound"), None)

    def resolve(self, alias: str = CHAMPION) -> int:
        """The version that `alias` names.

        Raises
        ------
        ConfigError
            If there is none.
        DataError
            If what it names is no version.
        """
        found: Alias | None = None
        for _ in range(ATTEMPTS):
            before, found = found, self.named.read(alias)
            if found is None:
                raise ConfigError(f"{self.folder} has no {alias}; fit a model first: kpca-stream fit CONFIG")
            if self.has(found.version):
                return found.version
            if found == before:  # and it did not move meanwhile
                raise DataError(
                    f"{self.named.path(alias)} names {found.version!r}; expected one of the versions "
                    f"{self.versions()}"
                )
        raise self.named.restless(alias)

    def opened(self, alias: str = CHAMPION) -> Opened:
        """The version that `alias` names, open and whole: also while others promote and take away.

        Raises
        ------
        ConfigError, DataError
            As `resolve`, or if the version is damaged.
        BusyError
            If versions go faster than they open.
        """
        for _ in range(ATTEMPTS):
            version = self.resolve(alias)
            try:
                return self.opened_version(version)
            except (ConfigError, DataError, OSError):
                if self.has(version):
                    raise
        raise self.named.restless(alias)

    def opened_version(self, version: int) -> Opened:
        """`version`, open."""
        return Opened(version, self.manifest(version), open_basis(self.basis_path(version)))

    def aliases(self) -> dict[str, Alias]:
        """All aliases and what they name and have named."""
        return self.named.all()

    def _is_named(self, version: int, alias: str) -> bool:
        named = self.named.read(alias)
        return named is not None and named.version == version

    def _manifest(self, data: bytes, version: int) -> dict[str, Any]:
        try:
            return parsed(data, version)
        except ValueError as error:
            path = self.folder / manifest_key(version)
            raise DataError(f"{path} is damaged ({error}); restore it from a copy") from error

    def _version(self, version: int) -> Location:
        return self.folder / "versions" / str(version)


def _needs(alias: Alias) -> str:
    return manifest_key(alias.version)
