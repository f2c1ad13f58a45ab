"""Novelty: digits never seen in training, and false alarms on fresh rows of real sets.

``python -m tests.benchmarks.novelty``. Unseen digits: seven tenths of the rows of some of scikit-learn's
digits are trained on, the other rows are judged by the area under the ROC curve of unseen against seen
ones. The rule, for every choice of digits: rbf, γ "median", 30 components. The peers are `OneClassSVM` with
the same γ or with its default, whichever is better, and PCA's reconstruction error, with 30 components too;
"at best" it has 10, 20 or 30 of them, whichever the answer shows to be best.

False alarms: trained on rows chosen at random from a real set, 10 components, γ "median", 1 % asked;
`novelty` of the rows that are left. Exact, and by 1,000 landmarks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.child import in_child
from tests.benchmarks.data import REAL
from tests.benchmarks.harness import Answer, Figure, Question, main

Array = NDArray[Any]

SEEN: dict[str, tuple[int, ...]] = {
    "0 to 4": (0, 1, 2, 3, 4),
    "5 to 9": (5, 6, 7, 8, 9),
    "even": (0, 2, 4, 6, 8),
    "odd": (1, 3, 5, 7, 9),
    "all but 9": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    **{f"{digit} alone": (digit,) for digit in range(10)},
}
N_COMPONENTS = 30
PEER_COMPONENTS = (10, 20, 30)
SETS = ("letter", "Indian Pines", "china patches")
N_TRAINED = 10_000
METHODS: dict[str, dict[str, Any]] = {
    "exact": {"eigen_solver": "lanczos"},
    "Nyström": {"eigen_solver": "nystrom", "n_landmarks": 1000},
}


def answer(*, quick: bool) -> Answer:
    """Both questions."""
    choices = list(SEEN)[:3] if quick else list(SEEN)
    n_trained = N_TRAINED // 5 if quick else N_TRAINED
    areas = in_child("novelty:areas_of", choices=choices)["rows"]
    alarms = [
        in_child("novelty:alarms", name=name, method=method, n_trained=n_trained)
        for name in SETS
        for method in METHODS
    ]
    shares = [each["false alarms"] for each in alarms]
    figures = [
        Figure("area − OneClassSVM's, least", _least(areas, "OneClassSVM"), -0.01, is_least=True),
        Figure("area − PCA's, least", _least(areas, "PCA"), 0.0, is_least=True),
        Figure("false alarms, least", min(shares), 0.005, is_least=True),
        Figure("false alarms, most", max(shares), 0.015),
        Figure("fresh rows, fewest", min(each["fresh"] for each in alarms), 5000, is_least=True),
    ]
    columns = ("what", "fresh", "kpca_stream", "OneClassSVM", "PCA", "PCA at best", "false alarms")
    return Answer([{key: row.get(key, "-") for key in columns} for row in [*areas, *alarms]], figures)


def _least(areas: list[dict[str, Any]], peer: str) -> float:
    return float(min(each["kpca_stream"] - each[peer] for each in areas))


def areas_of(choices: list[str]) -> dict[str, Any]:
    """The child's side: areas under the ROC curve of unseen digits, for choices of seen ones."""
    return {"rows": [{"what": name, **_areas(SEEN[name])} for name in choices]}


def _areas(seen: tuple[int, ...]) -> dict[str, Any]:
    from sklearn.datasets import load_digits
    from sklearn.metrics import roc_auc_score

    X, digits = load_digits(return_X_y=True)
    is_seen = np.isin(digits, seen)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(is_seen))
    trained = rows[: 7 * len(rows) // 10]
    fresh = np.setdiff1d(np.arange(len(X)), trained)

    def area(of: Callable[[Array, Array], Array]) -> float:
        return float(roc_auc_score(~is_seen[fresh], of(X[trained], X[fresh])))

    of_pca = {n: area(_residuals(n)) for n in PEER_COMPONENTS}
    return {
        "fresh": len(fresh),
        "kpca_stream": area(_errors),
        "OneClassSVM": max(area(_outside(own_gamma=own)) for own in (True, False)),
        "PCA": of_pca[N_COMPONENTS],
        "PCA at best": max(of_pca.values()),
    }


def _errors(train: Array, fresh: Array) -> Array:
    from kpca_stream import KernelPCA

    model = KernelPCA(N_COMPONENTS, kernel="rbf", gamma="median").fit(train)
    return np.asarray(model.reconstruction_error(fresh))


def _outside(*, own_gamma: bool) -> Callable[[Array, Array], Array]:
    from sklearn.svm import OneClassSVM

    from kpca_stream import KernelPCA

    def of(train: Array, fresh: Array) -> Array:
        median = KernelPCA(1, kernel="rbf", gamma="median").fit(train).gamma_
        model = OneClassSVM() if own_gamma else OneClassSVM(gamma=median)
        return np.asarray(-model.fit(train).decision_function(fresh))

    return of


def _residuals(n_components: int) -> Callable[[Array, Array], Array]:
    from sklearn.decomposition import PCA

    def of(train: Array, fresh: Array) -> Array:
        model = PCA(n_components, svd_solver="full").fit(train)
        return np.asarray(np.square(fresh - model.inverse_transform(model.transform(fresh))).sum(axis=1))

    return of


def alarms(name: str, method: str, n_trained: int) -> dict[str, Any]:
    """The child's side: the share of fresh rows that are called novel."""
    from kpca_stream import KernelPCA, load_basis

    X = REAL[name].load().astype(np.float32)
    rows = np.random.default_rng(0).permutation(len(X))
    model = KernelPCA(10, kernel="rbf", gamma="median", n_jobs=-1, **METHODS[method])
    model.fit(X[rows[:n_trained]])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "basis.zarr")
        found = load_basis(Path(folder) / "basis.zarr").score(X[rows[n_trained:]])
    return {
        "what": f"{name}, {method}",
        "fresh": len(found.novelty),
        "false alarms": float(found.novelty.mean()),
    }


QUESTION = Question("Novelty: unseen digits, and false alarms on fresh rows for 1 % asked", answer)

if __name__ == "__main__":
    main(QUESTION)
