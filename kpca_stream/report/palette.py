"""Colours that a colour-blind reader can tell apart, on a light and on a dark page.

The hues are those of Okabe and Ito (2008); what matters differs in its shape too. Ramps grow darker (lighter
on a dark page) all along, so that they read without any hue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """The colours of a picture.

    Parameters
    ----------
    ink, muted, grid, surface : str
        Of text, of what steps back, of lines to read values by, and behind the picture.
    first, second, third : str
        Of what is shown, of what it is compared with, and of a third thing.
    ramp : tuple of str
        From little to much.
    """

    ink: str
    muted: str
    grid: str
    surface: str
    first: str
    second: str
    third: str
    ramp: tuple[str, ...]

    def style(self) -> dict[Any, Any]:
        """Matplotlib's settings for a picture in these colours, made of the same bytes each time."""
        return {
            "axes.edgecolor": self.muted,
            "axes.facecolor": "none",
            "axes.labelcolor": self.ink,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.facecolor": "none",
            "font.family": "sans-serif",
            "font.size": 10.0,
            "grid.color": self.grid,
            "legend.frameon": False,
            "legend.labelcolor": self.ink,
            "svg.fonttype": "none",
            "svg.hashsalt": "kpca_stream",
            "text.color": self.ink,
            "xtick.color": self.muted,
            "xtick.labelcolor": self.ink,
            "ytick.color": self.muted,
            "ytick.labelcolor": self.ink,
        }


LIGHT = Palette(
    ink="#1b2733",
    muted="#697684",
    grid="#e3e8ed",
    surface="#ffffff",
    first="#0072b2",
    second="#d55e00",
    third="#00785a",
    ramp=("#b9d9ec", "#7fbadc", "#378cc0", "#115b95", "#0a2b52"),
)

DARK = Palette(
    ink="#e6ebf0",
    muted="#93a1af",
    grid="#2b3640",
    surface="#171e26",
    first="#56b4e9",
    second="#f0a23a",
    third="#35c79f",
    ramp=("#255a82", "#2a76ab", "#459fd3", "#90d0ee", "#f2fbff"),
)
