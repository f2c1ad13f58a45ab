"""Landmarks without a kernel: drawn evenly, centres of k-means, or the user's own. All are distinct rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kpca_stream.errors import ConfigError
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.sample import position_hashes

Array = NDArray[Any]
Indices = NDArray[np.int64]

BATCH_ROWS = 4096
BATCHES_OVER_ALL = 20
START_ROWS = 3
"""Rows a landmark among which the first centres are sought."""


def distinct(rows: Array) -> Array:
    """Rows (n_rows, n_features) without repetitions, in order of their first places."""
    return np.asarray(rows[_first_places(rows)])


def _first_places(rows: Array) -> Indices:
    # Adding 0 makes −0 the same as 0.
    return np.sort(np.unique(rows + 0.0, axis=0, return_index=True)[1])


def uniform_indices(n_samples: int, n_landmarks: int, seed: int) -> Indices:
    """Positions drawn evenly without replacement, (≤ n_landmarks,), in the order of their seeded hashes.

    Those for fewer landmarks are the first of those for more.
    """
    hashes = position_hashes(np.arange(n_samples), seed)
    if n_landmarks < n_samples:
        nearest = np.argpartition(hashes, n_landmarks)[:n_landmarks]
        return np.asarray(nearest[np.argsort(hashes[nearest])], np.int64)
    return np.argsort(hashes).astype(np.int64)


def uniform(rows: Array, n_landmarks: int, seed: int) -> Array:
    """Distinct rows drawn evenly.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        All of them, or a seeded sample.
    n_landmarks : int
    seed : int

    Returns
    -------
    ndarray of shape (m, n_features)
        m is `n_landmarks`, or the number of distinct rows where that is smaller.
    """
    shuffled = rows[uniform_indices(len(rows), len(rows), seed)]
    return distinct(shuffled)[:n_landmarks]


def kmeans(preparation: Preparation, rows: Array, n_landmarks: int, seed: int) -> Array:
    """Centres of scikit-learn's mini-batch k-means among the rows as the kernel sees them.

    Parameters
    ----------
    preparation : Preparation
        The kernel's: clusters are sought in ``(x − centre) · multiplier``.
    rows : ndarray of shape (n_rows, n_features)
        A seeded sample.
    n_landmarks : int
    seed : int

    Returns
    -------
    ndarray of float64 of shape (m, n_features)
        Centres as rows that `preparation` was not done to yet; the distinct rows themselves where they are no
        more than `n_landmarks`. The same for every number of threads.
    """
    points, counts = np.unique(preparation(rows) + 0.0, axis=0, return_counts=True)
    if len(points) <= n_landmarks:
        return distinct(rows).astype(np.float64)
    centres = _centres(points, counts.astype(np.float64), n_landmarks, seed)
    return distinct(preparation.undone(centres))


def _centres(points: Array, weights: Array, n_landmarks: int, seed: int) -> Array:
    from sklearn.cluster import MiniBatchKMeans, kmeans_plusplus
    from threadpoolctl import threadpool_limits

    few = np.sort(uniform_indices(len(points), START_ROWS * n_landmarks, seed))
    state = int(np.random.SeedSequence(seed % 2**64).generate_state(1)[0])
    # Threads add up the sum by which the iteration ends, each time in another order.
    with threadpool_limits(limits=1, user_api="openmp"):
        start, _ = kmeans_plusplus(points[few], n_landmarks, sample_weight=weights[few], random_state=state)
        found = MiniBatchKMeans(
            n_landmarks,
            init=start,
            n_init=1,
            batch_size=BATCH_ROWS,
            max_iter=BATCHES_OVER_ALL,
            random_state=state,
        ).fit(points, sample_weight=weights)
    return np.asarray(found.cluster_centers_)


def own_rows(values: ArrayLike, n_features: int) -> Array:
    """The user's own landmarks, (m, n_features), checked; repetitions are left out.

    Raises
    ------
    ConfigError
        If they are not rows of finite real numbers with the columns of the data.
    """
    rows = np.asarray(values)
    if rows.dtype.kind not in "fiub" or rows.ndim != 2 or rows.shape[1] != n_features or not len(rows):
        raise ConfigError(
            f"nystrom landmarks: got an array of shape {rows.shape} and type {rows.dtype}, expected real "
            f"numbers of shape (m, {n_features}): a row for each landmark, with the columns of the data"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ConfigError(
            f"nystrom landmarks: row {bad[0]} has NaN or infinity, expected finite values; leave it out"
        )
    return distinct(rows.astype(np.float64))


def own_indices(values: ArrayLike, n_samples: int) -> Indices:
    """The user's own landmarks where a kernel matrix (n_samples, n_samples) is given, checked.

    Raises
    ------
    ConfigError
        If they are not distinct whole numbers from 0 to n_samples − 1.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "fiu" or given.ndim != 1 or not given.size:
        raise ConfigError(
            f"nystrom landmarks: got an array of shape {given.shape} and type {given.dtype}, expected the "
            "positions of rows of the precomputed kernel: a list of whole numbers"
        )
    wrong = (given != np.floor(given)) | (given < 0) | (given >= n_samples)
    if wrong.any():
        raise ConfigError(
            f"nystrom landmarks: got {given[wrong][0]}, expected whole numbers from 0 to {n_samples - 1}: "
            "positions of rows of the precomputed kernel"
        )
    indices = given.astype(np.int64)
    found, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        raise ConfigError(
            f"nystrom landmarks: {found[counts > 1][0]} occurs {counts.max()} times, expected each once; "
            "leave the others out"
        )
    return indices
