"""The frozen training basis as a value: all that scoring needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.kernels import Kernel, MatrixOperand, as_operand
from kpca_stream.numerics.novelty import Thresholds, hotelling_t2
from kpca_stream.numerics.nystrom import Statistics
from kpca_stream.numerics.projection import READY_BYTES, Spanning, ready_bytes
from kpca_stream.storage.rows import ArrayRows, Rows

Array = NDArray[Any]

CHUNK_ROWS = 2048
CHUNK_BYTES = 8 * 2**20
"""Of the rows of a chunk in float64; wider rows get lower chunks."""
LEAST_CHUNK_ROWS = 64


@dataclass(frozen=True, eq=False)
class Accumulated:
    """What a Nyström basis was made from: sums to which further rows, or those of another basis, are added.

    Parameters
    ----------
    total, tau, offset : float
        Σ w, Σ w k'(x, x), Σ w a(x) over all training rows.
    centre, s : ndarray of shape (m,)
        The provisional mean c of k_Z, and Σ w (k_Z − c).
    G : Rows
        Σ w (k_Z − c)(k_Z − c)ᵀ, (m, m), read when it is asked for.
    sample : Rows
        Some of the training rows (q, d), from which thresholds are taken; for a precomputed kernel none.
    sample_weights : ndarray of shape (q,)
        How many training rows each of them stands for.
    """

    total: float
    tau: float
    offset: float
    centre: Array
    s: Array
    G: Rows
    sample: Rows
    sample_weights: Array

    def statistics(self) -> Statistics:
        """The sums as a value."""
        return Statistics(
            total=self.total, s=self.s, G=self.G.load(), tau=self.tau, offset=self.offset, centre=self.centre
        )


@dataclass(frozen=True, eq=False)
class Basis:
    """A fitted basis.

    The rows that it is spanned by are the training rows, or for Nyström the landmarks.

    Parameters
    ----------
    kernel : Kernel
        With all its numbers, and what is done to rows first.
    precision : {"float32", "float64"}
        In which kernel values are computed at scoring.
    columns : tuple of str
        Names of the columns, in order.
    n_rows : int
        Rows that it is spanned by.
    total_weight : float
        N = Σ w: the number of rows that were seen, copies counted.
    rows : Rows or None
        These rows (n, d); None for a precomputed kernel.
    coefficients : Rows
        α (n, k), float64; of landmarks B.
    weights : ndarray of shape (n,) or None
        Σ w_i φ(x_i)/N is the centre in feature space: the weights of the training rows, None for ones; of
        landmarks those of the projected mean.
    eigenvalues : ndarray of shape (k,)
        Of the centred Gram matrix, positive, largest first.
    centring : ndarray of shape (k,)
        αᵀm of the reduced kernel.
    reduced_grand_mean : float
        The squared length of the centre, by the reduced kernel.
    row_means : ndarray of shape (n,)
        Of K itself: the mean of k(x_i, x) over all training rows x.
    grand_mean, trace : float
        Of K itself; of the centred matrix. For Nyström bounds, from below and from above.
    thresholds : Thresholds
        Of reconstruction error and T².
    facts : dict
        How it was made: source, fingerprint, method, passes, residuals.
    accumulated : Accumulated or None
        Only of a Nyström basis.
    rotation : ndarray of shape (k, k) or None
        R, by which components were rotated to be like those of an earlier basis: coefficients, scores and
        centring are those of eigenvectors times R; eigenvalues and facts are those of the eigenvectors.
    """

    kernel: Kernel
    precision: str
    columns: tuple[str, ...]
    n_rows: int
    total_weight: float
    rows: Rows | None
    coefficients: Rows
    weights: Array | None
    eigenvalues: Array
    centring: Array
    reduced_grand_mean: float
    row_means: Array
    grand_mean: float
    trace: float
    thresholds: Thresholds
    facts: dict[str, Any]
    accumulated: Accumulated | None = None
    rotation: Array | None = None
    _ready: list[Spanning] = field(init=False, repr=False, default_factory=list)

    @property
    def n_components(self) -> int:
        """Components kept."""
        return len(self.eigenvalues)

    @property
    def explained_variance(self) -> Array:
        """μ_j/(N − 1), shape (k,)."""
        return self.eigenvalues / (self.total_weight - 1)

    @property
    def explained_variance_ratio(self) -> Array:
        """μ_j/tr K̃, shape (k,); for Nyström a lower bound."""
        return self.eigenvalues / self.trace if self.trace > 0 else np.zeros_like(self.eigenvalues)

    @property
    def rows_of_thresholds(self) -> float:
        """How many training rows its thresholds were taken from: of landmarks, from a sample."""
        kept = self.accumulated
        return self.total_weight if kept is None else min(self.total_weight, max(kept.sample.shape[0], 1))

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk, as they are stored and scored against."""
        chunk_rows, n_columns = CHUNK_ROWS, max(len(self.columns), self.n_components)
        while chunk_rows > LEAST_CHUNK_ROWS and 8 * n_columns * chunk_rows > CHUNK_BYTES:
            chunk_rows //= 2
        return chunk_rows

    def hotelling_t2(self, scores: Array) -> Array:
        """T² of scores (n_rows, k) by this basis, (n_rows,): no rotation changes it."""
        unrotated = scores if self.rotation is None else scores @ self.rotation.T
        return hotelling_t2(unrotated, self.eigenvalues, self.total_weight)

    def rotated(self, R: Array) -> Basis:
        """The same span with components times R (k, k), orthogonal; flipped signs need no rotation kept."""
        rotation = R if self.rotation is None else self.rotation @ R
        return replace(
            self,
            coefficients=ArrayRows(np.ascontiguousarray(self.coefficients.load() @ R)),
            centring=R.T @ self.centring,
            rotation=None if np.array_equal(np.abs(rotation), np.eye(len(rotation))) else rotation,
        )

    def unrotated(self) -> Basis:
        """The same with eigenvectors as components."""
        return self if self.rotation is None else replace(self.rotated(self.rotation.T), rotation=None)

    def blocks(self) -> Iterator[tuple[tuple[int, int], Rows | None, Array, Array]]:
        """Its rows in order: address, rows, coefficients (b, k) and weights (b,) of each block."""
        for start in range(0, self.n_rows, self.chunk_rows):
            address = start, min(start + self.chunk_rows, self.n_rows)
            weights = np.ones(address[1] - start) if self.weights is None else self.weights[slice(*address)]
            rows = None if self.rows is None else self.rows.part(*address)
            yield address, rows, self.coefficients.part(*address).load(), weights

    def spanning(self) -> Sequence[Spanning] | Iterator[Spanning]:
        """Its rows in order, ready to be scored against: once and for all where they are in memory."""
        if not self._is_ready_at_once:
            return self._spanning()
        with _making_ready:
            if not self._ready:
                self._ready.extend(self._spanning())
        return self._ready

    def _spanning(self) -> Iterator[Spanning]:
        dtype = np.dtype(self.precision)
        for address, rows, coefficients, weights in self.blocks():
            side = (
                MatrixOperand.of(None, *address)
                if rows is None
                else as_operand(self.kernel, rows, address, dtype).as_second()
            )
            yield Spanning(side, np.column_stack([coefficients, weights]).astype(dtype))

    @property
    def _is_ready_at_once(self) -> bool:
        is_held = isinstance(self.coefficients, ArrayRows) and isinstance(self.rows, ArrayRows | None)
        return is_held and ready_bytes(self.n_rows, len(self.columns), self.n_components) <= READY_BYTES

    def __getstate__(self) -> dict[str, Any]:
        """What was made ready is made again where a copy is."""
        return {**self.__dict__, "_ready": []}

    def in_memory(self) -> Basis:
        """The same with all arrays loaded."""
        rows = None if self.rows is None else ArrayRows(self.rows.load())
        return replace(self, rows=rows, coefficients=ArrayRows(self.coefficients.load()))


_making_ready = Lock()
