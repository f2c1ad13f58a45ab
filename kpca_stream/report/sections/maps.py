"""The first components against each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kpca_stream.report.collect import Map
from kpca_stream.report.maps import INNER_SHARE, draw_map
from kpca_stream.report.page import Part
from kpca_stream.report.pictures import SQUARE, Picture, picture
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kpca_stream.report.palette import Palette


def maps(subject: Subject) -> Part:
    """The first components against each other."""
    found = subject.collected
    scored = found.n_rows > 0
    whose = f"the {count(found.n_rows)} scored rows" if scored else "the training rows"
    lead = f"Where {whose} lie by their first components; each cell is coloured by how many there are."
    if scored and found.maps[0].training is not None:
        lead += f" The line goes around {100 * INNER_SHARE:.0f} % of the training rows."
    if found.unusual.scores is not None:
        n_novel = found.counts(subject.version)[1]
        lead += f" Crosses are novel rows, {_which(len(found.unusual.degrees), n_novel)}."
    pictures = tuple(_map_picture(subject, each) for each in found.maps)
    return Part("maps", "Maps", lead, pictures)


def _which(n_marked: int, n_novel: int) -> str:
    return f"all {n_novel:,}" if n_marked >= n_novel else f"the {n_marked:,} most unusual of {n_novel:,}"


def _map_picture(subject: Subject, each: Map) -> Picture:
    marked, unusual = None, subject.collected.unusual.scores
    if unusual is not None:
        marked = unusual[:, [each.first - 1, each.second - 1]]
    draw = partial(_draw_map, each=each, marked=marked)
    density, (i, j) = each.density, (each.first, each.second)
    filled = int((density.counts > 0).sum())
    alternative = (
        f"Map of component {j} over component {i}: {count(density.n_rows, 'row', 'rows')} in {filled:,} of "
        f"{density.bins**2:,} cells; component {i} from {number(density.x[0], 2)} to "
        f"{number(density.x[1], 2)}, component {j} from {number(density.y[0], 2)} to "
        f"{number(density.y[1], 2)}."
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
