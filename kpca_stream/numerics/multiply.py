"""Tiles times blocks of vectors, strip by strip, each tile once for both of its sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kpca_stream.numerics.buffer import Buffer
from kpca_stream.numerics.kernels import Kernel, Operand

Array = NDArray[Any]
Strip = tuple[slice, Array]

STRIP_ROWS = 512


@dataclass(frozen=True, eq=False)
class Workspace:
    """Memory that one tile after the other uses: a strip, and its products with both sides."""

    strip: Buffer = field(default_factory=Buffer)
    product: Buffer = field(default_factory=Buffer)
    mirrored: Buffer = field(default_factory=Buffer)


def computed_strips(
    kernel: Kernel,
    A: Operand,
    B: Operand,
    dtype: DTypeLike,
    *,
    diagonal: bool,
    out: Array | None = None,
    workspace: Workspace | None = None,
) -> Iterator[Strip]:
    """The tile k'(A, B) as strips of rows, those of `out` (n_a, n_b); without it the next overwrites each.

    A strip's values do not depend on whether the tile is kept, so that stored and recomputed tiles give
    the same bits.
    """
    space = workspace or Workspace()
    strip = space.strip.array((min(STRIP_ROWS, len(A)), len(B)), dtype) if out is None else out[:0]
    exact = kernel.diagonal(A) if diagonal else None
    for rows in strip_slices(len(A)):
        T = strip[: rows.stop - rows.start] if out is None else out[rows]
        kernel.fill(A.strip(rows.start, rows.stop), B, T)
        if exact is not None:
            T[np.arange(len(T)), np.arange(rows.start, rows.stop)] = exact[rows]
        yield rows, T


def stored_strips(T: Array) -> Iterator[Strip]:
    """A tile in memory as strips of rows."""
    return ((rows, T[rows]) for rows in strip_slices(len(T)))


def multiply_tile(
    strips: Iterable[Strip],
    V_i: Array,
    V_j: Array,
    P_i: Array,
    P_j: Array | None,
    workspace: Workspace | None = None,
) -> None:
    """P_i += T·V_j and, off the diagonal, P_j += Tᵀ·V_i.

    Parameters
    ----------
    strips : iterable of (slice, ndarray)
        T (n_i, n_j) in strips of rows.
    V_i, V_j : ndarray of shape (n_i, w), (n_j, w)
        In the precision of T; a strip's product is taken in it.
    P_i, P_j : ndarray of shape (n_i, w), (n_j, w)
        Sums of the strips' products, float64; P_j is None for a tile on the diagonal.
    workspace : Workspace, optional
    """
    space, width = workspace or Workspace(), V_j.shape[1]
    for rows, T in strips:
        P_i[rows] += np.matmul(T, V_j, out=space.product.array((len(T), width), T.dtype))
        if P_j is not None:
            P_j += np.matmul(T.T, V_i[rows], out=space.mirrored.array((T.shape[1], width), T.dtype))


def strip_slices(n_rows: int) -> Iterator[slice]:
    """Row slices of the strips of a tile."""
    return (slice(i, min(i + STRIP_ROWS, n_rows)) for i in range(0, n_rows, STRIP_ROWS))
