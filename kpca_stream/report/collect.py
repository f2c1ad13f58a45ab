"""One look at all scores: maps, distributions, the most unusual rows and drift, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.report.drift import Distance
from kpca_stream.report.maps import Density, Range, bins_for
from kpca_stream.report.novelty import Histogram
from kpca_stream.report.taking import MEASURES
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.score_chunks import ZarrPart
from kpca_stream.storage.score_parts import ScorePart

Array = NDArray[Any]
Reference = tuple[Thresholds, float]
"""Thresholds of a version, and from how many rows they were taken."""
Training = Callable[[], Iterable[tuple[Array, Array]]]
"""Gives blocks of training scores (b, k) and the weights (b,) of their rows, as often as it is called."""

ScoredPart = ScorePart | ZarrPart

MOST_GROUPS = 100
"""Points of a curve of drift; where there are more parts, neighbours share one."""
MOST_MARKED = 150
MAP_COMPONENTS = 6
SPREADS = 10.0
"""A map ends where no row is, or at so many standard deviations of the training scores."""


@dataclass(frozen=True, eq=False)
class Map:
    """Two components: of scored rows, or where there are none of training rows, and these beside them."""

    first: int
    second: int
    density: Density
    training: Density | None


@dataclass(eq=False)
class Group:
    """Parts that follow each other, scored by the same version."""

    version: int
    distances: dict[str, Distance]
    names: list[str] = field(default_factory=list)
    written: float = 0.0
    n_rows: int = 0
    n_novel: int = 0

    def add(self, batch: Mapping[str, Array]) -> None:
        """Count the rows of a batch."""
        for of, distance in self.distances.items():
            distance.add(batch[of])
        self.n_rows += len(batch["novelty"])
        self.n_novel += int(batch["novelty"].sum())

    @property
    def novel(self) -> float:
        """Share of its rows that are novel."""
        return self.n_novel / max(self.n_rows, 1)

    @property
    def is_beyond_chance(self) -> bool:
        """Whether its rows are distributed unlike the training rows, by more than chance."""
        return any(distance.statistic > distance.by_chance for distance in self.distances.values())


@dataclass(eq=False)
class Unusual:
    """The rows that passed a threshold by most, at most `MOST_MARKED` of them."""

    thresholds: Thresholds
    degrees: Array = field(default_factory=lambda: np.zeros(0))
    scores: Array | None = None

    def add(self, batch: Mapping[str, Array], names: Sequence[str]) -> None:
        """Keep those of a batch that belong among the most unusual so far."""
        novel = np.flatnonzero(batch["novelty"])
        if not len(novel):
            return
        with np.errstate(divide="ignore", invalid="ignore"):  # a threshold may be 0
            degrees = np.fmax.reduce([batch[of][novel] / getattr(self.thresholds, of) for of in MEASURES])
        scores = np.column_stack([batch[name][novel] for name in names])
        if self.scores is not None:
            degrees, scores = np.r_[self.degrees, degrees], np.vstack([self.scores, scores])
        best = np.argsort(-degrees, kind="stable")[:MOST_MARKED]
        self.degrees, self.scores = degrees[best], scores[best]


@dataclass(frozen=True, eq=False)
class Collected:
    """What the pictures are drawn from."""

    maps: tuple[Map, ...]
    histograms: dict[str, Histogram]
    unusual: Unusual
    groups: tuple[Group, ...]
    n_without_basis: int
    """Parts of versions whose thresholds are not to be had."""

    @property
    def n_rows(self) -> int:
        """Rows that the reported version scored."""
        return self.histograms["hotelling_t2"].n_rows

    def counts(self, version: int) -> tuple[int, int]:
        """Rows that a version scored, and how many of them are novel."""
        of_version = [group for group in self.groups if group.version == version]
        return sum(group.n_rows for group in of_version), sum(group.n_novel for group in of_version)


def collect(
    basis: Basis,
    version: int,
    training: Training,
    parts: Sequence[ScoredPart],
    references: Mapping[int, Reference],
    progress: Callable[[int, int], None],
) -> Collected:
    """Read each part once.

    Parameters
    ----------
    basis : Basis
    version : int
        Of the basis: maps and distributions are of the rows that it scored, drift is of all versions.
    training : callable
        Gives blocks of its training scores.
    parts : sequence of ScorePart or ZarrPart
        In order of writing.
    references : mapping
        By version, what its parts are compared with.
    progress : callable
        Gets the parts read and their total.
    """
    known = [part for part in parts if part.version in references]
    own = [part for part in known if part.version == version]
    maps = _maps(basis, training, own)
    histograms = {of: Histogram(basis.thresholds, of, largest=_largest(own, of)) for of in MEASURES}
    found = Collected(
        maps,
        histograms,
        Unusual(basis.thresholds),
        tuple(_groups(known, references)),
        len(parts) - len(known),
    )
    _read(known, found, version, progress)
    return found


def _read(
    parts: Sequence[ScoredPart], found: Collected, version: int, progress: Callable[[int, int], None]
) -> None:
    n_shown = max((each.second for each in found.maps), default=1)
    names = [f"kpca_{j}" for j in range(n_shown)]
    group_of = {name: group for group in found.groups for name in group.names}
    for done, part in enumerate(parts, start=1):
        is_own = part.version == version
        columns = [*MEASURES, "novelty", *(names if is_own else ())]
        for batch in part.batches(columns):
            group_of[part.path.name].add(batch)
            if is_own:
                _add_own(found, batch, names)
        progress(done, len(parts))


def _add_own(found: Collected, batch: Mapping[str, Array], names: Sequence[str]) -> None:
    for of, histogram in found.histograms.items():
        histogram.add(batch[of])
    found.unusual.add(batch, names)
    for each in found.maps:
        each.density.add(batch[names[each.first - 1]], batch[names[each.second - 1]])


def _groups(parts: Sequence[ScoredPart], references: Mapping[int, Reference]) -> Iterator[Group]:
    size = math.ceil(len(parts) / MOST_GROUPS)
    group: Group | None = None
    for part in parts:
        if group is None or group.version != part.version or len(group.names) == size:
            if group is not None:
                yield group
            trained, n_training = references[part.version]
            group = Group(part.version, {of: Distance(trained, of, n_training) for of in MEASURES})
        group.names.append(part.path.name)
        group.written = part.written
    if group is not None:
        yield group


def _largest(parts: Sequence[ScoredPart], of: str) -> float:
    return max((part.ranges[of][1] for part in parts if of in part.ranges), default=0.0)


def pairs_of(n_components: int) -> list[tuple[int, int]]:
    """Which components are mapped against each other."""
    if n_components == 3:
        return [(1, 2), (1, 3)]
    return [(j, j + 1) for j in range(1, min(n_components, MAP_COMPONENTS), 2)]


def _maps(basis: Basis, training: Training, parts: Sequence[ScoredPart]) -> tuple[Map, ...]:
    """Empty maps of what was scored, over filled ones of the training rows."""
    n_rows = sum(part.n_rows for part in parts)
    pairs = pairs_of(basis.n_components)
    if not pairs:
        return ()
    limits, n_training = _limits(basis, training, parts)
    trained = [
        Density(limits[i - 1], limits[j - 1], bins_for(min(basis.total_weight, n_training))) for i, j in pairs
    ]
    for Z, weights in training():
        for (i, j), density in zip(pairs, trained, strict=True):
            density.add(Z[:, i - 1], Z[:, j - 1], weights)
    if not n_rows and not n_training:
        return ()
    if not n_rows:
        return tuple(Map(i, j, d, None) for (i, j), d in zip(pairs, trained, strict=True))
    return tuple(
        Map(i, j, Density(limits[i - 1], limits[j - 1], bins_for(n_rows)), density if n_training else None)
        for (i, j), density in zip(pairs, trained, strict=True)
    )


def _limits(basis: Basis, training: Training, parts: Sequence[ScoredPart]) -> tuple[list[Range], int]:
    """From where to where each mapped component reaches, and the number of training rows looked at."""
    n_mapped = min(basis.n_components, MAP_COMPONENTS)
    low, high, n_training = np.full(n_mapped, np.inf), np.full(n_mapped, -np.inf), 0
    for Z, _ in training():
        n_training += len(Z)
        low = np.minimum(low, Z[:, :n_mapped].min(axis=0, initial=np.inf))
        high = np.maximum(high, Z[:, :n_mapped].max(axis=0, initial=-np.inf))
    for part in parts:
        for j in range(n_mapped):
            least, most = part.ranges.get(f"kpca_{j}", (np.inf, -np.inf))
            low[j], high[j] = min(low[j], least), max(high[j], most)
    furthest = SPREADS * np.sqrt(basis.explained_variance[:n_mapped])
    low, high = np.maximum(low, -furthest), np.minimum(high, furthest)
    none = low > high  # no rows, or all of them beyond the map
    low, high = np.where(none, -furthest, low), np.where(none, furthest, high)
    return list(zip(low.tolist(), high.tolist(), strict=True)), n_training
