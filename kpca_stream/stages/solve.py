"""Block Lanczos or dense over the centred operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.eigensolve import (
    GUARD_COLUMNS,
    Criteria,
    Eigenpairs,
    Operator,
    Wanted,
    block_lanczos,
    block_width,
    expected_components,
)

Array = NDArray[Any]

SINGLE_TOLERANCE = 1e-6
"""To which float32 products are iterated before one float64 product refines."""
MIXED_ERROR = 1e-10
"""To which the float64 step of a mixed solve makes eigenvalues exact, relative to the first."""
GUARDED_PASSES = 2
"""Passes after which these have shown what the start lacks."""


class Centred(Operator, Protocol):
    """An operator that knows the direction which centring removes."""

    def centred(self, V: Array) -> Array:
        """V without that direction."""


@dataclass(frozen=True)
class LanczosSettings:
    """How far to go.

    Parameters
    ----------
    n_components : int or float
        How many, or in (0, 1) the fewest that make up this share of `trace`.
    max_components : int
        At most so many for a share.
    tol : float
        Largest residual norm relative to the first eigenvalue.
    max_passes : int
        Products of the operator with a block, all precisions together.
    max_columns : int
        Basis vectors held at once.
    seed : int
        Of the random first block.
    """

    n_components: int | float
    max_components: int
    tol: float
    max_passes: int
    max_columns: int
    seed: int


def wanted_components(
    n_components: int | float,  # noqa: PYI041  a number and a share are told apart by their types
    max_components: int,
    trace: Callable[[], float],
) -> Wanted:
    """How many leading pairs are wanted, given estimates θ_1 ≥ θ_2 ≥ … of the eigenvalues.

    Ritz values bound eigenvalues from below, so that a share they make up is certified.
    """
    if not isinstance(n_components, float):
        return lambda theta: min(n_components, len(theta)) if len(theta) >= 1 else n_components

    def fewest(theta: Array) -> int | None:
        reached = np.cumsum(np.maximum(theta[:max_components], 0.0)) >= n_components * trace()
        if reached.any():
            return int(np.argmax(reached)) + 1
        # Once as many as may be taken are known, there is nothing to wait for.
        return max_components if len(theta) >= max_components else None

    return fewest


def solve(
    coarse: Centred | None,
    fine: Centred | None,
    settings: LanczosSettings,
    trace: Callable[[], float],
    n_samples: int,
    *,
    start: Array | None = None,
) -> Eigenpairs:
    """Leading eigenpairs by block Lanczos.

    Parameters
    ----------
    coarse : Centred or None
        The operator in float32; None for float64 throughout.
    fine : Centred or None
        The operator in float64; None for float32 throughout. With both, float32 products are iterated first
        and the Ritz vectors they give are refined in float64, most often by a single product.
    settings : LanczosSettings
    trace : callable
        tr K̃, once an operator has been applied.
    n_samples : int
        Rows.
    start : ndarray of shape (n, w), optional
        Vectors near the leading eigenvectors, instead of random ones.
    """
    wanted = wanted_components(settings.n_components, settings.max_components, trace)
    first = Criteria(
        min_passes=1 if start is None else GUARDED_PASSES,
        stop_stagnant=coarse is not None and fine is not None,
    )
    start = _first_block(settings, n_samples, start)
    found: Eigenpairs | None = None
    if coarse is not None:
        tol = settings.tol if fine is None else max(settings.tol, SINGLE_TOLERANCE)
        found = _lanczos(coarse, coarse.centred(start), wanted, settings, tol, np.float32, first)
    if fine is None:
        return _required(found)
    if found is None:
        return _lanczos(fine, fine.centred(start), wanted, settings, settings.tol, np.float64, first)
    # Half of the columns, which take as much memory in float64.
    left = replace(
        settings,
        max_passes=max(1, settings.max_passes - found.n_passes),
        max_columns=settings.max_columns // 2,
    )
    block, last = fine.centred(found.ritz_block), Criteria(value_error=MIXED_ERROR)
    refined = _lanczos(fine, block, wanted, left, settings.tol, np.float64, last)
    # The few float64 passes start from leading vectors only: the low end was seen in float32.
    smallest = min(found.smallest, refined.smallest)
    return replace(refined, n_passes=found.n_passes + refined.n_passes, smallest=smallest)


def _lanczos(
    operator: Centred,
    start: Array,
    wanted: Wanted,
    settings: LanczosSettings,
    tol: float,
    dtype: Any,
    criteria: Criteria,
) -> Eigenpairs:
    return block_lanczos(
        operator,
        start,
        wanted=wanted,
        tol=tol,
        max_passes=settings.max_passes,
        max_columns=max(settings.max_columns, 3 * start.shape[1]),
        dtype=dtype,
        criteria=criteria,
    )


def _first_block(settings: LanczosSettings, n_samples: int, start: Array | None) -> Array:
    width = block_columns(settings.n_components, n_samples)
    random = np.random.default_rng(settings.seed)
    if start is None:
        return random.standard_normal((n_samples, width))
    missing = max(width - start.shape[1], 0) + GUARD_COLUMNS
    return np.column_stack([start, random.standard_normal((n_samples, missing)) / np.sqrt(n_samples)])


def block_columns(n_components: int | float, n_samples: int) -> int:  # noqa: PYI041  as above
    """Columns of the first block for a number or a share of components."""
    return block_width(expected_components(n_components, n_samples), n_samples)


def _required(found: Eigenpairs | None) -> Eigenpairs:
    if found is None:
        raise TypeError("a solve needs an operator, in float32 or float64")
    return found
