"""What one look at some rows tells."""

from __future__ import annotations

import numpy as np
import pytest

from kpca_stream.numerics.observation import NOTHING, Look, Observation, Observer

LOOK = Look(seed=0, sample_rows=3, hash_limit=2**64 - 1, has_digest=True)


def seen(X: np.ndarray, *cuts: int, start: int = 0) -> Observation:
    observer = Observer(LOOK, start)
    for block in np.split(X, cuts):
        observer.see(block)
    return observer.result()


@pytest.mark.parametrize("cuts", [(), (1,), (3, 4), (2, 5, 6)])
def test_any_cut_sees_the_same(cuts: tuple[int, ...]) -> None:
    """Counts, first bad value, digest and sample do not depend on the blocks."""
    X = np.random.default_rng(0).standard_normal((7, 2))
    X[2], X[5, 1] = np.inf, np.nan
    whole, cut = seen(X, start=10), seen(X, *cuts, start=10)
    assert (cut.n_kept, cut.n_dropped, cut.first_bad) == (5, 2, (12, 0, np.inf))
    assert cut.digests == whole.digests
    assert whole.sample is not None
    assert cut.sample is not None
    np.testing.assert_array_equal(np.sort(cut.sample.hashes)[:3], np.sort(whole.sample.hashes)[:3])


def test_only_the_good_rows_come_back() -> None:
    """A block comes back without its bad rows, and as it is where there are none."""
    X = np.ones((3, 2), np.float32)
    assert Observer(LOOK, 0).see(X) is X
    X[1, 0] = np.nan
    np.testing.assert_array_equal(Observer(LOOK, 0).see(X), np.ones((2, 2)))


def test_nothing_adds_nothing() -> None:
    """What was seen of no rows changes nothing, before or behind."""
    some = seen(np.ones((4, 2)))
    for both in (NOTHING.followed_by(some, 3), some.followed_by(NOTHING, 3)):
        assert (both.n_kept, both.digests, both.moments) == (4, some.digests, some.moments)
    assert NOTHING.followed_by(NOTHING, 3).moments is None


def test_zero_has_one_fingerprint() -> None:
    """Positive and negative zero are the same value, here and in integers."""
    assert seen(np.array([[0.0]])).digests == seen(np.array([[-0.0]])).digests
