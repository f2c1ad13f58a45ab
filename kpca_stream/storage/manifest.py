"""What is written beside a basis: its manifest, and later on why it must not be promoted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kpca_stream.errors import BusyError
from kpca_stream.storage.intact import parsed_json
from kpca_stream.storage.place import Place
from kpca_stream.storage.whole import json_bytes

CREATED = "%Y-%m-%dT%H:%M:%SZ"
ATTEMPTS = 50


def manifest_key(version: int) -> str:
    """Where the manifest of `version` lies."""
    return f"versions/{version}/manifest.json"


def parsed(data: bytes, version: int) -> dict[str, Any]:
    """The manifest of `version` from its bytes.

    Raises
    ------
    ValueError
        If it is no JSON object, or of another version.
    """
    value = parsed_json(data, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError("it is no object")  # noqa: TRY004  damage, as what is no JSON
    if value.get("version", version) != version:
        raise ValueError(f"it is of version {value['version']!r}")
    return value


def seconds_of(created: Any) -> float | None:
    """Seconds since 1970 of a time as manifests tell it, or None."""
    try:
        return datetime.strptime(str(created), CREATED).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True)
class Mark:
    """What is said of a version after it was published: why it is refused, or that it no longer is.

    Parameters
    ----------
    place : Place
    version : int
    """

    place: Place
    version: int

    def refusal(self, manifest: dict[str, Any]) -> str | None:
        """Why it must not be promoted, or None; a mark counts more than its `manifest`."""
        refused = manifest.get("refused")
        data = self.place.read(self._key)
        if data is None:
            return str(refused) if refused else None
        try:
            reason = parsed_json(data)["reason"]
        except (ValueError, KeyError, TypeError):
            return "a reason that cannot be read any more"
        return None if reason is None else str(reason)

    def set(self, reason: str | None, manifest: dict[str, Any]) -> None:
        """Refuse it, or (None) refuse it no longer; a reason that was given before stays."""
        for _ in range(ATTEMPTS):
            data = self.place.read(self._key)
            if (self.refusal(manifest) is None) == (reason is None):
                return
            mark, needs = json_bytes({"reason": reason}), manifest_key(self.version)
            if self.place.swap(self._key, mark, data, needs=needs):
                return
        raise BusyError(f"version {self.version} is refused, allowed or taken away by others too; try again")

    @property
    def _key(self) -> str:
        return f"refused/{self.version}.json"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
