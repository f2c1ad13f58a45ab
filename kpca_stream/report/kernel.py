"""Kernel values between some rows of a basis, ordered by the first component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.report.canvas import axes_or_new, colour_bar, ramp
from kpca_stream.report.palette import LIGHT, Palette
from kpca_stream.report.taking import Model, frozen
from kpca_stream.storage.basis import Basis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

N_ROWS = 120


def kernel_map(
    basis: Model,
    ax: Axes | None = None,
    *,
    n_rows: int = N_ROWS,
    palette: Palette = LIGHT,
) -> Axes:
    """Kernel values k(x_i, x_j) between some rows of the basis, ordered by their score on component 1.

    Blocks along the diagonal are groups of rows that the kernel tells apart. A picture in one colour has a
    kernel that is nearly constant; one with a bare diagonal has one near the identity.

    Parameters
    ----------
    basis : KernelPCA, FittedBasis, Basis or path
    ax : matplotlib.axes.Axes, optional
    n_rows : int
        At most so many rows, evenly spaced over those of the basis.
    palette : Palette

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        For a precomputed kernel, whose basis holds no rows.
    """
    return draw_kernel(axes_or_new(ax), kernel_values(frozen(basis), n_rows), palette=palette)


def kernel_values(basis: Basis, n_rows: int = N_ROWS) -> Array:
    """Values between evenly spaced rows, (b, b) in float64, ordered by component 1."""
    if basis.rows is None:
        raise DataError(
            "basis: its kernel is precomputed, so that it holds no rows; expected one of rows, and a kernel "
            "that can be computed between them"
        )
    chosen = np.unique(np.linspace(0, basis.n_rows - 1, min(n_rows, basis.n_rows)).astype(np.intp))
    X = _rows_at(basis, chosen)
    X = X[np.argsort(_first_scores(basis, X), kind="stable")]
    kernel = basis.kernel
    own = kernel.offset(kernel.operand(X, np.float64))
    return np.asarray(kernel.matrix(X, X) + own[:, None] + own)


def _rows_at(basis: Basis, chosen: Array) -> Array:
    found = []
    for (start, stop), rows, _, _ in basis.blocks():
        inside = chosen[(chosen >= start) & (chosen < stop)] - start
        if len(inside) and rows is not None:
            found.append(rows.load()[inside])
    return np.concatenate(found)


def _first_scores(basis: Basis, X: Array) -> Array:
    """Scores of X (b, d) on component 1 but for a constant, (b,): its centring moves no row past another."""
    scores = np.zeros(len(X))
    for _, rows, coefficients, _ in basis.blocks():
        if rows is not None:
            scores += basis.kernel.matrix(X, rows.load()) @ coefficients[:, 0]
    return scores


def draw_kernel(ax: Axes, values: Array, *, palette: Palette) -> Axes:
    """A square of colours, the row of the least score on component 1 first."""
    image = ax.imshow(values, cmap=ramp(palette), interpolation="none", aspect="equal")
    colour_bar(ax, image, "kernel value")
    ax.set_xlabel("rows in the order of component 1, either way")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax
