"""Fits of the clusters, one a process: the package's and those of others. All return JSON.

Each imports what it measures itself, so that no side carries the memory of another's imports.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.accuracy import relative_residual
from tests.benchmarks.child import cost_of
from tests.benchmarks.data import cluster_gamma, clusters

Array = NDArray[Any]

N_COMPONENTS = 10
WARM_ROWS = 1500


def fit_ours(n_samples: int, n_features: int, tol: float, **parameters: Any) -> dict[str, Any]:
    """`kpca_stream.KernelPCA` on the clusters."""
    from kpca_stream import KernelPCA

    X, gamma = clusters(n_samples, n_features), cluster_gamma(n_features)
    model = KernelPCA(N_COMPONENTS, kernel="rbf", gamma=gamma, tol=tol, n_jobs=-1, **parameters)
    model.fit(X[:WARM_ROWS])
    cost = cost_of(lambda: model.fit(X))
    residual = relative_residual(X, gamma, model.eigenvalues_, model.eigenvectors_)
    return {**cost, "passes": model.n_passes_, "residual": residual}


def fit_sklearn(n_samples: int, n_features: int, tol: float, solver: str) -> dict[str, Any]:
    """scikit-learn's `KernelPCA` on the same."""
    from sklearn.decomposition import KernelPCA as Peer

    X, gamma = clusters(n_samples, n_features), cluster_gamma(n_features)
    model = Peer(
        N_COMPONENTS,
        kernel="rbf",
        gamma=gamma,
        eigen_solver=solver,
        tol=tol,
        random_state=0,
        n_jobs=-1,
        copy_X=False,
    )
    model.fit(X[:WARM_ROWS])
    cost = cost_of(lambda: model.fit(X))
    return {**cost, "residual": relative_residual(X, gamma, model.eigenvalues_, model.eigenvectors_)}


def fit_dask_svd(n_samples: int, n_features: int, iterations: int) -> dict[str, Any]:
    """Dask's `svd_compressed` on the centred matrix, which is made before, in memory, float32."""
    X, gamma = clusters(n_samples, n_features), cluster_gamma(n_features)
    _svd(_centred(X[:WARM_ROWS], gamma), 0)
    began = time.perf_counter()
    K = _centred(X, gamma)
    made = time.perf_counter() - began
    found: list[tuple[Array, Array]] = []
    cost = cost_of(lambda: found.append(_svd(K, iterations)))
    U, s = found[0]
    return {**cost, "made": made, "residual": relative_residual(X, gamma, s, U)}


def _centred(X: Array, gamma: float) -> Array:
    from sklearn.metrics.pairwise import rbf_kernel

    K = rbf_kernel(X, gamma=gamma)
    means = K.mean(axis=0, dtype=np.float64).astype(K.dtype)
    K -= means
    K -= means[:, None]
    K += means.mean()
    return np.asarray(K)


def _svd(K: Array, iterations: int) -> tuple[Array, Array]:
    import dask.array as da
    from dask.system import CPU_COUNT

    side = -(-len(K) // (2 * CPU_COUNT))
    matrix = da.from_array(K, chunks=(side, len(K)), name=False)
    U, s, _ = da.linalg.svd_compressed(matrix, N_COMPONENTS, n_power_iter=iterations, iterator="QR", seed=0)
    U, s = da.compute(U, s)
    return np.asarray(U), np.asarray(s)
