"""A picture of what was tried: scores over gamma, a line for each kernel and number of components."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca_stream.errors import ConfigError
from kpca_stream.tune_results import Trial, TuneSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERS = ("gamma", "degree", "coef0", "n_components")
# Okabe and Ito's colours, which a colour-blind reader can tell apart; the shapes of points differ, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def plot_tuning(summary: TuneSummary, axes: Axes | None = None) -> Axes:
    """Draw scores over the number that was swept, with their spread over the folds; a ring around the best.

    Parameters
    ----------
    summary : TuneSummary
    axes : matplotlib Axes, optional
        Where to draw; without it, on a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ConfigError
        If Matplotlib is not installed.
    """
    if axes is None:
        axes = _figure().subplots()
    swept = _swept(summary)
    for index, (name, trials) in enumerate(_lines(summary, swept)):
        _draw(axes, index, name, [(getattr(trial, swept), trial) for trial in trials])
    best = summary.best
    ring: dict[str, Any] = {
        "s": 180,
        "facecolors": "none",
        "edgecolors": "black",
        "linewidths": 1.5,
        "zorder": 3,
    }
    axes.scatter([_place(best, swept)], [best.score or 0.0], label="best", **ring)
    if swept == "gamma" and any(trial.gamma for trial in summary.trials):
        axes.set_xscale("log")
    axes.set_xlabel(swept)
    axes.set_ylabel(
        "pre-image error / variance" if summary.less_is_better else f"score of {summary.criterion}"
    )
    axes.set_title(f"{summary.n_sampled:,} of {summary.n_samples:,} rows, {summary.folds} folds", loc="left")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return axes


def save_plot(summary: TuneSummary, path: Path) -> None:
    """Write the picture, in the format that the name's end says."""
    figure: Any = plot_tuning(summary).figure
    figure.savefig(path)


def check_plotting(path: Path) -> None:
    """Refuse at once what could not be drawn in the end, and make the folder.

    Raises
    ------
    ConfigError
        If Matplotlib is not installed, or has no format of this name's end; or if a picture must not be
        written there.
    OSError
        If there is no folder, and none can be made.
    """
    if path.suffix.removeprefix(".") not in _figure().canvas.get_supported_filetypes():
        raise ConfigError(f"plot: got {path}, expected a name that ends in .png, .svg or .pdf")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"plot: got {path}, expected a file that may be written; choose another path")


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "plot: got no Matplotlib, expected the extra report: pip install 'kpca-stream[report]'"
        ) from error
    return Figure(figsize=(7, 4.5), layout="constrained")


def _swept(summary: TuneSummary) -> str:
    """The first of the numbers that has several values."""
    counts = {name: len({getattr(trial, name) for trial in summary.trials} - {None}) for name in NUMBERS}
    return next((name for name in NUMBERS if counts[name] > 1), "n_components")


def _lines(summary: TuneSummary, swept: str) -> Iterator[tuple[str, list[Trial]]]:
    """What is joined by a line: trials that differ in the swept number alone."""

    def name(trial: Trial) -> str:
        others = [(key, getattr(trial, key)) for key in NUMBERS if key != swept]
        return ", ".join([trial.kernel, *(f"{key} {value:g}" for key, value in others if value is not None)])

    judged = sorted((trial for trial in summary.trials if trial.score is not None), key=name)
    for title, group in groupby(judged, key=name):
        yield title, sorted(group, key=lambda trial: _place(trial, swept))


def _place(trial: Trial, swept: str) -> float:
    value = getattr(trial, swept)
    return 1.0 if value is None else float(value)


def _draw(axes: Axes, index: int, name: str, points: list[tuple[float | None, Trial]]) -> None:
    scores = [trial.score or 0.0 for _, trial in points]
    style: dict[str, Any] = {"color": COLOURS[index % 7], "label": name}
    if any(place is None for place, _ in points):  # a kernel without the number that was swept
        axes.axhline(scores[0], linestyle="--", **style)
        return
    spreads = [trial.spread or 0.0 for _, trial in points]
    places = [float(place or 0.0) for place, _ in points]
    axes.errorbar(places, scores, yerr=spreads, marker=MARKERS[index % 7], capsize=3, **style)
