"""The sections with pictures: components, maps, novelty, kernel, drift."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca_stream.report.collect import Group, Map
from kpca_stream.report.drift import draw_drift, draw_means, draw_shares
from kpca_stream.report.kernel import draw_kernel, kernel_values
from kpca_stream.report.maps import INNER_SHARE, draw_map
from kpca_stream.report.novelty import NAMES, TITLES, Histogram, draw_novelty
from kpca_stream.report.page import Part, Table
from kpca_stream.report.pictures import Picture, picture
from kpca_stream.report.spectrum import Bracket, brackets, explained, scree
from kpca_stream.report.subject import Subject
from kpca_stream.report.taking import MEASURES
from kpca_stream.report.words import count, moment, number, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kpca_stream.report.palette import Palette

MOST_COMPONENTS = 50
MOST_DRIFTING = 10
SQUARE = (4.0, 3.5)


def pictured_parts(subject: Subject) -> Iterator[Part]:
    """Those that this model has something to show for."""
    yield components(subject)
    if subject.collected.maps:
        yield maps(subject)
    yield novelty(subject)
    if subject.basis.rows is not None:
        yield kernel(subject)
    if subject.collected.groups:
        yield drift(subject)


def components(subject: Subject) -> Part:
    """Eigenvalues, with what is certain of them, and shares of the variance."""
    basis = subject.basis
    known, total = brackets(basis), float(basis.explained_variance_ratio.sum())
    at_least = "at least " if known else ""
    lead = (
        f"The {count(basis.n_components, 'component', 'components')} explain {at_least}{share(total)} of "
        f"the variance. {_certainty(subject, known)}"
    )
    scree_note = (
        "An approximate eigenvalue is never above the exact one; a bracket reaches up to where the exact one may be."
        if known
        else "Of the centred Gram matrix, not divided by the number of rows."
    )
    shares_note = "Shares of the whole trace, of which the components that are not kept are a part."
    pictures = (
        picture("Eigenvalues", _drawing(scree, basis), _told_values(subject, known), scree_note),
        picture("Explained variance", _drawing(explained, basis), _told_shares(subject), shares_note),
    )
    return Part("components", "Components", lead, pictures, (_component_table(subject, known),))


def _drawing(plot: Callable[..., Any], value: Any) -> Callable[[Axes, Palette], Any]:
    return lambda ax, palette: plot(value, ax, palette=palette)


def _certainty(subject: Subject, known: Sequence[Bracket]) -> str:
    if not known:
        residuals = subject.basis.facts.get("residual_norms") or [float("nan")]
        return f"Their largest residual is {number(max(residuals), 2)} of the first eigenvalue."
    certified = [each for each in known if each.certificate.certified]
    tightest, first = certified[-1].certificate, float(subject.basis.eigenvalues[0])
    return (
        f"They are approximate: the exact eigenvalues are higher by at most {number(tightest.bound)} "
        f"(bound: {tightest.kind}), {share(tightest.bound / first)} of the first."
    )


def _told_values(subject: Subject, known: Sequence[Bracket]) -> str:
    values = subject.basis.eigenvalues
    text = (
        f"Scree plot: {count(len(values), 'eigenvalue', 'eigenvalues')}, falling from {number(values[0])} to "
        f"{number(values[-1])}"
    )
    for certificate, limits in known:
        name = f"by the {certificate.kind} bound, at most" if certificate.certified else "by an estimate, about"
        text += f"; the first is, {name} {number(limits[0, 1])}"
    return f"{text}."


def _told_shares(subject: Subject) -> str:
    shares = subject.basis.explained_variance_ratio
    return (
        f"Bars of the variance that each component explains, {share(shares[0])} by the first and "
        f"{share(shares[-1])} by the last, and a line that adds them up to {share(shares.sum())}."
    )


def _component_table(subject: Subject, known: Sequence[Bracket]) -> Table:
    basis = subject.basis
    shares = basis.explained_variance_ratio
    if known:
        last = [f"at most ({each.certificate.kind})" for each in known]
        cells = [[number(each.limits[j, 1], 6) for each in known] for j in range(len(shares))]
    else:
        last = ["residual"]
        residuals = basis.facts.get("residual_norms", ())
        cells = [[f"{residual:.1e}"] for residual in residuals] or [["–"]] * len(shares)
    rows = [
        (f"{j}", number(value, 6), share(part), share(total), *more)
        for j, (value, part, total, more) in enumerate(
            zip(basis.eigenvalues, shares, accumulate(shares), cells, strict=False), start=1
        )
    ]
    header = ("component", "eigenvalue", "explained", "added up", *last)
    cut = f", the first {MOST_COMPONENTS}" if len(rows) > MOST_COMPONENTS else ""
    return Table(f"Components{cut}", header, tuple(islice(rows, MOST_COMPONENTS)))


def maps(subject: Subject) -> Part:
    """The first components against each other."""
    found = subject.collected
    scored = found.maps[0].training is not None
    whose = f"the {count(found.n_rows)} scored rows" if scored else "the training rows"
    lead = f"Where {whose} lie by their first components; each cell is coloured by how many there are."
    if scored:
        lead += f" The line goes around {share(INNER_SHARE)} of the training rows."
    if found.unusual.scores is not None:
        n_novel = found.counts(subject.version)[1]
        lead += f" Crosses are novel rows, {_which(len(found.unusual.degrees), n_novel)}."
    pictures = tuple(_map_picture(subject, each) for each in found.maps)
    return Part("maps", "Maps", lead, pictures)


def _which(n_marked: int, n_novel: int) -> str:
    return f"all {n_novel:,}" if n_marked >= n_novel else f"the {n_marked:,} most unusual of {n_novel:,}"


def _map_picture(subject: Subject, each: Map) -> Picture:
    marked, unusual = None, subject.collected.unusual.scores
    if unusual is not None and each.training is not None:
        marked = unusual[:, [each.first - 1, each.second - 1]]
    draw = partial(_draw_map, each=each, marked=marked)
    density, (i, j) = each.density, (each.first, each.second)
    filled = int((density.counts > 0).sum())
    alternative = (
        f"Map of component {j} over component {i}: {count(density.n_rows, 'row', 'rows')} in {filled:,} of "
        f"{density.bins**2:,} cells; component {i} from {number(density.x[0], 2)} to {number(density.x[1], 2)}, "
        f"component {j} from {number(density.y[0], 2)} to {number(density.y[1], 2)}."
    )
    outside = count(density.n_outside, "row lies", "rows lie")
    note = f"{outside} beyond the map." if density.n_outside else ""
    return picture(f"Components {i} and {j}", draw, alternative, note, inches=SQUARE)


def _draw_map(ax: Axes, palette: Palette, *, each: Map, marked: Any) -> Any:
    return draw_map(
        ax,
        each.density,
        first=each.first,
        second=each.second,
        palette=palette,
        training=each.training,
        marked=marked,
    )


def novelty(subject: Subject) -> Part:
    """Both measures with their thresholds, of scored rows beside training rows."""
    found, limits = subject.collected, subject.basis.thresholds
    known = [found.histograms[of] for of in MEASURES if np.isfinite(found.histograms[of].quantiles).any()]
    expected = share(1 - limits.quantile)
    if found.n_rows:
        n_rows, n_novel = found.counts(subject.version)
        lead = (
            f"{count(n_novel)} of {count(n_rows, 'scored row', 'scored rows')} are novel, {share(n_novel / n_rows)}: "
            f"they pass one of the two thresholds, as {expected} of rows like the training rows do."
        )
    else:
        lead = f"No rows were scored by this version yet. Of rows like the training rows, {expected} will be novel."
    note = "The scale of rows is logarithmic from 0.1 % on, so that the few beyond the threshold show."
    pictures = tuple(
        picture(TITLES[each.of], _drawing_of(each), _told_histogram(each), note) for each in known
    )
    header = ("", *(NAMES[each.of] for each in known))
    table = Table("Scored and training rows", header, [*_novelty_rows(known)])
    return Part("novelty", "Novelty", lead, pictures, (table,))


def _drawing_of(histogram: Histogram) -> Callable[[Axes, Palette], Any]:
    return lambda ax, palette: draw_novelty(ax, histogram, palette=palette)


def _told_histogram(histogram: Histogram) -> str:
    text = (
        f"Histogram of the {NAMES[histogram.of]}: half of the training rows are below "
        f"{number(histogram.quantiles[500])}, the threshold is {number(histogram.limit)}"
    )
    if histogram.n_rows:
        text += (
            f"; {count(histogram.n_above)} of {count(histogram.n_rows, 'scored row', 'scored rows')} are beyond it"
        )
    return f"{text}."


def _novelty_rows(known: Sequence[Histogram]) -> Iterator[tuple[str, ...]]:
    yield "threshold", *(number(each.limit) for each in known)
    yield "training median", *(number(each.quantiles[500]) for each in known)
    yield "training mean", *(number(each.training_mean) for each in known)
    yield "scored mean", *(number(each.mean) for each in known)
    yield "scored beyond", *(count(each.n_above) for each in known)
    yield "share beyond", *(share(each.n_above / each.n_rows if each.n_rows else None) for each in known)


def kernel(subject: Subject) -> Part:
    """Kernel values between some rows."""
    basis = subject.basis
    values = kernel_values(basis)
    off = values[~np.eye(len(values), dtype=bool)]
    middle, least, most = (number(float(each), 3) for each in (np.median(off), off.min(), off.max()))
    of = "landmarks" if subject.is_approximate else "training rows"
    lead = (
        f"Kernel values between {len(values):,} of the {count(basis.n_rows)} {of}, in the order of their score on "
        "component 1. Blocks are groups that the kernel tells apart; one colour all over means a kernel that is "
        "nearly constant, a bare diagonal one that sees no two rows as alike."
    )
    alternative = (
        f"Heat map of {len(values):,} x {len(values):,} kernel values, rows ordered by component 1: between "
        f"different rows from {least} to {most}, half of them below {middle}."
    )
    levels = {"smallest": 0.0, "a quarter below": 0.25, "half below": 0.5, "three quarters below": 0.75, "largest": 1.0}
    spread = [(name, number(float(np.quantile(off, level)))) for name, level in levels.items()]
    own = [("of a row with itself", number(float(np.diag(values).mean())))]
    table = Table("Between different rows", ("", "kernel value"), spread + own)

    def draw(ax: Axes, palette: Palette) -> Any:
        return draw_kernel(ax, values, palette=palette)

    shown = picture("Kernel values", draw, alternative, inches=SQUARE)
    return Part("kernel", "Kernel", lead, (shown,), (table,))


def drift(subject: Subject) -> Part:
    """Distances of the scored parts from the training rows, in order of writing."""
    groups = subject.collected.groups
    distances = {of: [group.distances[of] for group in groups] for of in MEASURES}
    changes = [i for i in range(1, len(groups)) if groups[i].version != groups[i - 1].version]
    joined = max(len(group.names) for group in groups)
    label = "part, in order of writing" if joined == 1 else f"groups of {joined} parts, in order of writing"
    told: dict[str, Any] = {"changes": changes, "label": label}
    beyond = [group for group in groups if any(d.statistic > d.by_chance for d in group.distances.values())]
    what = "parts" if joined == 1 else "groups of parts"
    lead = (
        f"{len(beyond):,} of {len(groups):,} {what} differ from the training rows by more than chance, in their "
        "reconstruction errors or their T². Each part is compared with the version that scored it."
    )
    if subject.collected.n_without_basis:
        lead += f" {count(subject.collected.n_without_basis)} parts are of versions that are not there any more."
    worst = max(groups, key=_distance)
    novel = [group.n_novel / max(group.n_rows, 1) for group in groups]
    pictures = (
        picture(
            "Distance from the training rows",
            lambda ax, palette: draw_drift(ax, distances, palette=palette, **told),
            f"Distance of Kolmogorov and Smirnov of {len(groups):,} {what} from the training rows, in order of "
            f"writing; the largest is {number(_distance(worst), 2)}, of {worst.names[0]}.",
            "0: distributed like the training rows; 1: no overlap. Within the band it is no more than chance.",
        ),
        picture(
            "Mean over that of the training rows",
            lambda ax, palette: draw_means(ax, distances, palette=palette, **told),
            f"Mean reconstruction error of {len(groups):,} {what}, relative to that of the training rows.",
            "1: as among the training rows.",
        ),
        picture(
            "Novel rows",
            lambda ax, palette: draw_shares(
                ax, novel, 1 - subject.basis.thresholds.quantile, palette=palette, **told
            ),
            f"Share of novel rows of {len(groups):,} {what}, from {share(min(novel))} to {share(max(novel))}.",
            "The line: what rows like the training rows show.",
        ),
    )
    return Part("drift", "Drift over time", lead, pictures, (_drift_table(groups),))


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
            share(group.n_novel / group.n_rows if group.n_rows else None),
            *(number(group.distances[of].statistic, 2) for of in MEASURES),
            number(group.distances["hotelling_t2"].by_chance, 2),
        )
        for group in furthest
    ]
    header = ("first part", "written", "version", "rows", "novel", "distance of e", "of T²", "by chance")
    caption = "Furthest from the training rows" if len(groups) > MOST_DRIFTING else "All parts"
    return Table(caption, header, rows)
