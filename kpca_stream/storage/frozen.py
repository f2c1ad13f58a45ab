"""The frozen training basis as a value: all that scoring needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.kernels import Kernel
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.storage.rows import ArrayRows, Rows

Array = NDArray[Any]

CHUNK_ROWS = 2048
CHUNK_BYTES = 8 * 2**20
"""Of the rows of a chunk in float64; wider rows get lower chunks."""
LEAST_CHUNK_ROWS = 64


@dataclass(frozen=True, eq=False)
class Basis:
    """A fitted basis.

    Parameters
    ----------
    kernel : Kernel
        With all its numbers, and what is done to rows first.
    precision : {"float32", "float64"}
        In which kernel values are computed at scoring.
    columns : tuple of str
        Names of the columns, in order.
    n_samples : int
        Training rows.
    rows : Rows or None
        The training rows (n, d); None for a precomputed kernel.
    coefficients : Rows
        α (n, k), float64.
    weights : ndarray of shape (n,) or None
        None stands for ones.
    eigenvalues : ndarray of shape (k,)
        Of the centred Gram matrix, positive, largest first.
    centring : ndarray of shape (k,)
        αᵀm of the reduced kernel.
    reduced_grand_mean : float
        Grand mean of the reduced kernel.
    row_means : ndarray of shape (n,)
        Of K itself.
    grand_mean, trace : float
        Of K itself; of the centred matrix.
    thresholds : Thresholds
        Of reconstruction error and T².
    facts : dict
        How it was made: source, fingerprint, method, passes, residuals.
    """

    kernel: Kernel
    precision: str
    columns: tuple[str, ...]
    n_samples: int
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

    @property
    def n_components(self) -> int:
        """Components kept."""
        return len(self.eigenvalues)

    @property
    def total_weight(self) -> float:
        """N = Σ w: the number of rows that were seen, copies counted."""
        return float(self.n_samples if self.weights is None else self.weights.sum())

    @property
    def explained_variance(self) -> Array:
        """μ_j/(N − 1), shape (k,)."""
        return self.eigenvalues / (self.total_weight - 1)

    @property
    def explained_variance_ratio(self) -> Array:
        """μ_j/tr K̃, shape (k,)."""
        return self.eigenvalues / self.trace if self.trace > 0 else np.zeros_like(self.eigenvalues)

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk, as they are stored and scored against."""
        chunk_rows, n_columns = CHUNK_ROWS, max(len(self.columns), self.n_components)
        while chunk_rows > LEAST_CHUNK_ROWS and 8 * n_columns * chunk_rows > CHUNK_BYTES:
            chunk_rows //= 2
        return chunk_rows

    def blocks(self) -> Iterator[tuple[tuple[int, int], Rows | None, Array, Array]]:
        """Training rows in order: address, rows, coefficients (b, k) and weights (b,) of each block."""
        for start in range(0, self.n_samples, self.chunk_rows):
            address = start, min(start + self.chunk_rows, self.n_samples)
            weights = np.ones(address[1] - start) if self.weights is None else self.weights[slice(*address)]
            rows = None if self.rows is None else self.rows.part(*address)
            yield address, rows, self.coefficients.part(*address).load(), weights

    def in_memory(self) -> Basis:
        """The same with all arrays loaded."""
        rows = None if self.rows is None else ArrayRows(self.rows.load())
        return replace(self, rows=rows, coefficients=ArrayRows(self.coefficients.load()))
