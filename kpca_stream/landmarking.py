"""Which rows a Nyström fit compares all others with."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError
from kpca_stream.fitplan import FitPlan
from kpca_stream.numerics import landmarks
from kpca_stream.numerics.curve import Curve, curve_by
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.pivots import Wanted
from kpca_stream.numerics.pool import rpcholesky
from kpca_stream.stages.landmarks import Keeping, rpcholesky_of_all
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.checkpoint import Ledger
from kpca_stream.storage.layout import RunStore
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]

POOL_ROWS = 10_000
CURVE_ROWS = 2000
"""By so many rows at least what landmarks leave is told, and by as many others it is measured."""
POOL_ROWS_PER_LANDMARK = 20
"""More of the drawn rows make landmarks hardly better, and choosing longer."""


def choose_landmarks(
    plan: FitPlan, kernel: Kernel, looked: Sweep, store: RunStore | None, reporter: Reporter
) -> Array:
    """Landmarks as rows (m, n_features); with a precomputed kernel their positions (m, 1).

    With a store, what was chosen by an earlier run is chosen again.

    Raises
    ------
    ConfigError
        If the user's own landmarks are no rows of this data, or centres are asked of a precomputed kernel.
    """
    settings = plan.settings.nystrom
    belongs_to = [zlib.crc32(repr([*settings.facts(), plan.settings.seed]).encode())]
    checkpoints = None if store is None else store.checkpoints
    ledger = Ledger(checkpoints, "landmarks", belongs_to)
    restored = ledger.restored()
    if restored is not None:
        return np.asarray(restored[0]["landmarks"])
    keeping = Keeping(checkpoints, belongs_to, plan.settings.checkpoint_seconds)
    chosen = _chosen(plan, kernel, looked, reporter, keeping)
    ledger.save({"landmarks": chosen}, 1)
    return chosen


def curve_of(plan: FitPlan, kernel: Kernel, looked: Sweep) -> Curve:
    """What so many evenly drawn landmarks leave of the trace, measured on the drawn rows."""
    n_rows = max(CURVE_ROWS, 2 * plan.n_landmarks)
    drawn = looked.drawn.smallest(2 * n_rows).X
    pool, judges = drawn[::2], drawn[1::2]
    # The drawn rows come in their own order, in which neighbours are alike.
    order = landmarks.uniform_indices(len(pool), len(pool), plan.settings.seed)
    return curve_by(definite(kernel), pool[order], judges)


def definite(kernel: Kernel) -> Kernel:
    """The kernel itself where the reduced one, by a constant, is not positive semidefinite."""
    return kernel if not getattr(kernel, "shift", 0.0) else replace(kernel, shift=0.0)  # type: ignore[call-arg]


def pool_of(plan: FitPlan, looked: Sweep) -> Array:
    """The drawn rows among which landmarks are chosen, (p, n_features)."""
    n_rows = max(POOL_ROWS, POOL_ROWS_PER_LANDMARK * plan.n_landmarks)
    return looked.drawn.smallest(n_rows).X


def _chosen(plan: FitPlan, kernel: Kernel, looked: Sweep, reporter: Reporter, keeping: Keeping) -> Array:
    settings = plan.settings.nystrom
    if isinstance(kernel, Precomputed):
        return np.sort(_positions(plan, kernel, looked, reporter, keeping))[:, None]
    if settings.like is not None and settings.like.rows is not None:
        return settings.like.rows.load()
    if settings.given is not None:
        return landmarks.own_rows(settings.given, looked.n_features)
    return _drawn(plan, kernel, looked, reporter, keeping)


def _drawn(plan: FitPlan, kernel: Kernel, looked: Sweep, reporter: Reporter, keeping: Keeping) -> Array:
    settings, seed, m = plan.settings.nystrom, plan.settings.seed, plan.n_landmarks
    method, pool = settings.method_for(kernel.name), pool_of(plan, looked)
    if method == "kmeans":
        return landmarks.kmeans(kernel.preparation, pool, m, seed)
    if method == "uniform":
        return landmarks.uniform(pool, m, seed)
    if settings.pool == "all":
        return np.asarray(_of_all(plan, kernel, looked, reporter, keeping).rows)
    found = rpcholesky(definite(kernel), pool, m, seed, settings.residual)
    return np.asarray(pool[found.indices])


def _positions(plan: FitPlan, kernel: Kernel, looked: Sweep, reporter: Reporter, keeping: Keeping) -> Array:
    settings, name = plan.settings.nystrom, plan.settings.wording
    if settings.given is not None:
        return landmarks.own_indices(settings.given, looked.n_samples)
    if settings.method == "kmeans":
        raise ConfigError(
            f"{name('landmark_method')}: got kmeans for a precomputed kernel, which has no rows to average; "
            "expected rpcholesky, uniform, or the positions of rows"
        )
    if settings.method == "uniform":
        return landmarks.uniform_indices(looked.n_samples, plan.n_landmarks, plan.settings.seed)
    return np.asarray(_of_all(plan, kernel, looked, reporter, keeping).indices)


def _of_all(plan: FitPlan, kernel: Kernel, looked: Sweep, reporter: Reporter, keeping: Keeping) -> Any:
    weights = np.ones(looked.n_samples) if looked.weights is None else looked.weights
    return rpcholesky_of_all(
        looked.rows,
        weights,
        definite(kernel),
        Wanted(
            n_landmarks=plan.n_landmarks, seed=plan.settings.seed, residual=plan.settings.nystrom.residual
        ),
        dtype=plan.tile_dtype,
        at_once=plan.at_once,
        progress=reporter.step("landmarks"),
        keeping=keeping,
    )
