"""What one look at some rows tells: finiteness, moments, a sample, a digest of the values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.duplicates import Merging
from kpca_stream.numerics.moments import Moments, merge
from kpca_stream.numerics.sample import Sample, position_hashes

DIGEST_BYTES = 16


class Bad(NamedTuple):
    """A value that is missing or infinite, and its place."""

    row: int
    column: int
    value: float


@dataclass(frozen=True)
class Look:
    """What to find out.

    Parameters
    ----------
    seed : int
        Of the sample.
    sample_rows : int
        Upper limit of rows in the sample.
    hash_limit : int
        No row whose hash is larger is wanted in the sample.
    has_digest : bool
        Whether to make a digest of the values.
    merging : Merging, optional
        How far rows are merged, if they are.
    """

    seed: int
    sample_rows: int
    hash_limit: int
    has_digest: bool
    merging: Merging | None = None


@dataclass(frozen=True, eq=False)
class Observation:
    """What was seen of consecutive rows.

    Parameters
    ----------
    n_kept, n_dropped : int
        Rows of finite values, and others.
    first_bad : Bad or None
        The first missing or infinite value.
    moments : Moments or None
        Of the kept rows; None where there are none.
    sample : Sample or None
        Of the kept rows.
    digests : bytes
        One digest for each window of rows, dropped ones included.
    """

    n_kept: int
    n_dropped: int
    first_bad: Bad | None
    moments: Moments | None
    sample: Sample | None
    digests: bytes = b""

    def followed_by(self, other: Observation, sample_rows: int) -> Observation:
        """The observation of these rows and those that come next."""
        if self.moments is None or self.sample is None:
            moments, sample = other.moments, other.sample
        elif other.moments is None or other.sample is None:
            moments, sample = self.moments, self.sample
        else:
            moments = merge(self.moments, other.moments)
            sample = self.sample.joined(other.sample, sample_rows)
        return Observation(
            self.n_kept + other.n_kept,
            self.n_dropped + other.n_dropped,
            self.first_bad or other.first_bad,
            moments,
            sample,
            self.digests + other.digests,
        )

    def fingerprint(self, n_features: int) -> str:
        """Hash of the window digests and the shape, in hexadecimal digits."""
        shape = f"{self.n_kept + self.n_dropped},{n_features}".encode()
        return hashlib.blake2b(self.digests + shape, digest_size=DIGEST_BYTES).hexdigest()


NOTHING = Observation(0, 0, None, None, None)


class Observer:
    """Sees one window of rows block by block."""

    def __init__(self, look: Look, start: int) -> None:
        self._look = look
        self._next = start
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._seen = NOTHING

    def see(self, block: NDArray[Any]) -> NDArray[Any]:
        """Take in the next rows, (b, d); gives back those without missing or infinite values."""
        X = block.astype(np.float64, copy=False)
        if self._look.has_digest:
            self._digest.update(canonical(X).data)
        finite = np.isfinite(X)
        positions = np.arange(self._next, self._next + len(X))
        self._next += len(X)
        bad = None
        if not finite.all():
            row, column = (int(index) for index in np.argwhere(~finite)[0])
            bad = Bad(int(positions[row]), column, float(X[row, column]))
            good = finite.all(axis=1)
            block, X, positions = block[good], X[good], positions[good]
        seen = self._observation(X, positions, len(finite) - len(X), bad)
        self._seen = self._seen.followed_by(seen, self._look.sample_rows)
        return block

    def _observation(
        self, X: NDArray[np.float64], positions: NDArray[np.int64], n_dropped: int, bad: Bad | None
    ) -> Observation:
        if not len(X):
            return Observation(0, n_dropped, bad, None, None)
        hashes = position_hashes(positions, self._look.seed)
        chosen = hashes <= np.uint64(self._look.hash_limit)
        return Observation(len(X), n_dropped, bad, Moments.of(X), Sample(hashes[chosen], X[chosen]))

    def result(self) -> Observation:
        """All that was seen, with the digest of this window."""
        seen = self._seen
        digest = self._digest.digest() if self._look.has_digest else b""
        return Observation(seen.n_kept, seen.n_dropped, seen.first_bad, seen.moments, seen.sample, digest)


def canonical(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """X as little-endian float64 in C order, with one kind of NaN and of zero."""
    canonical = np.array(X, "<f8", order="C")
    canonical += 0.0  # -0.0 becomes 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical
