"""How scored rows move away from the training rows, from part to part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics.drift import sampling_bound
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.report.canvas import axes_or_new, legend
from kpca_stream.report.novelty import limit_of
from kpca_stream.report.palette import LIGHT, Palette
from kpca_stream.report.taking import MEASURES, Model, frozen, value_parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

TIE = 1e-9
ORDER = "part, in order of writing"


class Distance:
    """How far the distribution of one measure is from that of the training rows.

    Parameters
    ----------
    thresholds : Thresholds
    of : {"reconstruction_error", "hotelling_t2"}
    n_training : float
        From how many rows the quantiles were taken.
    """

    def __init__(self, thresholds: Thresholds, of: str, n_training: float) -> None:
        self.n_training = n_training
        _, quantiles = limit_of(thresholds, of)
        # Copies of a training row share their place; rounding must not part them.
        edges, last = np.unique(quantiles[::-1], return_index=True)
        self.edges = edges + TIE * np.abs(edges)
        self.below = 1.0 - last / (len(quantiles) - 1)
        self.expected = float(np.trapezoid(quantiles, dx=1.0 / (len(quantiles) - 1)))
        self.counts = np.zeros(len(edges) + 1)
        self.total, self.n_rows = 0.0, 0

    def add(self, values: Array) -> Self:
        """Count values; those that are not known are left out."""
        values = values[np.isfinite(values)]
        self.counts += np.bincount(np.searchsorted(self.edges, values), minlength=len(self.counts))
        self.total += float(values.sum())
        self.n_rows += len(values)
        return self

    @classmethod
    def joined(cls, parts: Sequence[Distance]) -> Distance:
        """That of the rows of all parts, which are compared with the same training rows."""
        found = copy(parts[0])
        found.counts = np.sum([part.counts for part in parts], axis=0)
        found.total = sum(part.total for part in parts)
        found.n_rows = sum(part.n_rows for part in parts)
        return found

    @property
    def statistic(self) -> float:
        """Kolmogorov's and Smirnov's: the largest difference of the two shares below a training quantile."""
        if not self.n_rows or not np.isfinite(self.edges).all():
            return float("nan")
        shares = np.cumsum(self.counts)[:-1] / self.n_rows
        return float(np.abs(shares - self.below).max())

    @property
    def by_chance(self) -> float:
        """What equal sources pass with a chance of one in a thousand."""
        return sampling_bound(self.n_rows, self.n_training) if self.n_rows else float("nan")

    @property
    def relative_mean(self) -> float:
        """The mean over that of the training rows."""
        known = self.n_rows and self.expected > 0
        return self.total / self.n_rows / self.expected if known else float("nan")


def drift_plot(
    scores: Any,
    basis: Model,
    ax: Axes | None = None,
    *,
    palette: Palette = LIGHT,
) -> Axes:
    """How far each part's reconstruction errors and T² are distributed from those of the training rows.

    Parameters
    ----------
    scores : path, or sequence of scores
        A folder of parts, in order of writing, or what `FittedBasis.score` gave for each part.
    basis : KernelPCA, FittedBasis, Basis or path
        That they were scored against.
    ax : matplotlib.axes.Axes, optional
    palette : Palette

    Returns
    -------
    matplotlib.axes.Axes
        The distance of Kolmogorov and Smirnov, from 0 to 1, over the parts; what is within the band is no
        more than chance.

    Raises
    ------
    DataError
        If there are no parts.
    """
    known = frozen(basis)
    found = {
        of: _distances(value_parts(scores, of), known.thresholds, of, known.rows_of_thresholds)
        for of in MEASURES
    }
    if not found["hotelling_t2"]:
        raise DataError("scores: got no parts, expected some; score rows first")
    return draw_drift(axes_or_new(ax), found, palette=palette)


def _distances(
    parts: Iterable[Iterable[Array]], thresholds: Thresholds, of: str, n_training: float
) -> list[Distance]:
    found = []
    for part in parts:
        distance = Distance(thresholds, of, n_training)
        for values in part:
            distance.add(values)
        found.append(distance)
    return found


def draw_drift(
    ax: Axes,
    distances: Mapping[str, Sequence[Distance]],
    *,
    palette: Palette,
    changes: Sequence[int] = (),
    label: str = ORDER,
) -> Axes:
    """Lines of both measures over the parts, the band of chance, and where the version changes."""
    looks = {
        "reconstruction_error": ("o-", palette.first, "error e"),
        "hotelling_t2": ("s--", palette.second, "T²"),
    }
    longest = max((len(each) for each in distances.values()), default=0)
    by_chance = [d.by_chance for d in distances["hotelling_t2"]]
    position = np.arange(1, longest + 1)
    ax.fill_between(position, 0, by_chance, step="mid", color=palette.muted, alpha=0.22, lw=0, label="chance")
    for of, (style, colour, name) in looks.items():
        values = [distance.statistic for distance in distances.get(of, ())]
        if np.isfinite(values).any():
            ax.plot(position, values, style, color=colour, ms=4 if longest < 60 else 2, lw=1.3, label=name)
    _mark(ax, changes, palette)
    _number_parts(ax, longest, label)
    top = np.nanmax([0.1, *by_chance, *(d.statistic for each in distances.values() for d in each)])
    ax.set_ylim(0, min(1.0, 1.1 * float(top)))
    ax.set_ylabel("distance (KS), 0 to 1")
    legend(ax, ncols=3)
    return ax


def draw_means(
    ax: Axes,
    distances: Mapping[str, Sequence[Distance]],
    *,
    palette: Palette,
    changes: Sequence[int] = (),
    label: str = ORDER,
) -> Axes:
    """Mean reconstruction error (T² where it is not known) over that of the training rows."""
    of = "reconstruction_error"
    values = [distance.relative_mean for distance in distances[of]]
    if not np.isfinite(values).any():
        of = "hotelling_t2"
        values = [distance.relative_mean for distance in distances[of]]
    position = np.arange(1, len(values) + 1)
    ax.axhline(1.0, color=palette.muted, lw=1.2, ls=(0, (4, 2)), label="training rows")
    ax.plot(
        position,
        values,
        "o-",
        color=palette.first,
        ms=4 if len(values) < 60 else 2,
        lw=1.3,
        label="scored rows",
    )
    _mark(ax, changes, palette)
    _number_parts(ax, len(values), label)
    ax.set_ylim(0, 1.15 * max(1.0, float(np.nanmax([*values, 1.0]))))
    ax.set_ylabel("mean e / training" if of == "reconstruction_error" else "mean T² / training")
    legend(ax)
    return ax


def draw_shares(
    ax: Axes,
    shares: Sequence[float],
    expected: float,
    *,
    palette: Palette,
    changes: Sequence[int] = (),
    label: str = ORDER,
) -> Axes:
    """Shares of novel rows over the parts, beside the expected one."""
    percents = 100 * np.asarray(shares)
    position = np.arange(1, len(shares) + 1)
    style: dict[str, Any] = {"color": palette.muted, "lw": 1.2, "ls": (0, (4, 2))}
    ax.axhline(100 * expected, label="expected", **style)
    ax.bar(position, percents, color=palette.first, width=0.7, label="novel rows")
    _mark(ax, changes, palette)
    _number_parts(ax, len(shares), label)
    ax.set_ylim(0, 1.15 * max(200 * expected, float(percents.max(initial=0.0))))
    ax.set_ylabel("novel rows, %")
    legend(ax)
    return ax


def _mark(ax: Axes, changes: Sequence[int], palette: Palette) -> None:
    for index, change in enumerate(changes):
        ax.axvline(change + 0.5, color=palette.third, lw=1.2, ls=":", label="" if index else "new version")


def _number_parts(ax: Axes, n_parts: int, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.set_xlim(0.5, n_parts + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.set_xlabel(label)
    ax.grid(axis="y")
    ax.set_axisbelow(True)
