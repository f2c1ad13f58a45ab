"""A sample by hashes of positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpca_stream.numerics.sample import NO_LIMIT, Sample, hash_limit, position_hashes


def test_hashes_are_splitmix64() -> None:
    """The hashes are the published sequence of splitmix64, from the state that the seed is mixed to."""
    state = 0
    published = []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        published.append(z ^ (z >> 31))
    assert published[0] == 0xE220A8397B1DCDAF
    np.testing.assert_array_equal(position_hashes(np.arange(3), 0), np.array(published, np.uint64))


@pytest.mark.parametrize("seed", [0, 1, -1, 2**64 + 1, 2**80])
def test_hashes_are_different_and_even(seed: int) -> None:
    """No two positions have one hash, and each part of the range gets its share."""
    hashes = position_hashes(np.arange(100_000), seed)
    assert np.unique(hashes).size == hashes.size
    shares = np.histogram(hashes.astype(float), bins=10, range=(0, 2.0**64))[0]
    assert abs(shares - 10_000).max() < 500


def test_seeds_give_samples_of_their_own() -> None:
    """Neighbouring seeds share no more of their smallest hashes than chance allows."""
    first, second = (
        set(np.argsort(position_hashes(np.arange(10_000), seed))[:1000].tolist()) for seed in (0, 1)
    )
    assert 50 < len(first & second) < 150


@given(seed=st.integers(0, 99), cut=st.integers(0, 60), n_rows=st.integers(1, 70))
def test_any_cut_gives_the_same_sample(seed: int, cut: int, n_rows: int) -> None:
    """Joined samples hold the rows with the smallest hashes of all, in order."""
    hashes, X = position_hashes(np.arange(60), seed), np.arange(60.0)[:, None]
    joined = Sample(hashes[:cut], X[:cut]).joined(Sample(hashes[cut:], X[cut:]), n_rows)
    np.testing.assert_array_equal(joined.X[:, 0], np.sort(np.argsort(hashes)[:n_rows]))


@pytest.mark.parametrize(
    ("n_samples", "n_rows"), [(10, 10), (10, 11), (11, 10), (200_000, 2000), (65_537, 65_536)]
)
def test_the_limit_lets_the_asked_number_pass(n_samples: int, n_rows: int) -> None:
    """As many hashes as rows are asked for lie at or below the limit."""
    limit = hash_limit(n_samples, n_rows, 3)
    assert int((position_hashes(np.arange(n_samples), 3) <= np.uint64(limit)).sum()) == min(n_samples, n_rows)
    assert (limit == NO_LIMIT) == (n_samples <= n_rows)
