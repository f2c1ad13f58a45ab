"""Eigenpairs of a large symmetric operator from few products with blocks of vectors.

Block Krylov with full reorthogonalization, Rayleigh–Ritz and thick restart. One product of the operator
with a block is a *pass*; passes over an n × n matrix are what everything else is small against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import eigh

from kpca_stream.numerics import tall

Array = NDArray[Any]


class Operator(Protocol):
    """A symmetric operator that is only known by its products."""

    @property
    def rounding(self) -> float:
        """Absolute size of the rounding error of a product with a unit vector."""

    def __call__(self, V: Array) -> Array:
        """A·V for a block V (n, w)."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """What an eigensolve found.

    Parameters
    ----------
    eigenvalues : ndarray of shape (k,)
        Largest first.
    eigenvectors : ndarray of shape (n, k)
        Unit columns.
    residual_norms : ndarray of shape (k,)
        ‖A u − μ u‖, from stored products.
    n_passes : int
        Products of the operator with a block.
    n_converged : int
        How many leading pairs meet the tolerance.
    enough : bool
        Whether these are all the pairs that were wanted, each within the tolerance.
    smallest : float
        Lowest eigenvalue estimate seen; the operator has an eigenvalue at or below it.
    ritz_block : ndarray of shape (n, w)
        Leading Ritz vectors, at least the k, to start another solve from.
    attainable : float
        The tolerance, relative to the largest eigenvalue, that rounding allows.
    """

    eigenvalues: Array
    eigenvectors: Array
    residual_norms: Array
    n_passes: int
    n_converged: int
    enough: bool
    smallest: float
    ritz_block: Array = field(repr=False)
    attainable: float = 0.0


Wanted = Callable[[Array], int | None]


@dataclass(frozen=True)
class Criteria:
    """When a solve stops, beside the residuals that it must reach.

    Parameters
    ----------
    value_error : float
        Also go on until no eigenvalue is off by more than this, relative to the largest, judged by
        min(r, r²/gap) of its residual r (Kato 1949; Temple 1928). Residuals within the tolerance count as
        converged all the same.
    min_passes : int
        Passes at least, where the start may lack an eigenvector that random directions in it would show.
    stop_stagnant : bool
        Also stop where three passes have not halved the largest residual.
    """

    value_error: float = np.inf
    min_passes: int = 1
    stop_stagnant: bool = False


RESIDUALS_ALONE = Criteria()

SHARE_COMPONENTS = 16
"""For how many components the first block is made where a share is asked for."""
GUARD_COLUMNS = 3
"""Random columns beside a given start, which may lack an eigenvector altogether."""

FRESH_FLOOR = 1e-6
"""What is left of random directions of size 1 below it is the rounding of a space that is exhausted."""


def block_lanczos(
    operator: Operator,
    start: Array,
    *,
    wanted: Wanted,
    tol: float,
    max_passes: int,
    max_columns: int,
    dtype: DTypeLike = np.float64,
    criteria: Criteria = RESIDUALS_ALONE,
) -> Eigenpairs:
    """Leading eigenpairs by block Lanczos.

    Stops when each wanted pair has ‖A u − μ u‖ ≤ tol · μ_1, or as near as the rounding of the products lets
    it; an iteration count alone never makes a result count as converged.

    Parameters
    ----------
    operator : Operator
        Symmetric, (n, n).
    start : ndarray of shape (n, w)
        The first block; at least as wide as the largest multiplicity that must be found whole.
    wanted : callable
        Number of leading pairs asked for, given the current eigenvalue estimates (largest first), or
        None as long as that cannot be told.
    tol : float
        Relative to the largest eigenvalue estimate.
    max_passes : int
        Products at most.
    max_columns : int
        Basis vectors held before a thick restart; at least w more than the pairs wanted.
    dtype : dtype
        In which basis and products are held; their algebra is in float64 always.
    criteria : Criteria
        What else decides when to stop.

    References
    ----------
    Golub and Underwood (1977), The block Lanczos method for computing eigenvalues;
    Wu and Simon (2000), Thick-restart Lanczos method for large symmetric eigenvalue problems, section 3.
    """
    krylov = _Krylov(np.dtype(dtype))
    block = tall.orthonormal(start, floor=0.0)
    history: list[float] = []
    for n_passes in range(1, max_passes + 1):
        product = operator(krylov.rounded(block))
        krylov.append(block, product)
        ritz = krylov.rayleigh_ritz()
        count = wanted(ritz.theta)
        residuals = krylov.residual_norms(ritz, _at_most(count, start.shape[1], ritz))
        floor = operator.rounding + krylov.epsilon * ritz.scale
        limit = max(tol * ritz.scale, floor)
        history.append(float(residuals.max(initial=0.0)))
        met = count is not None and len(residuals) >= count and history[-1] <= limit
        exact = _value_error(ritz, residuals, start.shape[1]) <= max(criteria.value_error * ritz.scale, floor)
        if met and exact and n_passes >= criteria.min_passes:
            break
        if criteria.stop_stagnant and _stagnant(history):
            break
        block = krylov.next_block(product, floor)
        if block.shape[1] == 0 and count is None and np.linalg.norm(product) > floor:
            # More copies of an eigenvalue than the block is wide: the others lie in directions not yet seen.
            fresh = np.random.default_rng(n_passes).standard_normal(start.shape)
            block = krylov.next_block(fresh, FRESH_FLOOR)
        if block.shape[1] == 0:
            count = None if count is None else len(residuals)  # the space is exhausted: there are no more
            limit = max(limit, floor * float(np.sqrt(product.shape[1])))  # each column left up to a rounding
            break
        krylov.restart_if_full(
            ritz, max_columns, incoming=block.shape[1], keep=len(residuals) + start.shape[1]
        )
    return _result(
        krylov, ritz, residuals, count, limit=limit, floor=floor, n_passes=n_passes, width=start.shape[1]
    )


def dense(A: Array, *, wanted: Wanted) -> Eigenpairs:
    """Leading eigenpairs of a symmetric matrix A (n, n) by LAPACK, and the lowest eigenvalue with them."""
    n_samples = A.shape[0]
    theta, U = eigh(A, driver="evd")
    theta, U = theta[::-1], U[:, ::-1]
    count = wanted(theta)
    kept = n_samples if count is None else min(count, n_samples)
    U = np.ascontiguousarray(U[:, :kept])
    residuals = np.linalg.norm(A @ U - U * theta[:kept], axis=0)
    return Eigenpairs(theta[:kept], U, residuals, 1, kept, count is not None, float(theta[-1]), U)


def expected_components(n_components: int | float, n_samples: int) -> int:  # noqa: PYI041  told apart
    """For how many components a solve begins: those asked for; for a share, which is a float, 16."""
    count = SHARE_COMPONENTS if isinstance(n_components, float) else n_components
    return min(count, n_samples)


def block_width(n_components: int, n_samples: int) -> int:
    """Columns of the blocks: twice the components for few, some more for many, at most the rows."""
    return min(max(2 * n_components, 8), n_components + 32, n_samples)


@dataclass(frozen=True, eq=False)
class _Ritz:
    theta: Array  # (m,), largest first
    Y: Array  # (m, m)

    @property
    def scale(self) -> float:
        return float(np.abs(self.theta).max())


class _Krylov:
    """The basis B, the products A·B, and the small matrices BᵀB and BᵀAB."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.epsilon = float(np.finfo(dtype).eps)
        self.vectors: list[Array] = []
        self.products: list[Array] = []
        self.G = np.zeros((0, 0))
        self.T = np.zeros((0, 0))
        self.smallest = np.inf

    def rounded(self, block: Array) -> Array:
        return block.astype(self.dtype)

    def append(self, block: Array, product: Array) -> None:
        """Take in a block of vectors (n, b) and its product."""
        self.vectors.append(self.rounded(block))
        self.products.append(self.rounded(product))
        # With BᵀB at hand, the rounding of the stored basis costs Rayleigh–Ritz nothing.
        self.G = _bordered(self.G, tall.inner(self.vectors, self.vectors[-1:]))
        self.T = _bordered(self.T, tall.inner(self.vectors, self.products[-1:]))

    def rayleigh_ritz(self) -> _Ritz:
        theta, Y = eigh(self.T, self.G)
        self.smallest = min(self.smallest, float(theta[0]))
        return _Ritz(theta[::-1], np.ascontiguousarray(Y[:, ::-1]))

    def residual_norms(self, ritz: _Ritz, count: int) -> Array:
        return tall.residual_norms(self.vectors, self.products, ritz.Y[:, :count], ritz.theta[:count])

    def next_block(self, product: Array, floor: float) -> Array:
        """What a product holds beyond the basis, orthonormal (n, ≤ b)."""
        F = np.array(product, dtype=np.float64)
        tall.project_out(self.vectors, F)
        block = tall.orthonormal(F, floor)
        if block.shape[1]:
            # Small directions carry rounding from the large ones; once they have unit length it can go.
            tall.project_out(self.vectors, block)
            block = np.linalg.qr(block)[0]
        return block

    def restart_if_full(self, ritz: _Ritz, max_columns: int, *, incoming: int, keep: int) -> None:
        """Keep only the leading Ritz vectors where `incoming` columns find no room (thick restart)."""
        if tall.n_columns(self.vectors) + incoming <= max_columns:
            return
        Y = ritz.Y[:, : min(keep, max_columns - incoming)]
        self.vectors = [self.rounded(tall.combine(self.vectors, Y))]
        self.products = [self.rounded(tall.combine(self.products, Y))]
        self.G = tall.inner(self.vectors, self.vectors)
        T = tall.inner(self.vectors, self.products)
        self.T = (T + T.T) / 2


def _bordered(M: Array, columns: Array) -> Array:
    """Grow a symmetric matrix by its new last columns (all rows)."""
    m, w = M.shape[0], columns.shape[1]
    grown = np.empty((m + w, m + w))
    grown[:m, :m] = M
    grown[:m, m:], grown[m:, :m] = columns[:m], columns[:m].T
    grown[m:, m:] = (columns[m:] + columns[m:].T) / 2
    return grown


def _at_most(count: int | None, width: int, ritz: _Ritz) -> int:
    return min(count if count is not None else width, len(ritz.theta))


def _value_error(ritz: _Ritz, residuals: Array, width: int) -> float:
    """The largest min(r, r²/gap), the gap that to what lies beyond the block of vectors that are refined."""
    beyond = ritz.theta[min(max(width, len(residuals)), len(ritz.theta) - 1)]
    gap = np.maximum(ritz.theta[: len(residuals)] - beyond, residuals)
    return float((residuals * (residuals / np.maximum(gap, np.finfo(np.float64).tiny))).max(initial=0.0))


def _stagnant(history: list[float]) -> bool:
    return len(history) > 5 and min(history[-3:]) > 0.5 * min(history[:-3])


def _result(
    krylov: _Krylov,
    ritz: _Ritz,
    residuals: Array,
    count: int | None,
    *,
    limit: float,
    floor: float,
    n_passes: int,
    width: int,
) -> Eigenpairs:
    # A restart may have shortened the basis after `ritz` was computed; its leading columns then are it.
    ritz = krylov.rayleigh_ritz() if ritz.Y.shape[0] != tall.n_columns(krylov.vectors) else ritz
    residuals = residuals[: len(ritz.theta)]
    kept = len(residuals)
    block = tall.combine(krylov.vectors, ritz.Y[:, : max(width, kept)])
    block /= np.linalg.norm(block, axis=0)
    small = residuals <= limit
    n_converged = kept if small.all() else int(np.argmin(small))
    return Eigenpairs(
        eigenvalues=ritz.theta[:kept],
        eigenvectors=np.ascontiguousarray(block[:, :kept]),
        residual_norms=residuals,
        n_passes=n_passes,
        n_converged=n_converged,
        enough=count is not None and n_converged >= count,
        smallest=krylov.smallest,
        ritz_block=block,
        attainable=floor / ritz.scale if ritz.scale else 0.0,
    )
