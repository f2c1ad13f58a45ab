"""Scored parts beside the training rows, in order of writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpca_stream.report.collect import Group
from kpca_stream.report.drift import ORDER, Distance, draw_drift, draw_means, draw_shares
from kpca_stream.report.page import Part, Table
from kpca_stream.report.pictures import Picture, picture
from kpca_stream.report.subject import Subject
from kpca_stream.report.taking import MEASURES
from kpca_stream.report.words import count, moment, number, share

MOST_DRIFTING = 10


def drift(subject: Subject) -> Part:
    """Distances of the scored parts from the training rows, in order of writing."""
    groups, missing = subject.collected.groups, subject.collected.n_without_basis
    beyond = sum(group.is_beyond_chance for group in groups)
    lead = (
        f"{beyond:,} of {len(groups):,} {_what(groups)} differ from the training rows by more than chance, "
        "in their reconstruction errors or their T². Each part is compared with the version that scored it."
    )
    if beyond and _are_alike_together(groups, subject.version):
        lead += (
            " All rows of this version together do not: its parts are no random samples of them, but regions "
            "perhaps, or seasons."
        )
    if missing:
        lead += f" {count(missing, 'part is', 'parts are')} of versions that are not there any more."
    expected = 1 - subject.basis.thresholds.quantile
    return Part("drift", "Drift over time", lead, _pictures(groups, expected), (_drift_table(groups),))


def _are_alike_together(groups: Sequence[Group], version: int) -> bool:
    """Whether what a version scored is, all in all, distributed as its training rows."""
    found = [group.distances for group in groups if group.version == version]
    if not found:
        return False
    joined = [Distance.joined([distances[of] for distances in found]) for of in MEASURES]
    known = [each for each in joined if each.n_rows]
    return bool(known) and all(each.statistic <= each.by_chance for each in known)


def _what(groups: Sequence[Group]) -> str:
    return "parts" if max(len(group.names) for group in groups) == 1 else "groups of parts"


def _pictures(groups: Sequence[Group], expected: float) -> tuple[Picture, ...]:
    distances = {of: [group.distances[of] for group in groups] for of in MEASURES}
    novel = [group.novel for group in groups]
    joined, worst = max(len(group.names) for group in groups), max(groups, key=_distance)
    what = f"{len(groups):,} {_what(groups)}"
    told: dict[str, Any] = {
        "changes": [i for i in range(1, len(groups)) if groups[i].version != groups[i - 1].version],
        "label": ORDER if joined == 1 else f"groups of {joined} parts, in order of writing",
    }
    return (
        picture(
            "Distance from the training rows",
            lambda ax, palette: draw_drift(ax, distances, palette=palette, **told),
            f"Distance of Kolmogorov and Smirnov of {what} from the training rows, in order of writing; the "
            f"largest is {number(_distance(worst), 2)}, of {worst.names[0]}.",
            "0: distributed alike; 1: no overlap. Within the band it is no more than chance.",
        ),
        picture(
            "Mean over that of the training rows",
            lambda ax, palette: draw_means(ax, distances, palette=palette, **told),
            f"Mean reconstruction error of {what}, relative to that of the training rows.",
            "1: as among the training rows.",
        ),
        picture(
            "Novel rows",
            lambda ax, palette: draw_shares(ax, novel, expected, palette=palette, **told),
            f"Share of novel rows of {what}, from {share(min(novel))} to {share(max(novel))}.",
            "The line: what rows like the training rows show.",
        ),
    )


def _distance(group: Group) -> float:
    return float(np.nanmax([0.0, *(d.statistic for d in group.distances.values())]))


def _drift_table(groups: Sequence[Group]) -> Table:
    furthest = sorted(groups, key=_distance, reverse=True)[:MOST_DRIFTING]
    rows = [
        (
            group.names[0],
            moment(group.written),
            f"{group.version}",
            count(group.n_rows),
            share(group.novel),
            *(number(group.distances[of].statistic, 2) for of in MEASURES),
            number(group.distances["hotelling_t2"].by_chance, 2),
        )
        for group in furthest
    ]
    first = "part" if all(len(group.names) == 1 for group in groups) else "first part"
    header = (first, "written", "version", "rows", "novel", "distance of e", "of T²", "by chance")
    caption = "Furthest from the training rows" if len(groups) > MOST_DRIFTING else "All parts"
    return Table(caption, header, rows)
