"""What can be checked of a Nyström basis from the sums that it keeps, without a pass over any rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.nystrom import ROUNDINGS, Embedding, Statistics, embed
from kpca_stream.results import Check
from kpca_stream.storage.frozen import Accumulated, Basis
from kpca_stream.storage.layout import TOLERANCE

Array = NDArray[Any]

LIMIT = TOLERANCE["float64"]
"""Beyond rounding: whatever similarities were computed in, what follows from their sums is float64."""
EPSILON = ROUNDINGS * float(np.finfo(np.float64).eps)


def landmark_checks(basis: Basis) -> list[Check]:
    """The laws that bind sums, coefficients, eigenvalues and bounds; a few of them for a precomputed kernel.

    With B the coefficients, m the mean similarity with the landmarks, q the centre in terms of them and P of
    the feature map: Bᵀ(G − s sᵀ/N)B = diag(λ̂), the centring is Bᵀm, Pᵀ(m − K_mm q) = 0, the grand mean is
    qᵀK_mm q, and the residual trace and the bound of the whole one are those of the sums.
    """
    if basis.accumulated is None or basis.rows is None:
        return _checks_of_given_matrix(basis)
    return _Sums.of(basis, basis.accumulated, basis.rows.load()).checks()


@dataclass(frozen=True, eq=False)
class _Sums:
    """A basis beside what its sums say anew."""

    basis: Basis
    statistics: Statistics
    K: Array
    features: FeatureMap
    own_offset: Array

    @classmethod
    def of(cls, basis: Basis, accumulated: Accumulated, landmarks: Array) -> _Sums:
        """K_mm and the feature map, computed from the landmarks again."""
        kernel = basis.kernel
        K = kernel.matrix(landmarks, landmarks)
        features = FeatureMap.of(kernel, landmarks, np.dtype(basis.precision), K=K)
        own_offset = kernel.offset(kernel.operand(landmarks, np.float64))
        return cls(basis, accumulated.statistics(), K, features, own_offset)

    def checks(self) -> list[Check]:
        """Each number of the basis against its sums."""
        basis, total = self.basis, self.statistics.total
        counted = abs(total - basis.total_weight) / max(basis.total_weight, 1.0)
        return [
            self._eigenpairs(),
            self._centring(),
            self._centre(),
            *self._means(),
            *self._traces(),
            _check("rows counted", counted),
        ]

    @cached_property
    def found(self) -> Embedding:
        """What the sums embed to."""
        return embed(self.features, self.statistics)

    @cached_property
    def spread(self) -> float:
        """Mean squared distance of the rows to their centre in feature space."""
        return max(self.found.trace_bound / self.statistics.total, float(np.finfo(np.float64).tiny))

    @cached_property
    def centre(self) -> Array:
        """q, (m,)."""
        weights = np.zeros(len(self.K)) if self.basis.weights is None else self.basis.weights
        return np.asarray(weights / self.basis.total_weight)

    def _eigenpairs(self) -> Check:
        values, B = self.basis.eigenvalues, self.basis.coefficients.load()
        scatter, sizes = self.statistics.scatter, np.linalg.norm(B, axis=0)
        rounding = EPSILON * float(np.linalg.norm(scatter)) * np.outer(sizes, sizes)
        off = np.abs(B.T @ scatter @ B - np.diag(values)) - rounding
        return _check("eigenpairs", float((off / np.sqrt(np.outer(values, values))).max(initial=0.0)))

    def _centring(self) -> Check:
        values, B, mean = self.basis.eigenvalues, self.basis.coefficients.load(), self.statistics.mean
        rounding = EPSILON * float(np.linalg.norm(mean)) * np.linalg.norm(B, axis=0)
        off = np.abs(B.T @ mean - self.basis.centring) - rounding
        return _check("centring", float((off / np.sqrt(values / self.statistics.total)).max(initial=0.0)))

    def _centre(self) -> Check:
        P, mean, norm = self.features.P, self.statistics.mean, np.linalg.norm
        off = float(norm(P.T @ (mean - self.K @ self.centre)))
        rounding = EPSILON * float(norm(P) * (norm(mean) + norm(self.K) * norm(self.centre)))
        return _check("centre", (off - rounding) / self.spread**0.5)

    def _means(self) -> list[Check]:
        basis, q = self.basis, self.centre
        offset = self.statistics.offset / self.statistics.total
        rounding = EPSILON * float(np.abs(q) @ np.abs(self.K) @ np.abs(q)) + EPSILON * abs(offset)
        reduced = abs(float(q @ self.K @ q) - basis.reduced_grand_mean)
        whole = abs(basis.reduced_grand_mean + 2 * offset - basis.grand_mean)
        row_means = self.statistics.mean + self.own_offset + offset
        largest = max(float(np.abs(basis.row_means).max()), float(np.finfo(np.float64).tiny))
        return [
            _check("grand mean", (max(reduced, whole) - rounding) / self.spread),
            _check("row means", float(np.abs(row_means - basis.row_means).max()) / largest),
        ]

    def _traces(self) -> list[Check]:
        basis, found = self.basis, self.found
        whole = max(found.trace_bound, float(np.finfo(np.float64).tiny))
        own = self.statistics.tau + 2 * self.statistics.offset
        share = basis.facts["residual_trace_share"] * own if own > 0 else 0.0
        # Of sums alone; `trace_rounding` is also that of the similarities that were added up.
        rounding = found.trace_rounding * float(
            np.finfo(np.float64).eps / np.finfo(self.features.dtype).eps
        ) + EPSILON * abs(own)
        certified = found.residual_trace + found.trace_rounding
        bound = basis.facts["certificates"][0]["bound"]
        residual = max(abs(share - found.residual_trace), abs(bound - certified))
        return [
            _check("trace", (abs(basis.trace - found.trace_bound) - rounding) / whole),
            _check("residual trace", (residual - rounding) / whole),
        ]


def _checks_of_given_matrix(basis: Basis) -> list[Check]:
    """Of a precomputed kernel no sums are kept: what its numbers say of each other."""
    B, facts = basis.coefficients.load(), basis.facts
    weights = np.zeros(basis.n_rows) if basis.weights is None else basis.weights
    used = (weights != 0) | (B != 0).any(axis=1)
    n_landmarks = facts["n_landmarks"]
    held = float(basis.eigenvalues.sum() - np.sum(facts["rounding"]))
    checks = [
        Check(
            name="landmarks",
            ok=int(used.sum()) <= n_landmarks,
            detail=f"{used.sum()} rows of {basis.n_rows} have coefficients, of at most {n_landmarks}",
        ),
        Check(
            name="trace",
            ok=held <= basis.trace * (1 + TOLERANCE[basis.precision]),
            detail=f"components hold {held:.6g} of at most {basis.trace:.6g}",
        ),
    ]
    if int(used.sum()) < len(basis.row_means):  # a landmark that is like no row has no coefficients
        return checks
    sizes = np.linalg.norm(B, axis=0) * float(np.linalg.norm(basis.row_means))
    off = np.abs(B[used].T @ basis.row_means - basis.centring) - EPSILON * sizes
    spread = np.sqrt(basis.eigenvalues / basis.total_weight)
    return [*checks, _check("centring", float((off / spread).max(initial=0.0)))]


def _check(name: str, off: float) -> Check:
    """Of what is off beyond rounding."""
    off = max(off, 0.0)
    return Check(name=name, ok=off <= LIMIT, detail=f"off by {off:.1e} (limit {LIMIT:.0e})")
