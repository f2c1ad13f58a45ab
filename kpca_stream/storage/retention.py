"""Which versions are kept, and how the others go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from kpca_stream.errors import ConfigError
from kpca_stream.storage.located import size_of
from kpca_stream.storage.registry import Registry

DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class Retention:
    """What is kept beside what an alias names or would roll back to.

    Parameters
    ----------
    keep : int
        So many of the newest versions, and as many of the newest ones that were refused, or are damaged; at
        least one.
    age : float
        Seconds: what was made, or named by an alias, since then stays. Readers that resolved a version have
        this long to open it and be done.
    """

    keep: int = 5
    age: float = DAY

    def __post_init__(self) -> None:
        if self.keep < 1 or not self.age >= 0:
            raise ConfigError(
                f"retention: got keep {self.keep} and age {self.age}, expected at least 1, so that no number "
                "of a version is given twice, and no negative age"
            )


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was taken away, or would be, and why the rest stays.

    ``removed`` are versions; ``kept`` versions and reasons, in their order; ``n_bytes`` of those removed.
    """

    removed: tuple[int, ...]
    kept: tuple[tuple[int, str], ...]
    n_bytes: int


def collect(
    registry: Registry, retention: Retention, *, dry_run: bool = False, now: float | None = None
) -> Collected:
    """Take away the versions that nothing keeps; readers see each of them whole or not at all.

    Raises
    ------
    DataError
        If an alias is damaged: nobody knows then which version it needs.
    """
    now = time.time() if now is None else now
    reasons = _reasons(registry, retention, now)
    if not dry_run:
        registry.place.sweep("versions")
    removed, n_bytes = list[int](), 0
    for version in registry.versions():
        if version in reasons:
            continue
        held = size_of(registry.basis_path(version).parent)
        if dry_run or _take_away(registry, retention, version, now):
            removed.append(version)
            n_bytes += held
    kept = tuple((version, reasons.get(version, "named meanwhile")) for version in registry.versions())
    return Collected(
        removed=tuple(removed),
        kept=tuple(each for each in kept if each[0] not in removed),
        n_bytes=n_bytes,
    )


def _take_away(registry: Registry, retention: Retention, version: int, now: float) -> bool:
    def is_named() -> bool:
        return any(version == named for named, _ in _named(registry, retention, now))

    if not registry.place.take_away(f"versions/{version}", is_named):
        return False
    registry.place.take_away(f"refused/{version}.json", lambda: False)
    return True


def _reasons(registry: Registry, retention: Retention, now: float) -> dict[int, str]:
    """Why each version stays that does; the first reason counts."""
    reasons: dict[int, str] = {}
    for version, reason in (
        *_named(registry, retention, now),
        *_newest(registry, retention),
        *_young(registry, retention, now),
    ):
        reasons.setdefault(version, reason)
    return reasons


def _named(registry: Registry, retention: Retention, now: float) -> Iterator[tuple[int, str]]:
    aliases = registry.aliases()
    for name, alias in aliases.items():
        yield alias.version, f"named by {name}"
    for name, alias in aliases.items():
        back = registry.way_back(alias)
        if back is not None:
            yield back, f"{name} would roll back to it"
        for version, at in alias.left:
            if now - at < retention.age:
                yield version, f"was named by {name} not long ago"


def _newest(registry: Registry, retention: Retention) -> Iterator[tuple[int, str]]:
    standings = {version: registry.standing(version) for version in registry.versions()}
    for standing, what in (("sound", ""), ("refused", " refused"), ("damaged", " damaged")):
        alike = [version for version, found in standings.items() if found == standing]
        for version in alike[-retention.keep :]:
            yield version, f"one of the newest {retention.keep}{what}"


def _young(registry: Registry, retention: Retention, now: float) -> Iterator[tuple[int, str]]:
    for version in registry.versions():
        if now - registry.created(version) < retention.age:
            yield version, "made not long ago"
