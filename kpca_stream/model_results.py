"""What is known of a model's versions, as frozen values that are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class VersionFacts:
    """One version, by its manifest; what that does not tell is none."""

    version: int
    standing: str
    """``sound``, ``refused`` or ``damaged``."""
    reason: str | None
    """Why it is refused, or what is damaged."""
    aliases: tuple[str, ...]
    created: str | None
    fit: str | None
    source: str | None
    fingerprint: str | None
    n_samples: int | None
    method: str | None
    kernel: str | None
    gamma: float | None
    eigenvalues: tuple[float, ...]
    explained_variance_ratio: tuple[float, ...]
    n_bytes: int
    basis: str


@dataclass(frozen=True, kw_only=True)
class AliasFacts:
    """What an alias names."""

    name: str
    version: int
    before: tuple[int, ...]
    """Versions that it named before, latest first."""


@dataclass(frozen=True, kw_only=True)
class ModelList:
    """All versions of a model."""

    model: str
    aliases: tuple[AliasFacts, ...]
    versions: tuple[VersionFacts, ...]


@dataclass(frozen=True, kw_only=True)
class ModelVersion:
    """One version, with all that its manifest says."""

    model: str
    facts: VersionFacts
    manifest: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """An alias that was moved, or names already what was asked."""

    model: str
    alias: str
    action: Literal["promote", "rollback"]
    before: int | None
    version: int
    basis: str


@dataclass(frozen=True, kw_only=True)
class FactChange:
    """Something that two versions differ in."""

    name: str
    first: Any
    second: Any


@dataclass(frozen=True, kw_only=True)
class ModelDiff:
    """Two versions beside each other."""

    model: str
    first: int
    second: int
    changes: tuple[FactChange, ...]
    eigenvalue_changes: tuple[float, ...] | None
    """Of the explained variances, relative; like what follows none where the bases have other columns."""
    angles: tuple[float, ...] | None
    """Between the two spans in feature space, in degrees, smallest first."""
    angles_exact: bool | None
    """Else they are estimated from scores."""
    displacement: float | None
    """How far the scores of some rows of the first version move, of how far they are from the centre."""
    displacement_aligned: float | None
    """The same once signs, order and rotation of close components are those of the first."""
    n_rows: int | None
    """Rows that were scored by both."""
    not_compared: str | None
    """Why the bases were not compared."""


@dataclass(frozen=True, kw_only=True)
class KeptVersion:
    """A version that stays."""

    version: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Versions that were taken away, or would be."""

    model: str
    removed: tuple[int, ...]
    kept: tuple[KeptVersion, ...]
    n_bytes: int
    """Of those taken away."""
    dry_run: bool
