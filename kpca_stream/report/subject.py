"""What a report is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kpca_stream.report.collect import Collected
from kpca_stream.storage.basis import Basis


@dataclass(frozen=True, eq=False)
class Subject:
    """A version of a model, its scores, and the other versions.

    Parameters
    ----------
    name : str
        Of the model.
    version : int
    basis : Basis
    manifests : mapping
        What is known of each version, by its number.
    collected : Collected
        From the scores.
    scores : str or None
        Where they lie.
    packages : mapping
        Versions of packages, as they are now.
    made : str
        When the report is made.
    """

    name: str
    version: int
    basis: Basis
    manifests: Mapping[int, Mapping[str, Any]]
    collected: Collected
    scores: str | None
    packages: Mapping[str, str]
    made: str

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Of the reported version."""
        return self.manifests[self.version]

    @property
    def summary(self) -> Mapping[str, Any]:
        """What its fit found out; empty where it was not published by one."""
        found: Mapping[str, Any] = self.manifest.get("summary", {})
        return found

    @property
    def is_approximate(self) -> bool:
        """Whether its eigenvalues are bounds from below."""
        return bool(self.basis.facts.get("certificates"))
