"""Eigenvalues with what is certain of them, and the share of the variance that they explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.certificate import Certificate
from kpca_stream.report.canvas import axes_or_new, legend
from kpca_stream.report.palette import LIGHT, Palette
from kpca_stream.report.taking import Fitted, Model, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

LOGARITHMIC_FROM = 30.0
"""The ratio of the largest to the smallest value shown from which a linear scale hides the small ones."""


class Bracket(NamedTuple):
    """Between what each exact eigenvalue is, by one certificate: ``limits`` (k, 2)."""

    certificate: Certificate
    limits: Array


def brackets(basis: Fitted) -> list[Bracket]:
    """Those of a Nyström basis, the tightest last; none of an exact one, whose residuals say it all."""
    found = []
    for stored in basis.facts.get("certificates", ()):
        chance = stored["failure_probability"]
        certificate = Certificate(**{**stored, "failure_probability": np.nan if chance is None else chance})
        rounding = np.asarray(basis.facts["rounding"])
        found.append(Bracket(certificate, certificate.brackets(basis.eigenvalues, rounding)))
    return sorted(found, key=lambda each: -each.certificate.bound)


def scree(basis: Model, ax: Axes | None = None, *, palette: Palette = LIGHT) -> Axes:
    """Eigenvalues of the centred Gram matrix, with certificate brackets where they are approximate.

    Parameters
    ----------
    basis : KernelPCA, FittedBasis, Basis or path
        As `kpca_stream.load_basis` gives it, or where it lies.
    ax : matplotlib.axes.Axes, optional
        To draw on; a new figure's by default.
    palette : Palette
        Colours.

    Returns
    -------
    matplotlib.axes.Axes
        Eigenvalues μ_j (not divided by the number of rows) over j = 1, 2, …; a bracket reaches from
        λ̂_j − r_j to λ̂_j + r_j + bound, where the exact eigenvalue lies for certain (dotted: by an estimate).
    """
    found = fitted(basis)
    ax = axes_or_new(ax)
    values = np.asarray(found.eigenvalues)
    position = np.arange(1, len(values) + 1)
    known = brackets(found)
    label = "at least (landmarks)" if known else "eigenvalue"
    ax.plot(position, values, "o-", color=palette.first, lw=1, ms=5, label=label, zorder=3)
    styles = zip(known, (palette.muted, palette.second, palette.third), strict=False)
    for (certificate, limits), colour in styles:
        dashes = "-" if certificate.certified else ":"
        ax.vlines(position, limits[:, 0], limits[:, 1], color=colour, lw=1.5, ls=dashes, zorder=2)
        style: dict[str, Any] = {
            "marker": "_",
            "ms": 9,
            "mew": 1.5,
            "ls": "none",
            "color": colour,
            "zorder": 2,
        }
        ax.plot(position, limits[:, 1], label=_label(certificate), **style)
    if known:
        legend(ax)
    largest = max([values.max(), *(each.limits.max() for each in known)])
    if largest > LOGARITHMIC_FROM * values.min():
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    _number_components(ax, len(values))
    ax.set_ylabel("eigenvalue")
    return ax


def explained(basis: Model, ax: Axes | None = None, *, palette: Palette = LIGHT) -> Axes:
    """Shares of the whole variance, each component's and added up; of landmarks, lower bounds.

    Parameters
    ----------
    basis : KernelPCA, FittedBasis, Basis or path
    ax : matplotlib.axes.Axes, optional
    palette : Palette

    Returns
    -------
    matplotlib.axes.Axes
        μ_j / tr K̃ over j = 1, 2, …, in percent.
    """
    ax = axes_or_new(ax)
    shares = 100 * np.asarray(fitted(basis).explained_variance_ratio)
    position = np.arange(1, len(shares) + 1)
    ax.bar(position, shares, color=palette.first, width=0.7, label="each", zorder=2)
    ax.plot(position, np.cumsum(shares), "s-", color=palette.second, ms=4, lw=1.5, label="added up", zorder=3)
    ax.set_ylim(0, max(1.0, min(100.0, 1.12 * shares.sum())))
    ax.set_ylabel("share of the variance, %")
    _number_components(ax, len(shares))
    legend(ax)
    return ax


def _label(certificate: Certificate) -> str:
    return f"at most, {certificate.kind}" if certificate.certified else "about, sampled"


def _number_components(ax: Axes, n_components: int) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.set_xlabel("component")
    ax.set_xlim(0.3, n_components + 0.7)
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.grid(axis="y")
    ax.set_axisbelow(True)
