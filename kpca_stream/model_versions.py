"""A model's versions: look at them, move an alias, compare two, take old ones away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kpca_stream.addresses import Location, located
from kpca_stream.aligning import compared, sample_of
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.model_results import (
    AliasFacts,
    Collection,
    FactChange,
    KeptVersion,
    ModelDiff,
    ModelList,
    ModelVersion,
    Promotion,
    VersionFacts,
)
from kpca_stream.numerics.alignment import Alignment
from kpca_stream.storage.alias import Alias
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.located import is_folder, size_of
from kpca_stream.storage.manifest import Mark
from kpca_stream.storage.registry import CHAMPION, Registry, Standing
from kpca_stream.storage.retention import Retention, collect

T = TypeVar("T")

LEFT_OUT = {"version", "created", "fit", "refused"} | {
    f"summary.{name}"
    for name in (
        *("version", "basis", "model", "store", "seconds", "peak_memory", "reused", "eigenvalues"),
        *("explained_variance_ratio", "residual_norms", "landmarks.rounding"),
    )
}
"""What two manifests differ in always, or what is compared as numbers."""
LARGE = {"trained", "refit", "plan"}
"""Records of a re-fit and of what was planned, which `show` prints whole."""


def model_at(folder: str | Location) -> Registry:
    """The registry of the model in `folder`, as ``models/digits``.

    Raises
    ------
    ConfigError
        If there is no model.
    """
    path = located(folder)
    name = path.name or Path(path).resolve().name if isinstance(path, Path) else path.name
    found = Registry.of(path.parent, name)
    if not is_folder(found.folder / "versions"):
        raise ConfigError(f"{path} holds no versions; expected the folder of a model, such as models/digits")
    return found


def version_of(registry: Registry, which: str) -> int:
    """The number that `which` tells, or the version that an alias of this name names.

    Raises
    ------
    ConfigError
        If there is no such version or alias.
    """
    if which.isascii() and which.isdigit():
        version = int(which)
        if registry.has(version):
            return version
        raise ConfigError(f"{registry.folder} has no version {which}; there are {registry.versions()}")
    if which != CHAMPION and which not in registry.aliases():
        raise ConfigError(
            f"{registry.folder} has no version and no alias {which!r}; there are versions "
            f"{registry.versions()} and aliases {sorted(registry.aliases())}"
        )
    return registry.resolve(which)


def list_versions(registry: Registry) -> ModelList:
    """All whole versions, and what names them."""
    aliases = registry.aliases()
    return ModelList(
        model=str(registry.folder),
        aliases=tuple(
            AliasFacts(name=name, version=alias.version, before=alias.before)
            for name, alias in aliases.items()
        ),
        versions=tuple(_each(registry, aliases)),
    )


def show_version(registry: Registry, version: int) -> ModelVersion:
    """One version, with its manifest."""
    return ModelVersion(
        model=str(registry.folder),
        facts=_facts(registry, version, registry.aliases()),
        manifest=registry.manifest(version),
    )


def promote_version(
    registry: Registry, version: int, alias: str = CHAMPION, *, force: bool = False
) -> Promotion:
    """Make `alias` name `version`."""
    before = registry.promote(version, alias, force=force)
    return _promotion(registry, "promote", alias, before, version)


def roll_back(registry: Registry, alias: str = CHAMPION, *, reason: str | None = None) -> Promotion:
    """Make `alias` name what it named before, and refuse what it named."""
    before, version = registry.rollback(alias, reason=reason)
    return _promotion(registry, "rollback", alias, before, version)


def diff_versions(registry: Registry, first: int, second: int) -> ModelDiff:
    """What two versions differ in: facts, explained variances, angles, and where scores move."""
    manifests = registry.manifest(first), registry.manifest(second)
    alignment, n_rows, not_compared = _compared(registry, first, second)
    return ModelDiff(
        model=str(registry.folder),
        first=first,
        second=second,
        changes=tuple(_changes(*(dict(_flat(manifest)) for manifest in manifests))),
        eigenvalue_changes=None if alignment is None else tuple(alignment.eigenvalue_changes.tolist()),
        angles=None if alignment is None else tuple(np.degrees(alignment.angles).tolist()),
        angles_exact=None if alignment is None else alignment.angles_exact,
        displacement=None if alignment is None else alignment.displacement_before,
        displacement_aligned=None if alignment is None else alignment.displacement_after,
        n_rows=n_rows,
        not_compared=not_compared,
    )


def collect_versions(registry: Registry, retention: Retention, *, dry_run: bool = False) -> Collection:
    """Take away the versions that nothing keeps, or tell which."""
    found = collect(registry, retention, dry_run=dry_run)
    return Collection(
        model=str(registry.folder),
        removed=found.removed,
        kept=tuple(KeptVersion(version=version, reason=reason) for version, reason in found.kept),
        n_bytes=found.n_bytes,
        dry_run=dry_run,
    )


def _promotion(registry: Registry, action: Any, alias: str, before: int | None, version: int) -> Promotion:
    return Promotion(
        model=str(registry.folder),
        alias=alias,
        action=action,
        before=before,
        version=version,
        basis=str(registry.basis_path(version)),
    )


def _each(registry: Registry, aliases: Mapping[str, Alias]) -> Iterator[VersionFacts]:
    for version in registry.versions():
        with suppress(ConfigError):  # taken away meanwhile
            yield _facts(registry, version, aliases)


def _facts(registry: Registry, version: int, aliases: Mapping[str, Alias]) -> VersionFacts:
    """By the manifest; where that is damaged, nothing else."""
    try:
        manifest = registry.manifest(version)
        reason = Mark(registry.place, version).refusal(manifest)
        standing: Standing = "sound" if reason is None else "refused"
    except DataError as error:
        manifest, reason, standing = {}, str(error), "damaged"
    if standing != "damaged" and not registry.has_basis(version):
        registry.manifest(version)  # gone, too, where somebody takes the version away
        reason, standing = "its basis is not there", "damaged"
    summary = _typed(manifest, "summary", dict) or {}
    names = (name for name, alias in aliases.items() if alias.version == version)
    return VersionFacts(
        version=version,
        standing=standing,
        reason=reason,
        aliases=tuple(names),
        created=_typed(manifest, "created", str),
        fit=_typed(manifest, "fit", str),
        source=_typed(summary, "source", str),
        fingerprint=_typed(summary, "fingerprint", str),
        n_samples=_typed(summary, "n_samples", int),
        method=_typed(summary, "method", str),
        kernel=_typed(summary, "kernel", str),
        gamma=_number(summary.get("gamma")),
        eigenvalues=_numbers(summary.get("eigenvalues")),
        explained_variance_ratio=_numbers(summary.get("explained_variance_ratio")),
        n_bytes=size_of(registry.basis_path(version).parent),
        basis=str(registry.basis_path(version)),
    )


def _typed(values: dict[str, Any], key: str, kind: type[T]) -> T | None:
    value = values.get(key)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(values: Any) -> tuple[float, ...]:
    found = (_number(value) for value in values) if isinstance(values, list) else ()
    return tuple(value for value in found if value is not None)


def _compared(registry: Registry, first: int, second: int) -> tuple[Alignment | None, int | None, str | None]:
    """How the second is to be laid over the first, by how many rows; or why they are not compared."""
    old, new = (registry.opened_version(version).basis for version in (first, second))
    reason = _unlike(old, new)
    if reason is not None:
        return None, None, reason
    sample = sample_of(old)
    return compared(old, new, sample), sample.shape[0], None


def _unlike(old: Basis, new: Basis) -> str | None:
    if old.columns != new.columns:
        return "they are of other columns"
    if old.rows is None or new.rows is None:
        return "the kernel is precomputed, so that they keep no rows to score"
    return None


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in LARGE:
            yield from _flat(value, f"{name}.")
        elif name not in LARGE | LEFT_OUT:
            yield name, value


def _changes(first: dict[str, Any], second: dict[str, Any]) -> Iterator[FactChange]:
    for name in sorted(first.keys() | second.keys()):
        values = first.get(name), second.get(name)
        if values[0] != values[1]:
            yield FactChange(name=name.removeprefix("summary."), first=values[0], second=values[1])
