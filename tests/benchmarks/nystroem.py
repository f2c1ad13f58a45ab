"""Nyström beside scikit-learn: clusters, d = 50, rbf, the same 1,000 rows as landmarks.

``python -m tests.benchmarks.nystroem``. The peer is `Nystroem.fit_transform` and the eigenvectors of the
covariance of its features, which is kernel PCA by the same landmarks; it takes the rows' type throughout,
also for the SVD of K_mm. Errors are those of the eigenvalues, against the same written out in float64. Each
fit in a process of its own, sides in turns; "above" is memory above the imports and the data.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.growth import exponent
from tests.benchmarks.harness import MB, Answer, Figure, Question, in_turns, main, median_of, rounds

Array = NDArray[Any]

SIZES = (100_000, 200_000, 400_000, 800_000)
COMPARED = 1
N_FEATURES = 50
N_LANDMARKS = 1000
N_COMPONENTS = 10
WARM_ROWS = 3000
PEER_TYPES = ("float32", "float64")


def answer(*, quick: bool) -> Answer:
    """Time and accuracy of both at one size, ours at all sizes."""
    sizes = [n // 20 if quick else n for n in SIZES]
    name = "kpca_stream {:,}".format
    ours = {name(n): partial(in_child, "nystroem:fit_ours", n_samples=n) for n in sizes}
    peers = {
        f"scikit-learn {t}": partial(in_child, "nystroem:fit_sklearn", n_samples=sizes[COMPARED], dtype=t)
        for t in PEER_TYPES
    }
    found = in_turns({**ours, **peers}, rounds(quick=quick))
    exact = np.array(in_child("nystroem:exact", n_samples=sizes[COMPARED])["eigenvalues"])
    compared, peer = name(sizes[COMPARED]), f"scikit-learn {PEER_TYPES[0]}"
    error = {side: _error(found[side][0], exact) for side in (compared, *peers)}
    rows = [
        {
            "fit": side,
            "seconds": median_of(each, "seconds"),
            "above MB": _above(each) / MB,
            "error": error.get(side, "-"),
        }
        for side, each in found.items()
    ]
    figures = [
        Figure(f"time / {peer}", _seconds(found[compared]) / _seconds(found[peer]), 0.4),
        Figure(f"error / {peer}", error[compared] / error[peer], 1.0),
        Figure("exponent of time", exponent(sizes, [_seconds(found[side]) for side in ours]), 1.05),
        Figure("exponent of memory", exponent(sizes, [_above(found[side]) for side in ours]), 0.1),
    ]
    return Answer(rows, figures)


def _seconds(found: list[dict[str, Any]]) -> float:
    return median_of(found, "seconds")


def _above(found: list[dict[str, Any]]) -> float:
    return median_of(found, "peak") - median_of(found, "before")


def _error(found: dict[str, Any], exact: Array) -> float:
    return float(np.abs(np.array(found["eigenvalues"]) / exact - 1).max())


def fit_ours(n_samples: int) -> dict[str, Any]:
    """The child's side: `kpca_stream.KernelPCA`, float32."""
    from kpca_stream import KernelPCA

    X = clusters(n_samples, N_FEATURES)
    model = KernelPCA(
        N_COMPONENTS,
        kernel="rbf",
        gamma=cluster_gamma(N_FEATURES),
        eigen_solver="nystrom",
        landmarks=X[chosen(n_samples)],
        n_jobs=-1,
    )
    model.fit(X[:WARM_ROWS])
    cost = cost_of(lambda: model.fit(X))
    return {**cost, "eigenvalues": model.eigenvalues_.tolist()}


def fit_sklearn(n_samples: int, dtype: str) -> dict[str, Any]:
    """The child's side: `Nystroem`, and the covariance of its features."""
    from sklearn.kernel_approximation import Nystroem

    X = clusters(n_samples, N_FEATURES, dtype)
    model = Nystroem(
        "rbf", gamma=cluster_gamma(N_FEATURES), n_components=N_LANDMARKS, random_state=0, n_jobs=-1
    )
    model.fit_transform(X[:WARM_ROWS])
    eigenvalues: list[float] = []

    def work() -> None:
        Z = model.fit_transform(X)
        Z -= Z.mean(axis=0)
        values, _ = np.linalg.eigh(Z.T @ Z)
        eigenvalues.extend(values[::-1][:N_COMPONENTS].tolist())

    cost = cost_of(work)
    if not np.array_equal(model.component_indices_, chosen(n_samples)):
        raise SystemExit("scikit-learn took other landmarks")
    return {**cost, "eigenvalues": eigenvalues}


def chosen(n_samples: int) -> Array:
    """Rows that `Nystroem` takes with random_state 0, (1000,)."""
    return np.random.RandomState(0).permutation(n_samples)[:N_LANDMARKS]


def exact(n_samples: int) -> dict[str, Any]:
    """The child's side: the same in float64, from the definition."""
    X = clusters(n_samples, N_FEATURES).astype(np.float64)
    Z, gamma = X[chosen(n_samples)], cluster_gamma(N_FEATURES)
    sigma, U = np.linalg.eigh(_similarities(Z, Z, gamma))
    kept = sigma > sigma[-1] * len(sigma) * np.finfo(np.float64).eps
    P = U[:, kept] / np.sqrt(sigma[kept])
    mean, C = np.zeros(P.shape[1]), np.zeros((P.shape[1],) * 2)
    blocks = [slice(a, a + 4096) for a in range(0, n_samples, 4096)]
    for rows in blocks:
        mean += (_similarities(X[rows], Z, gamma) @ P).sum(axis=0) / n_samples
    for rows in blocks:
        F = _similarities(X[rows], Z, gamma) @ P - mean
        C += F.T @ F
    return {"eigenvalues": np.linalg.eigvalsh(C)[::-1][:N_COMPONENTS].tolist()}


def _similarities(X: Array, Z: Array, gamma: float) -> Array:
    distances = np.square(X).sum(axis=1)[:, None] - 2 * X @ Z.T + np.square(Z).sum(axis=1)
    return np.asarray(np.exp(-gamma * np.maximum(distances, 0)))


QUESTION = Question(
    "Nyström: clusters, d = 50, 1,000 landmarks, k = 10, float32, beside scikit-learn", answer
)

if __name__ == "__main__":
    main(QUESTION)
