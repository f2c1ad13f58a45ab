"""One exact fit: tiles → means → eigenpairs, judged and signed → basis."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.fitplan import FitPlan
from kpca_stream.numerics import novelty
from kpca_stream.numerics.eigensolve import Eigenpairs, dense
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.nystrom import FeatureMap
from kpca_stream.numerics.reflection import Reflection
from kpca_stream.spectrum import completed, judged, signed, with_centred_direction
from kpca_stream.stages.centering import CentredGram, Means, centre
from kpca_stream.stages.gram import Gram, TileCounts
from kpca_stream.stages.solve import LanczosSettings, solve, wanted_components
from kpca_stream.stages.statistics import landmark_block
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]

ERROR_ROUNDINGS = 64
"""Reconstruction errors of so many roundings of the terms that they are the difference of count as 0."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What an exact fit found: the basis, all components asked for, and how its tiles were come by."""

    basis: Basis
    pairs: Eigenpairs
    counts: TileCounts


class ExactFit:
    """The steps of an exact fit once the kernel is known.

    Parameters
    ----------
    plan : FitPlan
    kernel : Kernel
    looked : Sweep
    store : RunStore or None
        Keeps tiles and checkpoints.
    reporter : Reporter
    """

    def __init__(
        self,
        plan: FitPlan,
        kernel: Kernel,
        looked: Sweep,
        store: RunStore | None,
        reporter: Reporter,
    ) -> None:
        self.plan, self.kernel, self.looked, self.store, self.reporter = plan, kernel, looked, store, reporter
        self.weights = np.ones(looked.n_samples) if looked.weights is None else looked.weights
        self.at_once = plan.at_once * max(1, passes.n_processes())
        self.gram = self._gram(plan.tile_dtype)
        self.diagonal, self.offset = self.gram.terms()

    def solution(self) -> Solution:
        """Solve, check, and put the basis together."""
        pairs, means = self._dense() if self.plan.method == "dense" else self._lanczos()
        if self.store is not None:
            self.store.check_means(means.unreduced(self.offset, self.weights).row_means)
        trace = means.trace(self.diagonal, self.weights)
        largest_entry = float((self.weights * np.abs(self.diagonal)).max())
        pairs = with_centred_direction(pairs, self.weights)
        pairs = judged(pairs, self.plan, self.kernel, trace=trace, largest_entry=largest_entry)
        if not isinstance(self._asked(), float):
            pairs = completed(pairs, int(self._asked()))
        pairs = signed(pairs, self.weights, self.plan.scoring_precision)
        basis = self._basis(pairs, means, trace)
        if self.store is not None:
            diagonal = self.diagonal + 2 * self.offset
            self.store.write_means(
                basis.row_means, diagonal, basis.weights, grand_mean=basis.grand_mean, trace=trace
            )
        return Solution(basis, pairs, self.gram.counts)

    def _gram(self, dtype: Any, storage: Any = None) -> Gram:
        return Gram(
            self.looked.rows,
            self.kernel,
            self.plan.grid,
            np.dtype(dtype),
            storage or self.plan.storage,
            self.store,
            self.reporter.step,
            self.at_once,
            memory_tasks=0 if storage else self.plan.memory_tasks,
            checkpoint_seconds=self.plan.settings.checkpoint_seconds,
        )

    def _dense(self) -> tuple[Eigenpairs, Means]:
        K = self.gram.assemble()
        means = Means.of(K @ self.weights, self.weights)
        trace = means.trace(self.diagonal, self.weights)
        settings = self.plan.settings
        wanted = wanted_components(self._asked(), settings.max_components, lambda: trace)
        reflection = Reflection.of(np.sqrt(self.weights / self.weights.sum()))
        pairs = dense(reflection.compress(centre(K, self.weights)), wanted=wanted)
        return replace(pairs, eigenvectors=reflection.expand(pairs.eigenvectors)), means

    def _lanczos(self) -> tuple[Eigenpairs, Means]:
        settings, plan = self.plan.settings, self.plan
        first = self._centred(self.gram)
        # Float64 products of a mixed fit are few, and their tiles are not worth keeping.
        fine_gram = self._gram(np.float64, "recompute") if plan.precision == "mixed" else None
        second = None if fine_gram is None else self._centred(fine_gram)
        coarse, fine = (None, first) if plan.precision == "float64" else (first, second)
        lanczos = LanczosSettings(
            self._asked(),
            settings.max_components,
            plan.tol,
            settings.max_passes,
            plan.max_columns,
            settings.seed,
        )
        n_samples = self.looked.n_samples
        pairs = solve(coarse, fine, lanczos, lambda: first.trace, n_samples, start=self._start())
        if fine_gram is not None:
            self.gram.counts.add(fine_gram.counts)
            self.gram.counts.resumed += fine_gram.counts.resumed
        return pairs, (fine or first).means

    def _start(self) -> Array | None:
        """Vectors near the leading eigenvectors, from the landmarks that the plan gives."""
        n_landmarks = self.plan.n_start_landmarks
        if not n_landmarks:
            return None
        # The sample is in row order: an even choice from it is as random as the sample itself.
        chosen = np.linspace(0, len(self.looked.sample) - 1, n_landmarks).astype(int)
        dtype = self.plan.tile_dtype
        features = FeatureMap.of(self.kernel, self.looked.sample[chosen], dtype)
        return landmark_block(
            self.looked.rows,
            self.weights,
            features,
            self.plan.shape.width,
            dtype,
            at_once=self.at_once,
            progress=self.reporter.step("landmarks"),
        )

    def _centred(self, gram: Gram) -> CentredGram:
        epsilon = float(np.finfo(gram.dtype).eps)
        if gram.dtype == np.float64:  # where float32 cancels, float64 steps in
            moments = self.looked.moments
            epsilon *= self.kernel.cancellation(np.stack([moments.minimum, moments.maximum]))
        return CentredGram(gram.multiply, self.diagonal, self.weights, epsilon=epsilon)

    def _asked(self) -> int | float:
        n_components = self.plan.settings.n_components
        if n_components is None:
            return self.looked.n_samples
        return n_components if isinstance(n_components, float) else min(n_components, self.looked.n_samples)

    def _basis(self, pairs: Eigenpairs, means: Means, trace: float) -> Basis:
        kept = pairs.eigenvalues > 0
        eigenvalues = pairs.eigenvalues[kept]
        a = pairs.eigenvectors[:, kept]
        scores = a * np.sqrt(eigenvalues) / np.sqrt(self.weights)[:, None]
        # In the order in which they are read back: BLAS rounds a single row's scores by it.
        coefficients = np.ascontiguousarray(a * np.sqrt(self.weights)[:, None] / np.sqrt(eigenvalues))
        unreduced = means.unreduced(self.offset, self.weights)
        self_similarity = self.diagonal - 2 * means.row_means + means.grand_mean
        largest = float((np.abs(self.diagonal) + 2 * np.abs(means.row_means)).max()) + abs(means.grand_mean)
        total = float(self.weights.sum())
        thresholds = novelty.thresholds(
            novelty.reconstruction_error(self_similarity, scores),
            novelty.hotelling_t2(scores, eigenvalues, total),
            total,
            quantile=self.plan.settings.quantile,
            weights=self.looked.weights,
            rounding=ERROR_ROUNDINGS * float(np.finfo(self.plan.scoring_precision).eps) * largest,
        )
        return Basis(
            kernel=self.kernel,
            precision=self.plan.scoring_precision,
            columns=self.looked.columns,
            n_rows=self.looked.n_samples,
            total_weight=total,
            rows=None if isinstance(self.kernel, Precomputed) else self.looked.rows,
            coefficients=ArrayRows(coefficients),
            weights=self.looked.weights,
            eigenvalues=eigenvalues,
            centring=coefficients.T @ means.row_means,
            reduced_grand_mean=means.grand_mean,
            row_means=unreduced.row_means,
            grand_mean=unreduced.grand_mean,
            trace=trace,
            thresholds=thresholds,
            facts=self._facts(pairs),
        )

    def _facts(self, pairs: Eigenpairs) -> dict[str, Any]:
        largest = float(pairs.eigenvalues[0]) or 1.0
        return {
            "fingerprint": self.looked.fingerprint,
            "method": self.plan.method,
            "precision": self.plan.precision,
            "tol": self.plan.tol,
            "n_passes": pairs.n_passes,
            "residual_norms": [float(r) / largest for r in pairs.residual_norms[pairs.eigenvalues > 0]],
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
        }
