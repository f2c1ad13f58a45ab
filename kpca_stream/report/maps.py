"""Maps of two components: how many rows lie where, of any number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.report.canvas import axes_or_new, colour_bar, legend, ramp
from kpca_stream.report.palette import LIGHT, Palette
from kpca_stream.report.taking import score_blocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]
Range = tuple[float, float]

MOST_BINS = 80
LEAST_BINS = 16
MARGIN = 0.07
FEW = 20
"""Rows in the fullest cell, below which colours are spread in equal steps."""
INNER_SHARE = 0.95
"""Of the training rows, within the line that shows where they lie."""


class Density:
    """Counts of rows in the cells of a map; rows beyond its edges are counted apart.

    Parameters
    ----------
    x, y : tuple of float
        From where to where.
    bins : int
        Cells along either.
    """

    def __init__(self, x: Range, y: Range, bins: int = MOST_BINS) -> None:
        self.x, self.y, self.bins = _widened(x), _widened(y), bins
        self.counts = np.zeros((bins, bins))
        self.n_outside = 0.0

    def add(self, x: Array, y: Array, weights: Array | None = None) -> Self:
        """Count rows; a row of weight w counts as w of them."""
        column, row = self._cells(x, self.x), self._cells(y, self.y)
        inside = (column >= 0) & (column < self.bins) & (row >= 0) & (row < self.bins)
        w = np.ones(len(inside)) if weights is None else np.asarray(weights)
        flat = row[inside] * self.bins + column[inside]
        self.counts += np.bincount(flat, w[inside], self.bins**2).reshape(self.bins, self.bins)
        self.n_outside += float(w[~inside].sum())
        return self

    @property
    def n_rows(self) -> float:
        """Rows on the map, and beyond it."""
        return float(self.counts.sum()) + self.n_outside

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top."""
        return (*self.x, *self.y)

    def level_of(self, share: float) -> float:
        """The density above which the cells hold this share of the rows on the map."""
        counts = np.sort(_smooth(self.counts).ravel())[::-1]
        within = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        return float(counts[min(within, len(counts) - 1)])

    def centres(self) -> tuple[Array, Array]:
        """Of the cells, along x and along y."""
        half = 0.5 / self.bins
        steps = np.linspace(half, 1 - half, self.bins)
        return self.x[0] + steps * (self.x[1] - self.x[0]), self.y[0] + steps * (self.y[1] - self.y[0])

    def _cells(self, values: Array, limits: Range) -> Array:
        scaled = (np.asarray(values) - limits[0]) * (self.bins / (limits[1] - limits[0]))
        # What is far beyond the map must not overflow an integer.
        return np.clip(np.floor(scaled), -1, self.bins).astype(np.intp)


def component_map(
    scores: Any,
    ax: Axes | None = None,
    *,
    first: int = 1,
    second: int = 2,
    bins: int | None = None,
    palette: Palette = LIGHT,
) -> Axes:
    """Two components of any number of rows as a density, in bounded memory.

    Parameters
    ----------
    scores : array of shape (n_rows, n_components), path, KernelPCA or FittedBasis
        Scores, or the folder of their parts, which is read twice, block by block; of a model its training
        rows, of landmarks those that it keeps as a sample.
    ax : matplotlib.axes.Axes, optional
    first, second : int
        Components along x and y, counted from 1.
    bins : int, optional
        Cells along either; by default as many as that number of rows fills.
    palette : Palette

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ConfigError
        For a component that there is not.
    DataError
        If there are no rows.
    """
    x_range, y_range, n_rows = _looked_at(score_blocks(scores, first, second))
    density = Density(x_range, y_range, bins or bins_for(n_rows))
    for x, y, weights in score_blocks(scores, first, second):
        density.add(x, y, weights)
    return draw_map(axes_or_new(ax), density, first=first, second=second, palette=palette)


def draw_map(
    ax: Axes,
    density: Density,
    *,
    first: int,
    second: int,
    palette: Palette,
    training: Density | None = None,
    marked: Array | None = None,
) -> Axes:
    """A density, with a line around most training rows and marks on some others."""
    shown = np.where(density.counts > 0, density.counts, np.nan)
    image = ax.imshow(
        shown,
        cmap=ramp(palette),
        norm=_scale(density.counts),
        origin="lower",
        extent=density.extent,
        aspect="auto",
        interpolation="none",
    )
    colour_bar(ax, image, "rows in a cell", whole=True)
    if training is not None:
        _outline(ax, training, palette)
    if marked is not None and len(marked):
        style: dict[str, Any] = {"marker": "x", "ls": "none", "ms": 5, "mew": 1.2, "color": palette.second}
        ax.plot(marked[:, 0], marked[:, 1], label="novel", **style)
    if ax.get_legend_handles_labels()[0]:
        legend(ax)
    ax.set_xlim(*density.x)
    ax.set_ylim(*density.y)
    ax.set_xlabel(f"component {first}")
    ax.set_ylabel(f"component {second}")
    return ax


def _scale(counts: Array) -> Any:
    """Equal steps for a few rows in a cell, equal ratios for many."""
    from matplotlib.colors import LogNorm, Normalize

    most = float(counts.max())
    return Normalize(0, max(most, 1.0)) if most < FEW else LogNorm(1, most, clip=True)


def _outline(ax: Axes, training: Density, palette: Palette) -> None:
    level = training.level_of(INNER_SHARE)
    if level <= 0:
        return
    smooth = _smooth(training.counts)
    ax.contour(*training.centres(), smooth, levels=[level], colors=[palette.ink], linewidths=1.1)
    ax.plot([], [], color=palette.ink, lw=1.1, label=f"{100 * INNER_SHARE:.0f} % of the training rows")


def _smooth(counts: Array) -> Array:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(counts, 1.5))


def bins_for(n_rows: float) -> int:
    """Cells along either side of a map, so that most that are taken hold more than a row or two."""
    return int(np.clip(4 * n_rows ** (1 / 3), LEAST_BINS, MOST_BINS))


def _looked_at(blocks: Iterable[tuple[Array, Array, Array | None]]) -> tuple[Range, Range, int]:
    low, high, n_rows = np.full(2, np.inf), np.full(2, -np.inf), 0
    for x, y, _ in blocks:
        n_rows += len(x)
        if len(x):
            low = np.minimum(low, [x.min(), y.min()])
            high = np.maximum(high, [x.max(), y.max()])
    if not np.isfinite([low, high]).all():
        raise DataError("scores: got no rows to show, or infinite ones; expected finite scores of some rows")
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1])), n_rows


def _widened(limits: Range) -> Range:
    """With some room at either end, so that no row lies on the edge."""
    low, high = limits
    room = MARGIN * (high - low) or 0.5 * abs(low) or 0.5
    return low - room, high + room
