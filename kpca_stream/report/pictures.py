"""Plots as pictures inside a page: SVG for a light and for a dark one, with a text in their place."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kpca_stream.report.palette import DARK, LIGHT, Palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (4.0, 3.0)
SQUARE = (4.0, 3.5)
"""About the width of a phone, so that letters there are not too small; a desktop has room to enlarge."""
PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Picture:
    """One plot.

    Parameters
    ----------
    title : str
    light, dark : str
        Data URIs of the two pictures.
    alternative : str
        What it shows, in words.
    note : str
        How to read it.
    width, height : int
        In pixels.
    """

    title: str
    light: str
    dark: str
    alternative: str
    note: str
    width: int
    height: int


def picture(
    title: str,
    draw: Callable[[Axes, Palette], Any],
    alternative: str,
    note: str = "",
    *,
    inches: tuple[float, float] = INCHES,
) -> Picture:
    """Draw a plot on axes of its own, once for either page."""
    light, dark = (_drawn(draw, palette, inches) for palette in (LIGHT, DARK))
    width, height = (round(PIXELS_PER_INCH * each) for each in inches)
    return Picture(title, light, dark, alternative, note, width, height)


def _drawn(draw: Callable[[Axes, Palette], Any], palette: Palette, inches: tuple[float, float]) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(palette.style()):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure.add_subplot(), palette)
        file = io.BytesIO()
        nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=nothing)
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
