"""One Nyström fit: landmarks → one pass of additive statistics → eigenpairs, their certificate → basis."""

from __future__ import annotations

import platform
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.assembly import MUCH_RESIDUAL, Assembled, assembled, drawn_of
from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.fitplan import DEFINITE, FitPlan
from kpca_stream.landmarking import choose_landmarks, curve_of
from kpca_stream.numerics.certificate import Certificate, by_trace, probabilistic, sampled
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.nystrom import embed
from kpca_stream.spectrum import NEGATIVE, tell_indefinite
from kpca_stream.stages.centering import CentredGram
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.statistics import RowPass, accumulate, landmark_matrix, multiply, too_large
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]

LARGEST_VALUE = 1e70
"""Of a kernel: the norm of the sums of its products is still a number."""
JUDGED_ROWS = 500
"""By which a kernel that may be indefinite is looked at."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """What a Nyström fit found, and whether it went on with what an earlier run had left."""

    basis: Basis
    certificates: tuple[Certificate, ...]
    passes_resumed: int = 0
    """1 where the sums, or a part of them, had been left by an earlier run."""


def approximate(
    plan: FitPlan,
    kernel: Kernel,
    looked: Sweep,
    store: RunStore | None,
    reporter: Reporter,
    *,
    weights: Array | None,
) -> Approximation:
    """Fit a Nyström basis to all rows that were looked at.

    Parameters
    ----------
    plan : FitPlan
    kernel : Kernel
    looked : Sweep
    store : RunStore, optional
        Keeps landmarks and sums as they grow.
    reporter : Reporter
    weights : ndarray of shape (n_source,), optional
        As they were given for the rows of the source, copies not merged.

    Raises
    ------
    ConfigError, DataError, ConvergenceError
    """
    with np.errstate(over="ignore", invalid="ignore"):  # told below, by the kernel's name
        landmarks = choose_landmarks(plan, kernel, looked, store, reporter)
        K = landmark_matrix(looked.rows, kernel, landmarks)
    if not np.isfinite(K).all():
        raise too_large(kernel, np.dtype(np.float64))
    _check_definite(plan, kernel, looked)
    features = _features(plan, kernel, landmarks, K)
    if not float(np.abs(K).max()) < min(
        np.sqrt(float(np.finfo(features.dtype).max) / looked.n_samples), LARGEST_VALUE
    ):
        raise too_large(kernel, features.dtype)
    row_pass = _row_pass(plan, features, looked, store, reporter)
    seconds, restored = plan.settings.checkpoint_seconds, list[int]()
    statistics = accumulate(
        row_pass, features.centre, checkpoint_seconds=seconds, on_restored=restored.append
    )
    drawn = drawn_of(kernel, looked, weights, statistics.total, plan.settings.seed)
    made = assembled(features, K, statistics, drawn, plan.settings, looked.columns)
    bound = _bound(plan, features, made, looked, store, reporter)
    certificates = (made.certificate, *(() if bound is None else (bound,)))
    _tell_residual(plan, kernel, looked, made, len(landmarks))
    basis = replace(made.basis, facts={**made.basis.facts, **_facts(plan, looked, certificates, landmarks)})
    if isinstance(kernel, Precomputed):
        basis = _over_all_rows(basis, landmarks[:, 0], looked.n_samples)
    return Approximation(basis, certificates, len(restored))


def brackets_of(basis: Basis) -> Array:
    """Between what the exact eigenvalues are for certain, but for rounding, (k, 2): by the trace."""
    rounding = np.asarray(basis.facts["rounding"])
    return by_trace(basis.facts["certificates"][0]["bound"]).brackets(basis.eigenvalues, rounding)


def _features(plan: FitPlan, kernel: Kernel, landmarks: Array, K: Array) -> FeatureMap:
    like = plan.settings.nystrom.like
    if like is not None and like.accumulated is not None:
        features = FeatureMap.of(kernel, landmarks, np.dtype(like.precision), K=K)
        return replace(features, centre=like.accumulated.centre)
    if plan.precision == "float64":
        return FeatureMap.of(kernel, landmarks, np.float64, K=K)
    return FeatureMap.within(kernel, landmarks, plan.tol, K=K)


def _check_definite(plan: FitPlan, kernel: Kernel, looked: Sweep) -> None:
    """By the kernel of some rows: pivots of a Cholesky factor are chosen among what is positive."""
    if kernel.name in DEFINITE:
        return
    drawn = looked.drawn.smallest(JUDGED_ROWS)
    if isinstance(kernel, Precomputed):
        K = drawn.X[:, drawn.positions(looked.n_seen, plan.settings.seed)]
    else:
        K = kernel.matrix(drawn.X, drawn.X)
    values = np.linalg.eigvalsh((K + K.T) / 2)
    largest = float(np.abs(values).max())
    if values[0] < -NEGATIVE["float64"] * largest:
        tell_indefinite(kernel, plan.settings, -float(values[0]) / largest, among_asked=False)


def _row_pass(
    plan: FitPlan, features: FeatureMap, looked: Sweep, store: RunStore | None, reporter: Reporter
) -> RowPass:
    return RowPass(
        looked.rows,
        looked.weights,
        features.kernel,
        features.landmarks,
        features.dtype,
        store,
        plan.at_once,
        reporter.step("statistics"),
    )


def _bound(
    plan: FitPlan,
    features: FeatureMap,
    made: Assembled,
    looked: Sweep,
    store: RunStore | None,
    reporter: Reporter,
) -> Certificate | None:
    kind, seed = plan.settings.nystrom.bound, plan.settings.seed
    if kind == "trace":
        return None
    if kind == "sampled":
        return _estimate(features, looked, made.statistics.total, seed)
    weights = np.ones(looked.n_samples) if looked.weights is None else looked.weights
    gram = Gram(
        looked.rows,
        features.kernel,
        plan.grid,
        np.dtype(np.float64),
        "recompute",
        store,
        reporter.step,
        plan.at_once,
        checkpoint_seconds=plan.settings.checkpoint_seconds,
    )
    exact = CentredGram(gram.multiply, gram.terms()[0], weights, epsilon=float(np.finfo(np.float64).eps))
    every = embed(features, made.statistics)
    row_pass = replace(_row_pass(plan, features, looked, store, reporter), dtype=np.dtype(np.float64))
    return probabilistic(exact, lambda V: multiply(row_pass, every, V), looked.n_samples, seed=seed)


def _estimate(features: FeatureMap, looked: Sweep, total: float, seed: int) -> Certificate:
    kernel, X = features.kernel, looked.sample
    if isinstance(kernel, Precomputed):
        positions = looked.drawn.smallest(len(X)).positions(looked.n_seen, seed)
        return sampled(X[:, positions], X[:, features.landmarks[:, 0]], features.P, total)
    return sampled(kernel.matrix(X, X), kernel.matrix(X, features.landmarks), features.P, total)


def _tell_residual(plan: FitPlan, kernel: Kernel, looked: Sweep, made: Assembled, n_landmarks: int) -> None:
    share = made.residual_share
    if share <= MUCH_RESIDUAL:
        return
    advice = f"residual trace is {100 * share:.2g} %: more landmarks would bring it down"
    if not isinstance(kernel, Precomputed):
        advice = curve_of(plan, kernel, looked).advice(n_landmarks, share, MUCH_RESIDUAL)
    name = plan.settings.wording
    warnings.warn(f"{advice} (now {name('n_landmarks', n_landmarks)})", KpcaStreamWarning, stacklevel=2)


def _facts(
    plan: FitPlan, looked: Sweep, certificates: tuple[Certificate, ...], landmarks: Array
) -> dict[str, Any]:
    bounds = [
        {**asdict(c), "failure_probability": c.failure_probability if c.certified else None}
        for c in certificates
    ]
    return {
        "fingerprint": looked.fingerprint,
        "method": "nystrom",
        "landmark_method": plan.settings.nystrom.method_for(plan.shape.kernel),
        "n_landmarks": len(landmarks),
        "precision": plan.precision,
        "n_samples": looked.n_seen,
        "n_passes": 1,
        "residual_norms": [],
        "certificates": bounds,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def _over_all_rows(basis: Basis, positions: Array, n_samples: int) -> Basis:
    """The same in terms of all training rows, which new rows of a precomputed kernel are compared with."""
    coefficients, weights = np.zeros((n_samples, basis.n_components)), np.zeros(n_samples)
    coefficients[positions] = basis.coefficients.load()
    weights[positions] = basis.weights
    return replace(basis, n_rows=n_samples, coefficients=ArrayRows(coefficients), weights=weights)
