"""Starts: passes to 10 components from a random block, from landmarks, and from yesterday's basis.

``python -m tests.benchmarks.starts``. Four real sets, rbf; float32 to 1e-5, float64 to 1e-8, both relative to
the first eigenvalue. Yesterday's basis was fitted, to the same tolerance, to all rows but every twentieth;
its eigenvectors, continued to today's rows, start the block, and random vectors fill it up, or (as a re-fit
does) what landmarks hold beside them. ARPACK counts products with single vectors, and stops where its last
pair meets the same residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from kpca_stream import KernelPCA
from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.numerics import tall
from kpca_stream.numerics.eigensolve import Eigenpairs
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.stages.centering import CentredGram
from kpca_stream.stages.solve import LanczosSettings, block_columns, solve
from kpca_stream.stages.statistics import landmark_block
from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import REAL, thinned
from tests.benchmarks.harness import MB, Answer, Figure, Question, main
from tests.benchmarks.jobs import N_COMPONENTS
from tests.benchmarks.operators import Prepared, prepare

Array = NDArray[Any]
Start = Callable[[Prepared, int], Array | None]

TOLERANCES = {1e-5: "float32", 1e-8: "float64"}
FEWEST_LANDMARKS = 250
"""Where the plan would start at random, since there are few rows."""
HELD_BACK = 20


def random_start(ready: Prepared, width: int) -> None:
    """None given: Gaussian vectors."""


def landmark_start(ready: Prepared, width: int) -> Array:
    """The leading vectors of a small Nyström solution, as a fit starts from them."""
    sample, dtype = ready.looked.sample, ready.plan.tile_dtype
    n_landmarks = max(ready.plan.n_start_landmarks, FEWEST_LANDMARKS)
    landmarks = sample[np.linspace(0, len(sample) - 1, n_landmarks).astype(int)]
    features = FeatureMap.of(ready.kernel, landmarks, dtype)
    return landmark_block(ready.looked.rows, np.ones(ready.looked.n_samples), features, width, dtype)


def yesterday_start(ready: Prepared, width: int) -> Array:  # noqa: ARG001  the same
    """Yesterday's eigenvectors; for new rows, their scores scaled in the same way."""
    X = ready.looked.rows.load()
    is_new = np.arange(len(X)) % HELD_BACK == 0
    model = KernelPCA(
        N_COMPONENTS,
        kernel="rbf",
        gamma=ready.plan.settings.kernel.gamma,
        tol=ready.plan.tol,
        eigen_solver="lanczos",
        remove_zero_eig=True,
    )
    model.set_params(precision=ready.plan.precision).fit(X[~is_new])
    found = np.empty((len(X), len(model.eigenvalues_)))
    found[~is_new] = model.eigenvectors_
    found[is_new] = model.transform(X[is_new]) / np.sqrt(model.eigenvalues_)
    return np.asarray(found / np.linalg.norm(found, axis=0))


def both_starts(ready: Prepared, width: int) -> Array:
    """Yesterday's eigenvectors, and what the landmarks hold beside these, as a re-fit starts."""
    before, near = yesterday_start(ready, width), landmark_start(ready, width)
    tall.project_out([np.linalg.qr(before)[0]], near)
    return np.column_stack([before, tall.orthonormal(near, 0.0)])


STARTS: dict[str, Start] = {
    "random": random_start,
    "Nyström": landmark_start,
    "yesterday": yesterday_start,
    "both": both_starts,
}


def answer(*, quick: bool) -> Answer:
    """Passes of all, for all data and both tolerances."""
    cases = [(name, tol) for tol in TOLERANCES for name in REAL]
    rows = [_row(name, tol, 3000 if quick else 10**9) for name, tol in cases]
    figures = [
        Figure(
            f"tol {tol:g}: data on which {better} saves a pass against {worse}, of {len(REAL)}",
            sum(row[worse] > row[better] for row in rows if row["tol"] == f"{tol:g}"),
            least,
            is_least=True,
        )
        for tol in TOLERANCES
        for better, worse, least in (("Nyström", "random", 3), ("both", "Nyström", 2))
    ]
    return Answer(rows, figures)


def _row(name: str, tol: float, n_samples: int) -> dict[str, Any]:
    found = in_child("starts:count", name=name, tol=tol, n_samples=n_samples)
    passes = {column: found[column] for column in (*STARTS, "ARPACK")}
    return {
        "data": name,
        "n": found["n"],
        "tol": f"{tol:g}",
        **passes,
        "seconds of all": found["seconds"],
        "peak MB": found["peak"] / MB,
    }


def count(name: str, tol: float, n_samples: int) -> dict[str, Any]:
    """The child's side: passes from each start, and ARPACK's products."""
    X = thinned(REAL[name].load(), n_samples).astype(TOLERANCES[tol])
    found: dict[str, Any] = {"n": len(X)}
    with single_threaded_blas(), connect("threads"):
        ready = prepare(
            X,
            REAL[name].gamma,
            tol=tol,
            method="lanczos",
            precision=TOLERANCES[tol],
            n_components=N_COMPONENTS,
        )
        cost = cost_of(lambda: found.update(_counted(ready)))
    return {**cost, **found}


def _counted(ready: Prepared) -> dict[str, int]:
    operator = ready.centred(ready.gram())
    width = block_columns(N_COMPONENTS, ready.looked.n_samples)
    pairs = {name: _solved(ready, operator, start(ready, width)) for name, start in STARTS.items()}
    passes = {name: each.n_passes for name, each in pairs.items()}
    return {**passes, "ARPACK": _arpack_products(ready, operator, pairs["random"].eigenvalues)}


def _solved(ready: Prepared, operator: CentredGram, start: Array | None) -> Eigenpairs:
    plan, asked = ready.plan, ready.plan.settings
    settings = LanczosSettings(
        N_COMPONENTS, asked.max_components, plan.tol, asked.max_passes, plan.max_columns, asked.seed
    )
    coarse, fine = (None, operator) if plan.precision == "float64" else (operator, None)
    return solve(coarse, fine, settings, lambda: operator.trace, ready.looked.n_samples, start=start)


def _arpack_products(ready: Prepared, operator: CentredGram, eigenvalues: Array) -> int:
    products: list[int] = []

    def multiply(v: Array) -> Array:
        products.append(1)
        return operator(v.reshape(-1, 1))[:, 0]

    n_samples = ready.looked.n_samples
    # ARPACK's tolerance is relative to each eigenvalue, not to the first.
    tol = ready.plan.tol * eigenvalues[0] / eigenvalues[-1]
    matrix = LinearOperator((n_samples, n_samples), matvec=multiply, dtype=np.float64)
    v0 = operator.centred(np.random.default_rng(0).standard_normal((n_samples, 1)))[:, 0]
    eigsh(matrix, k=N_COMPONENTS, which="LA", tol=float(tol), v0=v0)
    return len(products)


QUESTION = Question("Starts: passes to 10 components, rbf, and ARPACK's products", answer)

if __name__ == "__main__":
    main(QUESTION)
