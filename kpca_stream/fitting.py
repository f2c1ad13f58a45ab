"""One fit: rows → kernel → tiles → means → eigenpairs → basis. Serves the command line and the estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.exact import ExactFit, Solution
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.certificate import Certificate
from kpca_stream.numerics.eigensolve import Eigenpairs
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.resolve import resolve_kernel
from kpca_stream.nystrom import Approximation, approximate
from kpca_stream.preliminaries import check_weights, early_refusal, identity, look_at, planned
from kpca_stream.stages.gram import TileCounts
from kpca_stream.stages.sweep import Sweep
from kpca_stream.stages.symmetry import check_symmetry
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.own_function import with_function_values
from kpca_stream.storage.source import Source
from kpca_stream.telemetry import Reporter, silent

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found.

    Parameters
    ----------
    basis : Basis
        The positive components.
    pairs : Eigenpairs or None
        All components asked for, those with eigenvalue 0 included; None of an approximate fit.
    plan : FitPlan
    counts : TileCounts
    n_seen : int
        Rows that were fitted, copies included.
    n_distinct : int or None
        Rows that were left by merging; None where they were not merged.
    n_dropped : int
        Rows left out for missing values.
    fingerprint : str or None
    """

    basis: Basis
    pairs: Eigenpairs | None
    plan: FitPlan
    counts: TileCounts
    n_seen: int
    n_distinct: int | None
    n_dropped: int
    fingerprint: str | None
    certificates: tuple[Certificate, ...] = ()

    @property
    def n_passes(self) -> int:
        """Over the pairs of rows, or over the rows against landmarks."""
        return 1 if self.pairs is None else self.pairs.n_passes

    @classmethod
    def exact(cls, found: Solution, plan: FitPlan, looked: Sweep) -> Fit:
        """Of an exact solution."""
        return cls._of(plan, looked, basis=found.basis, pairs=found.pairs, counts=found.counts)

    @classmethod
    def approximate(cls, found: Approximation, plan: FitPlan, looked: Sweep) -> Fit:
        """Of an approximate one."""
        counts = TileCounts(resumed=found.passes_resumed)
        return cls._of(
            plan, looked, basis=found.basis, pairs=None, counts=counts, certificates=found.certificates
        )

    @classmethod
    def _of(cls, plan: FitPlan, looked: Sweep, **found: Any) -> Fit:
        return cls(
            plan=plan,
            n_seen=looked.n_seen,
            n_distinct=looked.n_distinct,
            n_dropped=looked.n_dropped,
            fingerprint=looked.fingerprint,
            **found,
        )


def fit(
    source: Source,
    settings: FitSettings,
    *,
    store: RunStore | None = None,
    weights: Array | None = None,
    reporter: Reporter | None = None,
    looked: Sweep | None = None,
    previous: Basis | None = None,
) -> Fit:
    """Fit a basis to the rows of `source`, on whatever Dask scheduler is active.

    Parameters
    ----------
    source : Source
        Rows (n, d); for a precomputed kernel the matrix (n, n).
    settings : FitSettings
    store : RunStore, optional
        Keeps rows, tiles and checkpoints. Without one nothing is written, and a fit of one task runs in
        the caller.
    weights : ndarray of shape (n,), optional
        Positive; a row of weight w acts as w copies. Then no row may be dropped.
    reporter : Reporter, optional
        Is told how far things got.
    looked : Sweep, optional
        The sweep over the same rows and weights, where it was made before.
    previous : Basis, optional
        An exact one of the first of these rows (see `continues`), whose components start the solve.

    Raises
    ------
    DataError, ConfigError, ConvergenceError
    """
    reporter = reporter or silent()
    with single_threaded_blas():
        if looked is None:
            check_weights(weights, source.n_samples)
            refusal = early_refusal(source, settings, with_store=store is not None)
            looked = look_at(source, settings, store, reporter, weights=weights, refusal=refusal)
        plan = planned(source, settings, looked.n_samples, with_store=store is not None)
        kernel = _kernel(settings, plan, looked)
        if isinstance(kernel, Precomputed):
            check_symmetry(looked.rows, progress=reporter.step("symmetry"))
        if plan.method_reason:
            reporter.note(plan.method_reason)
        if plan.storage_reason and store is not None:
            reporter.note(plan.storage_reason)
        if store is not None:
            store.claim(identity(plan, kernel, looked))
        if plan.method == "nystrom":
            found = approximate(plan, kernel, looked, store, reporter, weights=weights)
            made = Fit.approximate(found, plan, looked)
        else:
            solution = ExactFit(plan, kernel, looked, store, reporter, previous).solution()
            made = Fit.exact(solution, plan, looked)
        return replace(made, basis=with_function_values(made.basis))


def _kernel(settings: FitSettings, plan: FitPlan, looked: Sweep) -> Kernel:
    like = settings.nystrom.like if plan.method == "nystrom" else None
    if like is None:
        return resolve_kernel(settings.kernel, looked.moments, looked.sample, scale=settings.scale)
    if like.columns != looked.columns:
        raise DataError(
            f"got columns {', '.join(looked.columns)}, expected those of the basis whose landmarks are "
            f"taken, {', '.join(like.columns)}; choose them with data.columns"
        )
    return like.kernel
