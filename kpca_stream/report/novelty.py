"""Reconstruction errors and T² of scored rows, beside those of the training rows and the threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.report.canvas import axes_or_new, legend
from kpca_stream.report.palette import LIGHT, Palette
from kpca_stream.report.taking import Model, check_measure, fitted, value_blocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

BINS = 60
SPAN = 2.5
"""At most so many times the threshold is shown; what lies beyond is counted in the last bin."""
LEAST_SPAN = 1.25
NAMES = {"reconstruction_error": "reconstruction error", "hotelling_t2": "Hotelling's T²"}
SYMBOLS = {"reconstruction_error": "error e", "hotelling_t2": "T²"}
TITLES = {"reconstruction_error": "Reconstruction error", "hotelling_t2": "Hotelling's T²"}


def limit_of(thresholds: Thresholds, of: str) -> tuple[float, Array]:
    """The threshold of one measure, and its training quantiles 0, 0.001, …, 1."""
    quantiles = thresholds.error_quantiles if of == "reconstruction_error" else thresholds.t2_quantiles
    return float(getattr(thresholds, of)), quantiles


class Histogram:
    """Counts of one measure in bins as wide as each other, from the training values to beyond the threshold.

    Parameters
    ----------
    thresholds : Thresholds
    of : {"reconstruction_error", "hotelling_t2"}
    largest : float, optional
        Of the values to come, where that is known.
    bins : int
    """

    def __init__(self, thresholds: Thresholds, of: str, *, largest: float = np.inf, bins: int = BINS) -> None:
        self.of = of
        self.limit, self.quantiles = limit_of(thresholds, of)
        known = self.quantiles[np.isfinite(self.quantiles)]
        end = self._end(float(known.max(initial=0.0)), largest) or 1.0
        start = float(known.min(initial=end))
        start = start if start > 0.2 * end else 0.0
        self.edges = np.linspace(start, end, bins + 1)
        self.counts = np.zeros(bins)
        self.n_rows = self.n_above = self.n_past_end = 0
        self.total = 0.0

    def _end(self, trained: float, largest: float) -> float:
        reached = 1.05 * (max(trained, largest) if np.isfinite(largest) else trained)
        if not np.isfinite(self.limit):
            return reached
        most = SPAN * self.limit
        return min(max(reached, LEAST_SPAN * self.limit), most) if np.isfinite(largest) else most

    def add(self, values: Array) -> Self:
        """Count values; those that are not known are left out."""
        values = values[np.isfinite(values)]
        self.n_rows += len(values)
        self.total += float(values.sum())
        self.n_above += int((values > self.limit).sum())
        self.n_past_end += int((values > self.edges[-1]).sum())
        self.counts += np.histogram(np.clip(values, self.edges[0], self.edges[-1]), self.edges)[0]
        return self

    @property
    def mean(self) -> float:
        """Of the values that were counted."""
        return self.total / self.n_rows if self.n_rows else float("nan")

    @property
    def training_mean(self) -> float:
        """Of the training rows, from their quantiles."""
        return float(np.trapezoid(self.quantiles, dx=1 / (len(self.quantiles) - 1)))

    @property
    def shares(self) -> Array:
        """Of the rows, in each bin."""
        return np.asarray(self.counts / max(self.n_rows, 1))

    @property
    def training_shares(self) -> Array:
        """The same of the training rows, from their quantiles."""
        below = np.interp(self.edges, self.quantiles, np.linspace(0.0, 1.0, len(self.quantiles)))
        below[-1] = 1.0
        return np.diff(below)


def novelty_plot(
    scores: Any,
    basis: Model,
    ax: Axes | None = None,
    *,
    of: str = "reconstruction_error",
    palette: Palette = LIGHT,
) -> Axes:
    """How one measure of novelty is distributed over scored and training rows, and where it tells a row.

    Parameters
    ----------
    scores : path, scores or array of shape (n_rows,)
        A folder of parts, read block by block; what `FittedBasis.score` gives; or the values.
    basis : KernelPCA, FittedBasis, Basis or path
        That they were scored against.
    ax : matplotlib.axes.Axes, optional
    of : {"reconstruction_error", "hotelling_t2"}
    palette : Palette

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        If no value is known, as for a precomputed kernel without its diagonal.
    """
    check_measure(of)
    histogram = Histogram(fitted(basis).thresholds, of)
    for values in value_blocks(scores, of):
        histogram.add(values)
    if histogram.n_rows == 0:
        raise DataError(
            f"{of}: got no known values, expected some; a precomputed kernel has them of T² alone"
        )
    return draw_novelty(axes_or_new(ax), histogram, palette=palette)


def draw_novelty(ax: Axes, histogram: Histogram, *, palette: Palette) -> Axes:
    """Bars of the scored rows, a line of the training rows, and the threshold."""
    edges = histogram.edges
    if histogram.n_rows:
        ax.stairs(100 * histogram.shares, edges, fill=True, color=palette.first, alpha=0.75, label="scored")
    if np.isfinite(histogram.quantiles).all():
        style: dict[str, Any] = {"color": palette.ink, "lw": 1.4, "label": "training"}
        ax.stairs(100 * histogram.training_shares, edges, **style)
    if np.isfinite(histogram.limit):
        ax.axvline(histogram.limit, color=palette.second, lw=1.8, ls=(0, (5, 2)), label="threshold")
    ax.set_yscale("symlog", linthresh=0.1, linscale=0.5)
    ax.set_ylim(0, 130)
    ax.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    ax.minorticks_off()
    ax.set_xlim(edges[0], edges[-1])
    beyond = ", last bin: all beyond" if histogram.n_past_end else ""
    ax.set_xlabel(f"{NAMES[histogram.of]}{beyond}")
    ax.set_ylabel("rows, %")
    ax.grid(axis="y")
    ax.set_axisbelow(True)
    legend(ax, ncols=3)
    return ax
