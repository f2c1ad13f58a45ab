"""Rows that occur more than once: merged with their weights, exactly, part by part.

Rows are compared as bytes, once -0.0 has become 0.0, and keep the order in which they were first seen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError
from kpca_stream.numerics.sample import position_hashes

Array = NDArray[Any]
Reason = Literal["many", "large"]

COMPARED_ROWS = 65_536
COLUMN_WORDS = 64
"""Rows of no more words are hashed column by column, a strip of so many bytes after the other."""
STRIP_BYTES = 2**18
_HALF = np.uint64(32)
_MIX = np.uint64(29)


@dataclass(frozen=True)
class Merging:
    """How far rows are merged.

    Parameters
    ----------
    most_bytes : int
        Memory that the distinct rows may take.
    gives_up : bool
        Whether merging ends as soon as more than half of the rows seen are distinct.
    refusal : ConfigError, optional
        Raised where merging ends, because the rows cannot be used as they are.
    """

    most_bytes: int
    gives_up: bool
    refusal: ConfigError | None = None

    def most_rows(self, n_seen: float) -> float:
        """Distinct rows that `n_seen` rows may hold."""
        return n_seen / 2 if self.gives_up else np.inf


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows that all differ, and how often each occurs.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        The rows, in the order in which they were first seen; C-contiguous, without -0.0.
    weights : ndarray of float64 of shape (m,)
        How often each occurs, or the sum of the weights of its copies.
    keys : ndarray of uint64 or uint32 of shape (m,)
        A hash of each, made once.
    """

    X: Array
    weights: Array
    keys: Array

    @classmethod
    def of(cls, X: Array, weights: Array | None = None) -> Self:
        """The distinct ones of the rows of X, (n, d), of weights (n,) or 1."""
        return cls.seen(X, weights).merged()

    @classmethod
    def seen(cls, X: Array, weights: Array | None = None) -> Self:
        """All rows of X, not merged yet."""
        X = np.add(np.ascontiguousarray(X), 0.0)  # -0.0 becomes 0.0
        return cls(X, np.ones(len(X)) if weights is None else weights, _keys(_words(X), 0))

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The distinct rows of all parts; the list is emptied, so that they are in memory once."""
        if len(parts) == 1:
            return parts.pop().merged()
        arrays = [
            np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "weights", "keys")
        ]
        parts.clear()
        return cls(*arrays).merged()

    def merged(self) -> Self:
        """The same, where rows of X may be equal."""
        if len(self.X) < 2:
            return self
        order, starts = _groups(_words(self.X), self.keys)
        if len(starts) == len(self.X):
            return self
        firsts = np.minimum.reduceat(order, starts)
        is_first = np.zeros(len(self.X), np.bool_)
        is_first[firsts] = True
        sums = np.empty(len(self.X))
        sums[firsts] = np.add.reduceat(self.weights[order], starts)
        kept = np.flatnonzero(is_first)
        return type(self)(np.take(self.X, kept, axis=0), sums[kept], self.keys[kept])


@dataclass(frozen=True)
class TooMuch:
    """Why rows were not merged: there are too many distinct ones, or they take too much memory."""

    reason: Reason


class Merger:
    """Merges the rows of many parts, until that does not pay.

    Parts are collected until they hold as many rows as were merged before, so that the work grows with the
    number of rows and little more, and at most four times the allowed memory is in use.

    Parameters
    ----------
    merging : Merging
    least_bytes : int
        Parts of fewer are collected before they are merged, beside those.
    """

    def __init__(self, merging: Merging, least_bytes: int = 0) -> None:
        self._merging, self._least_bytes = merging, least_bytes
        self._parts: list[Distinct] = []
        self._n_merged = self._n_new = self._new_bytes = 0
        self.failure: TooMuch | None = None

    def add(self, part: Distinct | TooMuch, most_rows: float) -> None:
        """Take in the next rows, at most `most_rows` distinct ones together with those before."""
        if self.failure is not None:
            return
        if isinstance(part, TooMuch):
            self._give_up(part)
            return
        self._parts.append(part)
        self._n_new += len(part.X)
        self._new_bytes += part.X.nbytes
        if self._n_new >= self._n_merged and self._new_bytes >= self._least_bytes:
            self._merge(most_rows)

    def result(self, most_rows: float) -> Distinct | TooMuch | None:
        """The distinct rows of all parts, or why there are none; None where there were no rows."""
        if self._n_new:
            self._merge(most_rows)
        return self.failure or (self._parts[0] if self._parts else None)

    def _merge(self, most_rows: float) -> None:
        found = Distinct.joined(self._parts)
        self._parts, self._n_merged, self._n_new, self._new_bytes = [found], len(found.X), 0, 0
        if len(found.X) > most_rows:
            self._give_up(TooMuch("many"))
        elif found.X.nbytes > self._merging.most_bytes:
            self._give_up(TooMuch("large"))

    def _give_up(self, failure: TooMuch) -> None:
        self.failure = failure
        self._parts, self._n_new = [], 0


class Places:
    """Finds rows among distinct ones.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        The distinct rows, as `Distinct` has them.
    """

    def __init__(self, X: Array) -> None:
        words = _words(X)
        for self._salt in itertools.count():
            keys = _keys(words, self._salt)
            self._order = np.argsort(keys)
            self._keys = keys[self._order]
            if (self._keys[1:] != self._keys[:-1]).all():
                return

    def __call__(self, X: Array) -> NDArray[np.intp]:
        """Places (n,) of the rows of X, (n, d) and of the same type, all of which are among the distinct."""
        words = _words(np.add(np.ascontiguousarray(X), 0.0))
        return np.asarray(self._order[np.searchsorted(self._keys, _keys(words, self._salt))])


def _groups(words: Array, keys: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of the rows in which equal ones are neighbours, and where each group of them starts."""
    for salt in itertools.count(1):
        order = np.argsort(keys)
        keys = keys[order]
        is_same = keys[1:] == keys[:-1]
        # Rows of more than one word may have equal keys by chance; then other keys are taken.
        if words.shape[1] == 1 or _are_equal(words, order[1:][is_same], order[:-1][is_same]):
            break
        keys = _keys(words, salt)
    return order, np.flatnonzero(np.concatenate(([True], ~is_same)))


def _are_equal(words: Array, a: NDArray[np.intp], b: NDArray[np.intp]) -> bool:
    """Whether the rows at `a` are those at `b`, compared in pieces."""
    pieces = (slice(i, i + COMPARED_ROWS) for i in range(0, len(a), COMPARED_ROWS))
    return all(np.array_equal(words[a[piece]], words[b[piece]]) for piece in pieces)


def _words(X: Array) -> Array:
    """The bytes of each row as whole numbers, (n, w)."""
    return X.view(np.uint32 if X.shape[1] * X.itemsize % 8 else np.uint64)


def _keys(words: Array, salt: int) -> Array:
    """A number for each row, (n,): the row itself where it is one word, else a hash of its words."""
    n_words = words.shape[1]
    if n_words == 1:
        return words[:, 0]
    factors = position_hashes(np.arange(n_words), salt) | np.uint64(1)
    if n_words > COLUMN_WORDS:
        return np.asarray(_mixed(words.astype(np.uint64), factors).sum(axis=1))
    keys = np.zeros(len(words), np.uint64)
    step = max(1, STRIP_BYTES // (8 * n_words))
    for strip in (slice(a, a + step) for a in range(0, len(words), step)):
        for j, factor in enumerate(factors):  # NumPy is slow where rows are short
            keys[strip] += _mixed(words[strip, j].astype(np.uint64), factor)
    return keys


def _mixed(words: Array, factors: Any) -> Array:
    """Whole numbers of which every bit depends on many, in place."""
    words ^= words >> _HALF  # the low bits of most floats are 0
    words *= factors
    words ^= words >> _MIX
    return words
