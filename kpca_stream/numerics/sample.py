"""A sample of rows by seeded hashes of their positions: no length needed, the same for every chunking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_LIMIT = 2**64 - 1
_STRIDE = 65_536
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with the smallest hashes, in order of their positions.

    Parameters
    ----------
    hashes : ndarray of uint64 of shape (m,)
        Hashes of the positions.
    X : ndarray of float64 of shape (m, d)
        The rows.
    """

    hashes: NDArray[np.uint64]
    X: NDArray[np.float64]

    def smallest(self, n_rows: int) -> Sample:
        """The rows with the `n_rows` smallest hashes."""
        if self.hashes.size <= n_rows:
            return self
        chosen = np.sort(np.argpartition(self.hashes, n_rows - 1)[:n_rows])
        return Sample(self.hashes[chosen], self.X[chosen])

    def joined(self, other: Sample, n_rows: int) -> Sample:
        """The `n_rows` smallest of both, where the rows of `other` come after those of this one."""
        hashes, X = np.concatenate((self.hashes, other.hashes)), np.concatenate((self.X, other.X))
        return Sample(hashes, X).smallest(n_rows)

    def positions(self, n_samples: int, seed: int) -> NDArray[np.int64]:
        """Where the rows stand among `n_samples`, (m,)."""
        strides = (np.arange(a, min(a + _STRIDE, n_samples)) for a in range(0, n_samples, _STRIDE))
        found = [part[np.isin(position_hashes(part, seed), self.hashes)] for part in strides]
        return np.concatenate(found)


def hash_limit(n_samples: int, n_rows: int, seed: int) -> int:
    """The largest of the `n_rows` smallest hashes of `n_samples` positions; no row above it is chosen."""
    if n_samples <= n_rows:
        return NO_LIMIT
    smallest = np.empty(0, np.uint64)
    for start in range(0, n_samples, _STRIDE):
        hashes = position_hashes(np.arange(start, min(start + _STRIDE, n_samples)), seed)
        if smallest.size == n_rows:
            hashes = hashes[hashes < smallest[-1]]
        smallest = np.sort(np.concatenate((smallest, hashes)))[:n_rows]
    return int(smallest[-1])


def position_hashes(positions: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """The seeded hash of each position.

    Parameters
    ----------
    positions : ndarray of int of shape (n,)
        Positions of rows.
    seed : int
        Any integer; another one gives another sample.

    Returns
    -------
    ndarray of uint64 of shape (n,)
        The splitmix64 sequence that starts at the mixed seed, at these positions: all different.
    """
    start = _mixed(np.array([seed % 2**64], np.uint64))
    return _mixed(start + (positions.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in _MIX:
        z = (z ^ (z >> np.uint64(shift))) * factor
    return z ^ (z >> np.uint64(31))
