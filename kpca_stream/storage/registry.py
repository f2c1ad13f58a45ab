"""Immutable versions of a model, and aliases that point to one.

::

    NAME/versions/1/basis.zarr      the basis
    NAME/versions/1/manifest.json   written last: a version without it does not count
    NAME/aliases/champion           the number of a version, swapped by an atomic rename
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.basis import Basis, save_basis
from kpca_stream.storage.layout import remove_tree, write_json

CHAMPION = "champion"


@dataclass(frozen=True)
class Registry:
    """The versions of one model, in one folder."""

    folder: Path

    @classmethod
    def of(cls, models: Path, name: str) -> Registry:
        """The registry of model `name` below `models`; a name cannot leave the folder."""
        if not name or name.startswith(".") or "/" in name or os.sep in name:
            raise ConfigError(f"name: {name!r} cannot be a model's name; expected letters, digits, dots, dashes")
        return cls(Path(models) / name)

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
            raise ConfigError(f"{self.folder} has no version {version}; there are {self.versions()}") from error
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
        try:
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
        aliases = self.folder / "aliases"
        aliases.mkdir(parents=True, exist_ok=True)
        write_json(aliases / alias, version)

    def resolve(self, alias: str = CHAMPION) -> int:
        """The version that `alias` names.

        Raises
        ------
        ConfigError
            If there is none.
        """
        path = self.folder / "aliases" / alias
        try:
            return int(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise ConfigError(f"{self.folder} has no {alias}; fit a model first: kpca-stream fit CONFIG") from error
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}); expected the number of a version") from error

    def _version(self, version: int) -> Path:
        return self.folder / "versions" / str(version)


def _moved(partial: Path, version: Path) -> bool:
    """Rename, unless somebody else took this number meanwhile."""
    try:
        partial.rename(version)
    except OSError:
        if not version.exists():
            raise
        return False
    return True
