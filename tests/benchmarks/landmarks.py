"""Landmarks: what they leave of the trace, and how far off eigenvalues are, by method and number.

``python -m tests.benchmarks.landmarks``. Three real sets of about 20,000 rows, rbf with a bandwidth of half
the median distance, float64; means over three seeds, landmarks chosen among all rows. Errors are the largest
of the 10 leading eigenvalues, relative to the first; exact ones from block Lanczos to 1e-10. ``--plot FILE``
draws both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from kpca_stream import KernelPCA
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.kernels import Kernel, Preparation, Rbf
from kpca_stream.numerics.landmarks import kmeans, uniform
from kpca_stream.numerics.pool import rpcholesky
from tests.benchmarks.child import in_child
from tests.benchmarks.data import REAL, thinned
from tests.benchmarks.harness import Answer, Figure, Question, main

Array = NDArray[Any]
Choice = Callable[[Kernel, Array, int, int], Array]

DATA = ("letter", "Indian Pines", "china patches")
DEFAULT = "kmeans"
N_COMPONENTS = 10
N_SAMPLES = 20_000
SEEDS = (0, 1, 2)
STRIP = 2048
NEGLIGIBLE = 1e-10
"""Errors below it are the exact solution's own."""

METHODS: dict[str, Choice] = {
    "kmeans": lambda kernel, X, m, seed: kmeans(kernel.preparation, X, m, seed),
    "rpcholesky": lambda kernel, X, m, seed: X[rpcholesky(kernel, X, m, seed).indices],
    "uniform": lambda _, X, m, seed: uniform(X, m, seed),
}


def answer(*, quick: bool) -> Answer:
    """All sets, one after another, each in a process of its own."""
    found = [in_child("landmarks:measured", name=name, quick=quick)["rows"] for name in DATA]
    figures = [
        Figure(f"{name}: {DEFAULT} / uniform, {what}", _worst_ratio(rows, what), 1.0)
        for name, rows in zip(DATA, found, strict=True)
        for what in ("residual share", "eigenvalue error")
    ]
    return Answer([row for rows in found for row in rows], figures)


def _worst_ratio(rows: list[dict[str, Any]], what: str) -> float:
    """The largest of the default's value over uniform's, over all m."""
    by_method = {(row["method"], row["m"]): max(row[what], NEGLIGIBLE) for row in rows}
    return max(by_method[DEFAULT, m] / by_method["uniform", m] for _, m in by_method)


def measured(name: str, *, quick: bool) -> dict[str, Any]:
    """The child's side: every method and number on one set."""
    X = thinned(REAL[name].load(), 3000 if quick else N_SAMPLES).astype(np.float64)
    gamma = 4.0 / (2.0 * float(np.median(pdist(thinned(X, 2000)))) ** 2)
    kernel = Rbf(Preparation(X.mean(axis=0)), gamma)
    exact = _exact(X, gamma)
    numbers, seeds = ((30, 100), SEEDS[:1]) if quick else ((100, 300, 1000), SEEDS)
    rows = []
    with single_threaded_blas():
        for m in numbers:
            for method, choose in METHODS.items():
                runs = [_run(kernel, X, exact, choose, m, seed) for seed in seeds]
                means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
                rows.append({"data": name, "n": len(X), "m": m, "method": method, **means})
    return {"rows": rows}


def _exact(X: Array, gamma: float) -> Array:
    model = KernelPCA(N_COMPONENTS, kernel="rbf", gamma=gamma, tol=1e-10, eigen_solver="lanczos")
    return np.asarray(model.fit(X).eigenvalues_)


def _run(kernel: Kernel, X: Array, exact: Array, choose: Choice, m: int, seed: int) -> dict[str, float]:
    began = time.perf_counter()
    landmarks = choose(kernel, X, m, seed)
    seconds = time.perf_counter() - began
    share, eigenvalues = _approximation(kernel, X, landmarks)
    error = float(np.abs(eigenvalues[:N_COMPONENTS] - exact).max() / exact[0])
    return {"residual share": share, "eigenvalue error": error, "seconds": seconds}


def _approximation(kernel: Kernel, X: Array, landmarks: Array) -> tuple[float, Array]:
    """What is left of the trace, and the eigenvalues of the centred approximation, largest first."""
    sigma, U = np.linalg.eigh(kernel.matrix(landmarks, landmarks))
    kept = sigma > sigma[-1] * len(sigma) * np.finfo(np.float64).eps
    P = U[:, kept] / np.sqrt(sigma[kept])
    s, G = np.zeros(P.shape[1]), np.zeros((P.shape[1], P.shape[1]))
    for start in range(0, len(X), STRIP):
        F = kernel.matrix(X[start : start + STRIP], landmarks) @ P
        s += F.sum(axis=0)
        G += F.T @ F
    # The trace is n, since every row is as alike to itself as can be.
    share = 1.0 - float(np.trace(G)) / len(X)
    return share, np.linalg.eigvalsh(G - np.outer(s, s) / len(X))[::-1]


def plot(answer: Answer, path: Path) -> None:
    """Both figures against m: a column for each set, a line for each method."""
    try:
        from matplotlib.figure import Figure as Sheet
    except ImportError as error:
        raise SystemExit(
            "--plot needs matplotlib; install the bench extra: pip install -e '.[bench]'"
        ) from error
    sheet = Sheet(figsize=(4 * len(DATA), 7), layout="constrained")
    axes = sheet.subplots(2, len(DATA), squeeze=False)
    for column, name in enumerate(DATA):
        axes[0, column].set_title(name)
        for row, what in enumerate(("residual share", "eigenvalue error")):
            _draw(axes[row, column], [each for each in answer.rows if each["data"] == name], what)
    sheet.savefig(path)


def _draw(axes: Any, rows: list[Mapping[str, Any]], what: str) -> None:
    for method in METHODS:
        points = [(row["m"], row[what]) for row in rows if row["method"] == method]
        axes.loglog(*zip(*points, strict=True), marker="o", label=method)
    numbers = sorted({row["m"] for row in rows})
    axes.set_xticks(numbers, [f"{m:,}" for m in numbers])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("landmarks")
    axes.set_ylabel(what)
    axes.legend()


QUESTION = Question("Landmarks: residual trace share and error of 10 eigenvalues, rbf", answer, plot)

if __name__ == "__main__":
    main(QUESTION)
