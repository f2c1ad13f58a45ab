"""Immutable versions of a model, and aliases that point to one.

::

    NAME/versions/1/basis.zarr      the basis
    NAME/versions/1/manifest.json   written last: a version without it does not count
    NAME/aliases/champion           the number of a version, swapped by an atomic rename
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.basis import Basis, save_basis
from kpca_stream.storage.whole import naming, remove_tree, sweep_leftovers, write_json

CHAMPION = "champion"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Registry:
    """The versions of one model, in one folder."""

    folder: Path

    @classmethod
    def of(cls, models: Path, name: str) -> Registry:
        """The registry of model `name` below `models`; a name cannot leave the folder."""
        return cls(Path(models) / _checked(name))

    def versions(self) -> list[int]:
        """Numbers of the versions that are whole."""
        found = (self.folder / "versions").glob("*/manifest.json")
        return sorted(int(path.parent.name) for path in found if path.parent.name.isdigit())

    def basis_path(self, version: int) -> Path:
        """Where the basis of `version` lies."""
        return self._version(version) / "basis.zarr"

    def manifest(self, version: int) -> dict[str, Any]:
        """What is known of `version`."""
        path = self._version(version) / "manifest.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigError(
                f"{self.folder} has no version {version}; there are {self.versions()}"
            ) from error
        except ValueError as error:
            raise DataError(f"{path} is damaged ({error}); restore it from a copy") from error
        return dict(manifest)

    def find(self, fit: str) -> int | None:
        """The newest version whose manifest names this fit."""
        matches = [version for version in self.versions() if self.manifest(version).get("fit") == fit]
        return max(matches, default=None)

    def publish(self, basis: Basis, manifest: Callable[[int], dict[str, Any]]) -> int:
        """Write `basis` as the next version; readers see it whole or not at all.

        Parameters
        ----------
        basis : Basis
        manifest : callable
            What to write beside it, given the number of the version.

        Returns
        -------
        int
            The number.
        """
        versions = self.folder / "versions"
        partial = versions / f".{uuid.uuid4().hex}.partial"
        partial.mkdir(parents=True)
        sweep_leftovers(versions)
        try:
            with naming(versions):
                save_basis(basis, partial / "basis.zarr")
            while True:
                version = max((int(p.name) for p in versions.iterdir() if p.name.isdigit()), default=0) + 1
                write_json(partial / "manifest.json", {"version": version, **manifest(version)})
                if _moved(partial, self._version(version)):
                    return version
        finally:
            remove_tree(partial)

    def point(self, version: int, alias: str = CHAMPION) -> None:
        """Make `alias` name `version`."""
        self.manifest(version)
        path = self._alias(alias)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, version)

    def resolve(self, alias: str = CHAMPION) -> int:
        """The version that `alias` names.

        Raises
        ------
        ConfigError
            If there is none.
        DataError
            If what it names is no version.
        """
        path = self._alias(alias)
        try:
            version = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigError(
                f"{self.folder} has no {alias}; fit a model first: kpca-stream fit CONFIG"
            ) from error
        except ValueError as error:
            raise DataError(f"{path} is damaged ({error}); write the number of a version into it") from error
        if version not in self.versions():
            raise DataError(f"{path} names {version!r}; expected one of the versions {self.versions()}")
        return int(version)

    def _alias(self, alias: str) -> Path:
        return self.folder / "aliases" / _checked(alias)

    def _version(self, version: int) -> Path:
        return self.folder / "versions" / str(version)


def _checked(name: str) -> str:
    """A name that cannot leave the folder."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"name: {name!r} cannot be a name here; expected letters, digits, dots, dashes and underscores, "
            "a letter or digit first"
        )
    return name


def _moved(partial: Path, version: Path) -> bool:
    """Rename, unless somebody else took this number meanwhile."""
    try:
        partial.rename(version)
    except OSError:
        if not version.exists():
            raise
        return False
    return True
