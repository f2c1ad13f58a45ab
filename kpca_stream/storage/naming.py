"""Whose values a group holds: the data, the kernel and all else that they depend on, with a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import zarr

from kpca_stream.errors import DataError
from kpca_stream.storage.chunked import REMEDY

FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Named:
    """The attributes of a group.

    Parameters
    ----------
    group : zarr.Group
    where : str
        How messages call it.
    """

    group: zarr.Group
    where: str

    @property
    def identity(self) -> dict[str, Any]:
        """What the stored values depend on; empty in a new group."""
        identity = self.group.attrs.get("identity", {})
        return dict(identity) if isinstance(identity, dict) else {}

    @property
    def fit(self) -> Any:
        """The fit that was begun last."""
        return self.group.attrs.get("fit")

    @property
    def run(self) -> str:
        """One word for all that the stored values depend on."""
        return _digest(self.identity, None)

    def check(self) -> str:
        """Check that the attributes are those that were written; returns what they name.

        Raises
        ------
        DataError
            If not.
        """
        held = self.identity
        if held and self.group.attrs.get("digest") != _digest(held, self.fit):
            raise DataError(
                f"{self.where}/zarr.json was changed (the digest of its attributes does not hold); {REMEDY}"
            )
        return f"kernel {held.get('kernel')}, data {held.get('fingerprint')}"

    def refuse_other(self, identity: dict[str, Any], keys: Iterable[str]) -> None:
        """Check that a group in use has this identity, as far as `keys` go.

        Raises
        ------
        DataError
            If not; says what differs. Also if the attributes were changed.
        """
        held = self.identity
        self.check()
        differences = [
            f"{key}: {held.get(key)!r} there, {identity.get(key)!r} now"
            for key in sorted(keys)
            if held and held.get(key) != identity.get(key)
        ]
        if differences:
            raise DataError(
                f"{self.where} holds another run ({'; '.join(differences)}); choose another gram.path, or "
                "fit with --restart to remove what it holds"
            )


def versioned(identity: dict[str, Any]) -> dict[str, Any]:
    """An identity as it is stored."""
    stored: dict[str, Any] = json.loads(json.dumps({"format_version": FORMAT_VERSION, **identity}))
    return stored


def attributes_of(identity: dict[str, Any], fit: Any = None) -> dict[str, Any]:
    """The attributes of a group of `identity`; `fit` names the fit that was begun last."""
    named = {"identity": identity} | ({} if fit is None else {"fit": fit})
    return {**named, "digest": _digest(identity, fit)}


def _digest(identity: dict[str, Any], fit: Any) -> str:
    text = json.dumps(identity if fit is None else {**identity, "fit": fit}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
