"""Both measures of novelty with their thresholds, of scored rows beside training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca_stream.report.novelty import NAMES, SYMBOLS, TITLES, Histogram, draw_novelty
from kpca_stream.report.page import Part, Table
from kpca_stream.report.pictures import picture
from kpca_stream.report.subject import Subject
from kpca_stream.report.taking import MEASURES
from kpca_stream.report.words import count, number, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kpca_stream.report.palette import Palette


def novelty(subject: Subject) -> Part:
    """Both measures with their thresholds, of scored rows beside training rows."""
    found, limits = subject.collected, subject.basis.thresholds
    known = [found.histograms[of] for of in MEASURES if np.isfinite(found.histograms[of].quantiles).any()]
    expected = share(1 - limits.quantile)
    if found.n_rows:
        n_rows, n_novel = found.counts(subject.version)
        lead = (
            f"{count(n_novel)} of {count(n_rows, 'scored row', 'scored rows')} are novel, "
            f"{share(n_novel / n_rows)}: they pass one of the two thresholds, as {expected} of rows like "
            "the training rows do."
        )
    else:
        lead = (
            "No rows were scored by this version yet. Of rows like the training rows, "
            f"{expected} will be novel."
        )
    note = "Logarithmic from 0.1\N{NO-BREAK SPACE}% on, so that the few rows beyond the threshold show."
    pictures = tuple(
        picture(TITLES[each.of], _drawing_of(each), _told_histogram(each), note) for each in known
    )
    header = ("", *(SYMBOLS[each.of] for each in known))
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
        scored = count(histogram.n_rows, "scored row", "scored rows")
        text += f"; {count(histogram.n_above)} of {scored} are beyond it"
    return f"{text}."


def _novelty_rows(known: Sequence[Histogram]) -> Iterator[tuple[str, ...]]:
    yield "threshold", *(number(each.limit) for each in known)
    yield "training median", *(number(each.quantiles[500]) for each in known)
    yield "training mean", *(number(each.training_mean) for each in known)
    yield "scored mean", *(number(each.mean) for each in known)
    yield "scored beyond", *(count(each.n_above) for each in known)
    yield "share beyond", *(share(each.n_above / each.n_rows if each.n_rows else None) for each in known)
