"""Axes to draw on, and the packages that draw."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kpca_stream.errors import ConfigError
from kpca_stream.report.palette import Palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

PACKAGES = ("matplotlib", "jinja2")
MOST_HALF_STEPS = 2000
"""Beyond so many rows in a cell a logarithmic bar names powers of ten alone."""


def check_packages(names: Sequence[str] = PACKAGES) -> None:
    """Raise `ConfigError` where what the report needs is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the report needs {' and '.join(missing)}, not installed here; install the extra: "
            "pip install 'kpca-stream[report]'"
        )


def axes_or_new(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure of pyplot's."""
    if ax is not None:
        return ax
    check_packages(("matplotlib",))
    from matplotlib import pyplot as plt

    made: Axes = plt.subplots(layout="constrained")[1]
    return made


def ramp(palette: Palette) -> Colormap:
    """From little to much; nothing at all is transparent."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("kpca_stream", list(palette.ramp))
    return colours.with_extremes(bad="none")


def colour_bar(ax: Axes, image: Any, label: str, *, whole: bool = False) -> None:
    """A thin bar right of `ax` that tells what the colours of `image` mean: `whole` numbers, or any."""
    from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

    bar: Any = ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.03, aspect=24)
    if whole:
        logarithmic = type(image.norm).__name__ == "LogNorm"
        steps = (1, 3) if logarithmic and image.norm.vmax < MOST_HALF_STEPS else (1,)
        bar.locator = LogLocator(subs=steps, numticks=9) if logarithmic else MaxNLocator(5, integer=True)
        bar.formatter = StrMethodFormatter("{x:,.0f}")
        bar.ax.minorticks_off()
    bar.set_label(label)
    bar.outline.set_visible(False)
    # One picture instead of a path for each of its 256 colours.
    bar.solids.set_rasterized(True)


def legend(ax: Axes, **options: Any) -> None:
    """A legend above the axes, out of the way of what they show."""
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2, "borderaxespad": 0.2}
    ax.legend(**{**place, "handlelength": 1.4, "columnspacing": 1.0, "fontsize": 9.0, **options})
