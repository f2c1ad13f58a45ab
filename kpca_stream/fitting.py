"""One fit: rows → kernel → tiles → means → eigenpairs → basis. Serves the command line and the estimator."""

from __future__ import annotations

import platform
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import ConfigError, ConvergenceError, DataError, KpcaStreamWarning
from kpca_stream.numerics import forecast as costs
from kpca_stream.numerics import novelty
from kpca_stream.numerics.eigensolve import Eigenpairs, dense
from kpca_stream.numerics.kernels import Kernel, Precomputed
from kpca_stream.numerics.resolve import KernelSpec, resolve_kernel
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.stages.centering import CentredGram, Means, centre
from kpca_stream.stages.gram import Gram, TileCounts
from kpca_stream.stages.solve import LanczosSettings, solve, wanted_components
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.stages.symmetry import check_symmetry
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.source import Source
from kpca_stream.telemetry import Reporter, silent

Array = NDArray[Any]

DENSE_ROWS = 5000
"""Beyond so many rows, dense is taken only by name."""
QUICK_DENSE_ROWS = 500
"""Below so many rows, LAPACK is faster than a handful of passes."""
DENSE_SHARE = 0.1
"""From this share of the rows asked for as components on, LAPACK is faster."""

ZERO = {"float32": 2e-7, "float64": 1e-12}
NEGATIVE = {"float32": 5e-3, "float64": 1e-5}
SIGN_TIE = {"float32": 1e-3, "float64": 1e-6}
AUTOMATIC_TOLERANCE = {"float32": 1e-6, "mixed": 1e-6, "float64": 1e-13}


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """How to fit; the meaning of each is that of the configuration's key.

    `n_components` None asks for all positive ones. `on_indefinite` "asked" is an error only where the asked
    components would hold a negative eigenvalue, and a warning elsewhere, as in scikit-learn.
    """

    kernel: KernelSpec = field(default_factory=KernelSpec)
    n_components: int | float | None = 10
    max_components: int = 200
    method: Literal["auto", "dense", "lanczos"] = "auto"
    precision: Literal["auto", "float32", "float64", "mixed"] = "auto"
    tol: float = 0.0
    max_passes: int = 50
    storage: Literal["auto", "memory", "zarr", "recompute"] = "auto"
    tile_rows: int | None = None
    memory_limit: int = 4 * 2**30
    disk_limit: int | None = None
    scale: bool = False
    on_missing: Literal["error", "drop"] = "error"
    on_indefinite: Literal["error", "warn", "asked"] = "error"
    quantile: float = 0.99
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found.

    Parameters
    ----------
    basis : Basis
        The positive components.
    pairs : Eigenpairs
        All components asked for, those with eigenvalue 0 included.
    plan : FitPlan
    counts : TileCounts
    n_dropped : int
        Rows left out for missing values.
    fingerprint : str or None
    """

    basis: Basis
    pairs: Eigenpairs
    plan: FitPlan
    counts: TileCounts
    n_dropped: int
    fingerprint: str | None


@dataclass(frozen=True, eq=False)
class FitPlan:
    """All choices that follow from the settings and the shape of the data, made before the first tile."""

    settings: FitSettings
    shape: costs.Shape
    grid: TileGrid
    precision: str
    storage: Literal["memory", "zarr", "recompute"]
    method: Literal["dense", "lanczos"]
    with_store: bool

    @property
    def tol(self) -> float:
        """The tolerance, the automatic one where none was given."""
        return self.settings.tol or AUTOMATIC_TOLERANCE[self.precision]

    @property
    def tile_dtype(self) -> np.dtype[Any]:
        """Of tiles and of the passes over them."""
        return np.dtype(np.float64 if self.precision == "float64" else np.float32)

    @property
    def scoring_precision(self) -> str:
        """In which rows are scored, and by which eigenvalues are judged."""
        return "float32" if self.precision == "float32" else "float64"

    @property
    def max_columns(self) -> int:
        """Krylov vectors held at once."""
        return costs.krylov_columns(self.shape, self.settings.memory_limit)

    @cached_property
    def forecast(self) -> costs.Forecast:
        """What this fit will take."""
        return costs.forecast(
            self.shape,
            self.grid,
            storage=self.storage,
            method=self.method,
            max_columns=self.max_columns,
            with_store=self.with_store,
        )

    def memory_total(self, n_workers: int) -> int:
        """Bytes at the peak with `n_workers` tasks at once, as many as the limit allows."""
        f = self.forecast
        return f.memory_client + f.memory_tiles + f.memory_task * min(n_workers, self.at_once)

    @property
    def at_once(self) -> int:
        """Tasks that may be alive at once within the memory limit; at least one."""
        f = self.forecast
        free = self.settings.memory_limit - f.memory_client - f.memory_tiles
        return max(1, free // max(f.memory_task, 1))

    def refusals(self) -> tuple[str, ...]:
        """Why this must not start: what does not fit, by how much, and the way out."""
        f, limits = self.forecast, self.settings
        memory = f.memory_client + f.memory_tiles + f.memory_task
        disk = f.disk_rows + f.disk_tiles + f.disk_vectors
        found = []
        if memory > limits.memory_limit:
            found.append(
                f"needs {gib(memory)} of memory, limits.memory is {gib(limits.memory_limit)}: "
                f"{self._memory_remedy()}"
            )
        if limits.disk_limit is not None and disk > limits.disk_limit:
            remedy = (
                "set gram.storage: recompute or raise limits.disk" if f.disk_tiles else "raise limits.disk"
            )
            found.append(f"needs {gib(disk)} of disk, limits.disk is {gib(limits.disk_limit)}: {remedy}")
        return tuple(found)

    def _memory_remedy(self) -> str:
        if self.method == "dense":
            return "set solver.method: lanczos with a number of components, or raise limits.memory"
        if self.storage == "memory":
            return "set gram.storage: recompute (or zarr), or raise limits.memory"
        return "raise limits.memory, or ask for fewer components or precision: float32"


def make_plan(
    settings: FitSettings, n_samples: int, n_features: int, dtype: np.dtype[Any], *, with_store: bool
) -> FitPlan:
    """Make all choices for rows of this shape and type."""
    method = _method(settings, n_samples)
    precision = _precision(settings, n_samples, dtype)
    shape = costs.Shape(
        n_samples,
        n_features,
        _count(settings, n_samples),
        settings.kernel.name if settings.kernel.function is None else "own",
        8 if precision == "float64" else 4,
        precision == "mixed",
    )
    grid = costs.grid_for(shape, settings.tile_rows)
    storage = costs.resolved_storage(
        settings.storage, shape, grid, settings.memory_limit, with_store=with_store
    )
    if storage == "zarr" and not with_store:
        raise ConfigError(
            "storage: zarr needs a store to keep tiles in; give one, or choose memory or recompute"
        )
    return FitPlan(settings, shape, grid, precision, storage, method, with_store)


def fit(
    source: Source,
    settings: FitSettings,
    *,
    store: RunStore | None = None,
    weights: Array | None = None,
    reporter: Reporter | None = None,
    looked: Sweep | None = None,
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
        Positive; a row of weight w acts as w copies.
    reporter : Reporter, optional
        Is told how far things got.
    looked : Sweep, optional
        The sweep over the same rows, where it was made before.

    Raises
    ------
    DataError, ConfigError, ConvergenceError
    """
    reporter = reporter or silent()
    with single_threaded_blas():
        looked = looked or look_at(source, settings, store, reporter)
        plan = make_plan(
            settings, looked.n_samples, looked.n_features, source.original_dtype, with_store=store is not None
        )
        if plan.refusals():
            raise ConfigError(f"{source.name}, {looked.n_samples} rows: {'; '.join(plan.refusals())}")
        kernel = resolve_kernel(settings.kernel, looked.moments, looked.sample, scale=settings.scale)
        if isinstance(kernel, Precomputed):
            check_symmetry(looked.rows, progress=reporter.step("symmetry"))
        if store is not None:
            store.claim(identity(plan, kernel, looked))
        return _Fitting(plan, kernel, looked, store, weights, reporter).result()


def look_at(source: Source, settings: FitSettings, store: RunStore | None, reporter: Reporter) -> Sweep:
    """The preparatory sweep; checks what a single look can tell."""
    found = sweep(
        source,
        seed=settings.seed,
        on_missing=settings.on_missing,
        store=None if store is None else store.group,
        existing=None if store is None or not store.identity else store.rows(),
        progress=reporter.step("rows") if store is not None else None,
    )
    if found.n_samples < 2:
        raise DataError(
            f"{source.name}: got {found.n_samples} row, expected at least 2; a single row has no variance"
        )
    if settings.kernel.name == "precomputed" and found.n_samples != found.n_features:
        raise DataError(
            f"{source.name}: a precomputed kernel has shape ({found.n_samples}, {found.n_features}); expected a square "
            "matrix of the kernel between all training rows"
        )
    return found


def identity(plan: FitPlan, kernel: Kernel, looked: Sweep) -> dict[str, Any]:
    """What stored tiles and sums depend on."""
    numbers = {
        key: getattr(kernel, key)
        for key in ("gamma", "degree", "coef0", "shift", "label")
        if hasattr(kernel, key)
    }
    return {
        "fingerprint": looked.fingerprint,
        "n_samples": looked.n_samples,
        "n_dropped": looked.n_dropped,
        "columns": list(looked.columns),
        "scale": plan.settings.scale,
        "kernel": kernel.name,
        **numbers,
        "precision": plan.precision,
        "tile_rows": plan.grid.tile_rows,
        "tiles_per_block": plan.grid.tiles_per_block,
    }


class _Fitting:
    """The steps of a fit once the kernel is known."""

    def __init__(
        self,
        plan: FitPlan,
        kernel: Kernel,
        looked: Sweep,
        store: RunStore | None,
        weights: Array | None,
        reporter: Reporter,
    ) -> None:
        self.plan, self.kernel, self.looked, self.store, self.reporter = plan, kernel, looked, store, reporter
        self.given_weights = weights
        self.weights = np.ones(looked.n_samples) if weights is None else weights
        self.gram = self._gram(plan.tile_dtype)
        self.diagonal, self.offset = self.gram.terms()

    def result(self) -> Fit:
        """Solve, check, and put the basis together."""
        pairs, means = self._dense() if self.plan.method == "dense" else self._lanczos()
        trace = float(self.weights @ self.diagonal - self.weights.sum() * means.grand_mean)
        pairs = self._signed(self._checked(pairs, trace))
        basis = self._basis(pairs, means, trace)
        if self.store is not None:
            diagonal = self.diagonal + 2 * self.offset
            self.store.write_means(basis.row_means, diagonal, grand_mean=basis.grand_mean, trace=trace)
        return Fit(basis, pairs, self.plan, self.gram.counts, self.looked.n_dropped, self.looked.fingerprint)

    def _gram(self, dtype: Any, storage: Any = None) -> Gram:
        return Gram(
            self.looked.rows,
            self.kernel,
            self.plan.grid,
            np.dtype(dtype),
            storage or self.plan.storage,
            self.store,
            self.reporter.step,
            self.plan.at_once,
        )

    def _dense(self) -> tuple[Eigenpairs, Means]:
        K = self.gram.assemble()
        means = Means.of(K @ self.weights, self.weights)
        trace = float(self.weights @ self.diagonal - self.weights.sum() * means.grand_mean)
        settings = self.plan.settings
        wanted = wanted_components(self._asked(), settings.max_components, lambda: trace)
        return dense(centre(K, self.weights), wanted=wanted), means

    def _lanczos(self) -> tuple[Eigenpairs, Means]:
        settings, plan = self.plan.settings, self.plan
        first = self._centred(self.gram)
        # Float64 products of a mixed fit are few, and their tiles are not worth keeping.
        second = self._centred(self._gram(np.float64, "recompute")) if plan.precision == "mixed" else None
        coarse, fine = (None, first) if plan.precision == "float64" else (first, second)
        lanczos = LanczosSettings(
            self._asked(),
            settings.max_components,
            plan.tol,
            settings.max_passes,
            plan.max_columns,
            settings.seed,
        )
        pairs = solve(coarse, fine, lanczos, lambda: first.trace, self.looked.n_samples)
        return pairs, (fine or first).means

    def _centred(self, gram: Gram) -> CentredGram:
        epsilon = float(np.finfo(gram.dtype).eps)
        return CentredGram(gram.multiply, self.diagonal, self.weights, epsilon=epsilon)

    def _asked(self) -> int | float:
        n_components = self.plan.settings.n_components
        if n_components is None:
            return self.looked.n_samples
        return n_components if isinstance(n_components, float) else min(n_components, self.looked.n_samples)

    def _checked(self, pairs: Eigenpairs, trace: float) -> Eigenpairs:
        asked, precision = self._asked(), self.plan.scoring_precision
        if isinstance(asked, float) and pairs.n_converged < len(pairs.eigenvalues) or not pairs.enough:
            _refuse_unfinished(pairs, asked, trace, self.plan)
        if (worst := float(pairs.residual_norms.max(initial=0.0))) > self.plan.tol * pairs.eigenvalues[0] > 0:
            _warn_of_rounding(worst / pairs.eigenvalues[0], self.plan)
        _check_definite(pairs, self.kernel, self.plan)
        noise = float(np.finfo(precision).eps) * len(self.diagonal) * float(np.abs(self.diagonal).max())
        floor = max(ZERO[precision] * pairs.eigenvalues[0], 0.0)
        zero = pairs.eigenvalues <= (floor if pairs.eigenvalues[0] > noise else np.inf)
        return replace(pairs, eigenvalues=np.where(zero, 0.0, pairs.eigenvalues))

    def _signed(self, pairs: Eigenpairs) -> Eigenpairs:
        """The first score of (nearly) the largest size is positive."""
        scores = np.abs(pairs.eigenvectors / np.sqrt(self.weights)[:, None])
        tie = 1 - SIGN_TIE[self.plan.scoring_precision]
        first = np.argmax(scores >= tie * scores.max(axis=0), axis=0)
        signs = np.sign(pairs.eigenvectors[first, np.arange(len(first))])
        return replace(pairs, eigenvectors=pairs.eigenvectors * np.where(signs == 0, 1.0, signs))

    def _basis(self, pairs: Eigenpairs, means: Means, trace: float) -> Basis:
        kept = pairs.eigenvalues > 0
        eigenvalues = pairs.eigenvalues[kept]
        a = pairs.eigenvectors[:, kept]
        scores = a * np.sqrt(eigenvalues) / np.sqrt(self.weights)[:, None]
        coefficients = a * np.sqrt(self.weights)[:, None] / np.sqrt(eigenvalues)
        unreduced = means.unreduced(self.offset, self.weights)
        self_similarity = self.diagonal - 2 * means.row_means + means.grand_mean
        total = float(self.weights.sum())
        thresholds = novelty.thresholds(
            novelty.reconstruction_error(self_similarity, scores),
            novelty.hotelling_t2(scores, eigenvalues, total),
            total,
            quantile=self.plan.settings.quantile,
        )
        return Basis(
            kernel=self.kernel,
            precision=self.plan.scoring_precision,
            columns=self.looked.columns,
            n_samples=self.looked.n_samples,
            rows=None if isinstance(self.kernel, Precomputed) else self.looked.rows,
            coefficients=ArrayRows(coefficients),
            weights=self.given_weights,
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


def _method(settings: FitSettings, n_samples: int) -> Literal["dense", "lanczos"]:
    if settings.method != "auto":
        if settings.method == "lanczos" and settings.n_components is None:
            raise ConfigError(
                "n_components: None (all) needs a dense solve, got lanczos; give a number or a share"
            )
        return settings.method
    if settings.n_components is None and n_samples > DENSE_ROWS:
        raise ConfigError(
            f"n_components: None (all) of {n_samples} rows needs a dense solve of {gib(4 * 8 * n_samples**2)}, which is "
            f"taken beyond {DENSE_ROWS} rows only by name; give a number or a share of components, or ask for dense"
        )
    many = _count(settings, n_samples) > DENSE_SHARE * n_samples and n_samples <= DENSE_ROWS
    return "dense" if many or n_samples <= QUICK_DENSE_ROWS else "lanczos"


def _precision(settings: FitSettings, n_samples: int, dtype: np.dtype[Any]) -> str:
    if settings.precision != "auto":
        return settings.precision
    if dtype in (np.float32, np.float16):
        return "float32"
    return "float64" if n_samples <= DENSE_ROWS or 0 < settings.tol < 1e-6 else "mixed"


def _count(settings: FitSettings, n_samples: int) -> int:
    if settings.n_components is None:
        return n_samples
    return 16 if isinstance(settings.n_components, float) else min(settings.n_components, n_samples)


def _refuse_unfinished(pairs: Eigenpairs, asked: int | float, trace: float, plan: FitPlan) -> None:
    share = float(pairs.eigenvalues.sum()) / trace if trace > 0 else 0.0
    if isinstance(asked, float) and pairs.n_converged == len(pairs.eigenvalues):
        raise ConvergenceError(
            f"{len(pairs.eigenvalues)} components certify {share:.4f} of the variance, asked for {asked}: raise "
            f"max_components ({plan.settings.max_components}) or max_passes, or ask for less"
        )
    worst = float(pairs.residual_norms.max()) / float(np.abs(pairs.eigenvalues).max())
    raise ConvergenceError(
        f"{pairs.n_converged} of {asked if isinstance(asked, int) else len(pairs.eigenvalues)} components converged in "
        f"{pairs.n_passes} passes (largest residual {worst:.1e}, tol {plan.tol:.1e}): raise max_passes, raise tol, or ask "
        "for fewer components; finished passes are kept in the run's store, if there is one"
    )


def _warn_of_rounding(residual: float, plan: FitPlan) -> None:
    if plan.method == "lanczos" and plan.settings.tol:
        warnings.warn(
            f"residual {residual:.1e} is as small as rounding in {plan.precision} allows for this kernel; asked for "
            f"tol {plan.tol:.1e}: raise tol or use precision: float64",
            KpcaStreamWarning,
            stacklevel=2,
        )


def _check_definite(pairs: Eigenpairs, kernel: Kernel, plan: FitPlan) -> None:
    limit = NEGATIVE[plan.scoring_precision] * max(float(pairs.eigenvalues[0]), 0.0)
    if pairs.smallest >= -limit:
        return
    largest = float(pairs.eigenvalues[0])
    ratio = f"{-pairs.smallest / largest:.4g}" if largest > 0 else "infinite"
    message = (
        f"kernel {getattr(kernel, 'label', kernel.name)} is not positive semidefinite: there are significant negative "
        f"eigenvalues, |negative|/largest = {ratio}"
    )
    action = plan.settings.on_indefinite
    among_asked = bool((pairs.eigenvalues < -limit).any())
    if action == "error" or largest <= 0 or (action == "asked" and among_asked):
        raise DataError(
            f"{message}; use another kernel or other parameters, or set kernel.on_indefinite: warn"
        )
    warnings.warn(f"{message}; only positive ones are used", KpcaStreamWarning, stacklevel=2)


def gib(n_bytes: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} GiB"


__all__ = ["Fit", "FitPlan", "FitSettings", "fit", "identity", "look_at", "make_plan", "passes"]
