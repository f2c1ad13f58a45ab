"""Choosing a kernel's numbers: by how well rows that were held back come back, or by what labels tell.

Both are measured where kernels can be compared: in the space of the rows, and by an estimator's own score.
Distances in feature space cannot: each kernel has a space of its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.fitplan import gib
from kpca_stream.inputs import as_source, unwrapped
from kpca_stream.numerics.forecast import SAMPLE_ROWS
from kpca_stream.numerics.kernels import Kernel, Own, Polynomial
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.parameters import canonical_kernel
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.storage.source import Source
from kpca_stream.telemetry import Reporter, silent
from kpca_stream.tune_results import Trial, TuneSummary
from kpca_stream.tuning.candidates import ALPHAS, Around, Grid, candidates
from kpca_stream.tuning.labels import checked_labels
from kpca_stream.tuning.trials import Answer, Question, answer, fold_numbers, make_estimator, mean_and_spread

Array = NDArray[Any]

HELD_BYTES = 4 * 2**20
"""Of a block of the sample, as it travels to workers."""
MEMORY = 4 * 2**30
MATRICES = 7
"""Of the size of the sample that a trial holds: kernels, eigenvectors and LAPACK's own; measured 6."""
NOTES = {
    True: (
        "errors are in the space of the rows, as a share of their variance: comparable over kernels; "
        "distances in feature space are not, since each kernel has a space of its own, and are never compared"
    ),
    False: (
        "scores are the estimator's own on rows that were held back: comparable over kernels; "
        "distances in feature space are not, since each kernel has a space of its own, and are never compared"
    ),
}


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """How candidates are judged.

    Parameters
    ----------
    estimator : str
        With labels.
    folds, sample_rows, seed : int
    scale : bool
        Whether columns are standardised.
    on_missing : {"error", "drop"}
    memory : int
        Bytes that trials may take in each process.
    """

    estimator: str = "logistic"
    folds: int = 5
    sample_rows: int = 1000
    seed: int = 0
    scale: bool = False
    on_missing: Literal["error", "drop"] = "error"
    memory: int = MEMORY


def tune(  # noqa: PLR0913  what is tried and how it is judged
    X: Any,
    y: Any = None,
    *,
    kernel: str | Callable[..., Any] | Sequence[str] = "rbf",
    gamma: Any = None,
    degree: Any = 3,
    coef0: Any = 1.0,
    n_components: Any = 10,
    alpha: Any = ALPHAS,
    estimator: str = "logistic",
    folds: int = 5,
    sample_rows: int = 1000,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> TuneSummary:
    """Try kernels and their numbers on a sample of the rows, in parallel on the active Dask scheduler.

    Each candidate is fitted on all folds but one and judged on that one. Without labels: by the squared
    distance of its rows to their pre-images, by kernel ridge regression from their scores, as a share of
    their variance. With labels: by an estimator of the scores. Distances in feature space are never compared
    over kernels, since each has a space of its own.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,), optional
        Labels.
    kernel : str, callable or sequence of str
    gamma : float, str or sequence of these, or Around, optional
        None: seven about the median rule, or about "scale" for kernels that have none.
    degree, coef0, n_components : number or sequence
    alpha : number or sequence
        Of the ridge; the best is taken for each candidate.
    estimator : str
        "logistic", "ridge", or "package.module:function" that makes one.
    folds : int
    sample_rows : int
        Rows on which all is tried, drawn by the seed.
    random_state : int
    n_jobs : int, optional
        Threads; None: whatever Dask scheduler is active.

    Returns
    -------
    TuneSummary
        Its ``trials`` are sorted, ``best`` is the first.

    Raises
    ------
    ConfigError, DataError
    """
    names = (kernel,) if isinstance(kernel, str) or callable(kernel) else tuple(kernel)
    grid = Grid(
        kernels=tuple(_spec(name) for name in names),
        gamma=gamma if gamma is None or isinstance(gamma, Around) else _several(gamma),
        degree=_several(degree),
        coef0=_several(coef0),
        n_components=_several(n_components),
        alpha=_several(alpha),
    )
    settings = TuneSettings(estimator=estimator, folds=folds, sample_rows=sample_rows, seed=random_state)
    X = unwrapped(X)
    if not hasattr(X, "shape") or hasattr(X, "columns"):
        X = np.asarray(X)
    source, _folder = as_source(X, MEMORY)
    usual = nullcontext() if n_jobs is None else connect("threads", n_workers=None if n_jobs < 0 else n_jobs)
    with usual:
        found = tuned(source, grid, settings, labels=y)
    for text in found.warnings:
        warnings.warn(text, KpcaStreamWarning, stacklevel=2)
    return found


def tuned(
    source: Source,
    grid: Grid,
    settings: TuneSettings,
    *,
    labels: Any = None,
    reporter: Reporter | None = None,
) -> TuneSummary:
    """Judge all candidates of a grid on a sample of `source`; see `tune`."""
    began, reporter = time.perf_counter(), reporter or silent()
    _check_values(grid)
    _check(grid, settings, labels)
    with single_threaded_blas():
        looked = sweep(
            source,
            seed=settings.seed,
            n_drawn=max(SAMPLE_ROWS, settings.sample_rows),
            on_missing=settings.on_missing,
            progress=reporter.step("rows"),
        )
        X, y = _sample(source, looked, settings, labels)
        kernels = list(candidates(grid, looked, scale=settings.scale))
        answers = _asked(kernels, X, y, grid, settings, reporter)
    less_is_better = y is None
    pairs = zip(kernels, answers, strict=True)
    found = [trial for kernel, each in pairs for trial in _trials(kernel, each, grid, y)]
    found.sort(key=lambda trial: _rank(trial, less_is_better=less_is_better))
    if found[0].score is None:
        raise DataError(f"none of {len(found)} candidates could be judged, the first: {found[0].problem}")
    return TuneSummary(
        source=source.name,
        n_samples=looked.n_seen,
        n_features=source.n_features,
        n_sampled=len(X),
        folds=settings.folds,
        criterion="preimage" if less_is_better else settings.estimator,
        trials=tuple(found),
        note=NOTES[less_is_better],
        seconds=time.perf_counter() - began,
        warnings=tuple(_at_the_edge(found)),
    )


def _check_values(grid: Grid) -> None:
    for name in ("kernels", "gamma", "degree", "coef0", "n_components", "alpha"):
        values = getattr(grid, name)
        if isinstance(values, Sequence) and not values:
            raise ConfigError(f"{name}: got no value to try, expected one or several")
    for name, at_least in (("n_components", 1), ("alpha", 0)):
        for value in getattr(grid, name):
            if isinstance(value, str) or not value >= at_least:
                raise ConfigError(f"{name}: got {value!r}, expected numbers ≥ {at_least}")


def _check(grid: Grid, settings: TuneSettings, labels: Any) -> None:
    """Refuse what no row is needed to refuse."""
    for spec in grid.kernels:
        if spec.name == "precomputed":
            raise ConfigError(
                "kernel: got precomputed, expected kernels of rows: a matrix has nothing to tune"
            )
    for name, low in (("folds", 2), ("sample_rows", 20)):
        value = getattr(settings, name)
        if not isinstance(value, int) or value < low:
            raise ConfigError(f"{name}: got {value!r}, expected a whole number ≥ {low}")
    if labels is not None:
        make_estimator(settings.estimator)


def _sample(source: Source, looked: Sweep, settings: TuneSettings, labels: Any) -> tuple[Array, Array | None]:
    drawn = looked.drawn.smallest(settings.sample_rows)
    if labels is None:
        return drawn.X, None
    values = checked_labels(labels, source.n_samples, settings.estimator)
    return drawn.X, values[drawn.positions(source.n_samples, settings.seed)]


def _asked(
    kernels: list[Kernel],
    X: Array,
    y: Array | None,
    grid: Grid,
    settings: TuneSettings,
    reporter: Reporter,
) -> list[list[Answer]]:
    """What each kernel is worth on each fold."""
    folds = fold_numbers(len(X), settings.folds, settings.seed, y)
    at_once = _at_once(len(X), X.shape[1], settings)
    blocks, n_folds = _held(X), settings.folds

    def call(index: int) -> passes.Call:
        kernel, fold = kernels[index // n_folds], index % n_folds
        question = Question(kernel, grid.n_components, grid.alpha, folds, fold, y, settings.estimator)
        return passes.Call(answer, (question, *blocks))

    found: list[list[Answer]] = [[] for _ in kernels]
    passes.run(
        passes.Lazy(len(kernels) * n_folds, call),
        lambda index, result: found[index // n_folds].append(result),
        progress=reporter.step("trials"),
        at_once=at_once,
    )
    return found


def _at_once(n_rows: int, n_features: int, settings: TuneSettings) -> int:
    """How many trials memory allows side by side; a ConfigError where it allows none."""
    n_bytes = 8 * n_rows * (MATRICES * n_rows + 4 * n_features)
    if n_bytes > settings.memory:
        raise ConfigError(
            f"sample_rows: got {n_rows}, of which a trial takes {gib(n_bytes)} of memory, expected at most "
            f"{gib(settings.memory)}: lower it, or allow more memory"
        )
    return settings.memory // n_bytes * max(1, passes.n_processes())


def _held(X: Array) -> list[Any]:
    """The sample in blocks that are brought to the workers once."""
    step = max(1, HELD_BYTES // (8 * X.shape[1]))
    cut = (X[a : a + step] for a in range(0, len(X), step))
    return [passes.compute([passes.Call(_kept, (block,), keeps=True)])[0][0] for block in cut]


def _kept(block: Array) -> tuple[Array, None]:
    """The task: a block that stays, and nothing to bring back."""
    return block, None


def _trials(kernel: Kernel, answers: list[Answer], grid: Grid, y: Array | None) -> Iterator[Trial]:
    """Each number of components, with the alpha that is best for it."""
    means, spreads, problem = mean_and_spread(answers)
    for i, n_components in enumerate(grid.n_components):
        judged = np.isfinite(means[i])
        j = int(np.argmin(np.where(judged, means[i], np.inf)))
        yield Trial(
            kernel=kernel.label if isinstance(kernel, Own) else kernel.name,
            gamma=getattr(kernel, "gamma", None),
            degree=kernel.degree if isinstance(kernel, Polynomial) else None,
            coef0=getattr(kernel, "coef0", None),
            n_components=n_components,
            alpha=grid.alpha[j] if y is None and judged.any() else None,
            score=float(means[i, j]) if judged.any() else None,
            spread=float(spreads[i, j]) if judged.any() else None,
            problem="" if judged.any() else problem,
        )


def _rank(trial: Trial, *, less_is_better: bool) -> float:
    if trial.score is None:
        return float("inf")
    return trial.score if less_is_better else -trial.score


def _at_the_edge(trials: list[Trial]) -> Iterator[str]:
    """Where the best gamma is the smallest or the largest that was tried."""
    best = trials[0]
    gammas = {trial.gamma for trial in trials if trial.kernel == best.kernel and trial.gamma is not None}
    if len(gammas) > 2 and best.gamma in (min(gammas), max(gammas)):
        side = "smallest" if best.gamma == min(gammas) else "largest"
        yield (
            f"the best gamma of {best.kernel}, {best.gamma:.6g}, is the {side} that was tried: a sweep "
            "that goes further may find a better one"
        )


def _spec(kernel: Any) -> KernelSpec:
    if isinstance(kernel, str):
        return KernelSpec(canonical_kernel(kernel))
    return KernelSpec(getattr(kernel, "__name__", "callable"), function=kernel)


def _several(values: Any) -> tuple[Any, ...]:
    given = (values,) if isinstance(values, str) or np.ndim(values) == 0 else values
    return tuple(value.item() if isinstance(value, np.generic) else value for value in given)


__all__ = ["Around", "Grid", "TuneSettings", "tune", "tuned"]
