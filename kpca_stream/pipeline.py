"""The order of things: plan, fit, publish, score. One call for each command."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kpca_stream import passes
from kpca_stream.cluster import connect_as, forecast_workers, release_memory, return_freed_memory
from kpca_stream.config import Config
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.joining import merged
from kpca_stream.landmark_settings import landmark_settings
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.resolve import KernelSpec, make_kernel, resolve_kernel
from kpca_stream.packages import package_versions
from kpca_stream.parameters import is_function_name
from kpca_stream.planning import make_plan
from kpca_stream.preliminaries import early_refusal, look_at, own_values, plan_of, stays_in_place
from kpca_stream.reporting import check_packages, make_report
from kpca_stream.results import (
    FitSummary,
    MergeSummary,
    Plan,
    ReportSummary,
    RunResult,
    ScoreSummary,
    as_json,
)
from kpca_stream.scorer import Scorer
from kpca_stream.scorer.batch import PART_ROWS
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis, open_basis, save_basis
from kpca_stream.storage.opening import occupied
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.source import Source, open_source
from kpca_stream.storage.trained import Trained
from kpca_stream.summaries import fit_summary, merge_summary, plan_summary, reused_summary
from kpca_stream.telemetry import Reporter
from kpca_stream.tune_results import TuneSummary
from kpca_stream.tuning import tuned
from kpca_stream.tuning.plot import check_plotting, save_plot
from kpca_stream.tuning.settings import grid_of, labels_of, tune_settings_of
from kpca_stream.verification import verify_store

__all__ = ["fit_config", "plan_config", "run_config", "score_config", "verify_store"]


def run_config(config: Config, reporter: Reporter, *, restart: bool = False) -> RunResult:
    """Fit (see `fit_config`), publish and, where the configuration says so, score and report."""
    if config.report is not None:
        check_packages()
    job = _job(config)
    with connected(config, reporter):
        fitted = _fitted(config, job, reporter, restart=restart)
        scored = None if config.score is None else Scorer(config, reporter).work_off()
        reported = None if config.report is None else make_report(config, reporter)
        return RunResult(fit=fitted, score=scored, report=reported)


def plan_config(config: Config, reporter: Reporter, *, shape: tuple[int, int] | None = None) -> Plan:
    """What a fit will cost, from the shape of the data alone; reads no rows (of a CSV file, their places)."""
    settings = settings_of(config)
    source = None if shape is not None else training_source(config)
    n_samples, n_features = shape or _shape(source)
    dtype = np.dtype(np.float64) if source is None else source.original_dtype
    in_place = source is not None and stays_in_place(source, settings)
    reading_bytes = 0 if source is None else source.reading_bytes
    plan = make_plan(
        settings,
        n_samples,
        n_features,
        dtype,
        with_store=True,
        in_place=in_place,
        reading_bytes=reading_bytes,
    )
    scored = None if source is None else _rows_to_score(config)
    return plan_summary(config, plan, *_workers(config, reporter), scored)


def fit_config(config: Config, reporter: Reporter, *, restart: bool = False) -> FitSummary:
    """Fit and publish a basis; where this very fit is published already, say so and do nothing.

    With `restart`, what earlier runs left in the store is removed once the rows were looked at and the fit
    may begin, and it is made anew.
    """
    job = _job(config)
    with connected(config, reporter):
        return _fitted(config, job, reporter, restart=restart)


def score_config(config: Config, reporter: Reporter, *, follow: bool = False) -> ScoreSummary:
    """Score what is new in the configured input, once or (`follow`) until SIGTERM or SIGINT comes."""
    make_importable()
    with connected(config, reporter):
        scorer = Scorer(config, reporter)
        return scorer.follow() if follow else scorer.work_off()


def report_config(config: Config, reporter: Reporter) -> ReportSummary:
    """Write the page about the published model and its scores."""
    check_packages()
    make_importable()
    with connected(config, reporter):
        return make_report(config, reporter)


def tune_config(config: Config, reporter: Reporter, *, plot: Path | None = None) -> TuneSummary:
    """Try what section tune says on a sample of the rows to train on, and draw it where a `plot` is asked."""
    make_importable()
    if plot is not None:
        check_plotting(plot)
    source, asked = training_source(config), config.tune.labels
    labels = None if asked is None else labels_of(asked, config.data.train.path, source.columns)
    with connected(config, reporter):
        found = tuned(source, grid_of(config), tune_settings_of(config), labels=labels, reporter=reporter)
    if plot is None:
        return found
    save_plot(found, plot)
    return replace(found, plot=str(plot))


def merge_bases(paths: Sequence[Path], into: Path) -> MergeSummary:
    """Write the basis of all rows that several Nyström bases of the same landmarks were fitted on."""
    if into.exists():
        raise ConfigError(f"{into} exists; a basis is never overwritten: choose another path, or remove it")
    make_importable()
    bases = [open_basis(path) for path in paths]
    first = bases[0]
    most = max(basis.n_components for basis in bases)
    settings = FitSettings(n_components=most, quantile=first.thresholds.quantile)
    basis = merged(bases, [str(path) for path in paths], settings)
    save_basis(basis, into)
    return merge_summary(basis, [str(path) for path in paths], into)


def settings_of(config: Config) -> FitSettings:
    """The fit that a configuration describes."""
    make_importable()
    kernel, solver, gram = config.kernel, config.solver, config.gram
    return FitSettings(
        kernel=_kernel_spec(config),
        n_components=solver.n_components,
        max_components=solver.max_components,
        method=solver.method,
        allow_approximate=solver.allow_approximate,
        nystrom=landmark_settings(config),
        precision=solver.precision,
        tol=solver.tol,
        max_passes=solver.max_passes,
        storage=gram.storage,
        tile_rows=None if gram.tile_rows == "auto" else gram.tile_rows,
        checkpoint_seconds=gram.checkpoint_seconds,
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        core_hours=config.limits.core_hours,
        scale=config.data.scale == "standard",
        on_missing=config.data.on_missing,
        merge_duplicates=config.data.merge_duplicates,
        on_indefinite=kernel.on_indefinite,
        quantile=config.novelty.quantile,
        seed=config.seed,
    )


def _kernel_spec(config: Config) -> KernelSpec:
    kernel = config.kernel
    return KernelSpec(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)


def check_function(config: Config) -> None:
    """Find the kernel where it is a function of one's own, or raise `ConfigError`."""
    if is_function_name(config.kernel.name):
        make_importable()
        make_kernel(_kernel_spec(config), Preparation(), gamma=0.0)


def fit_name(settings: FitSettings, looked: Sweep, source: Source) -> str:
    """A name that two fits share only if they must give the same basis."""
    numbers, choices = _choices(settings)
    plan = plan_of(source, settings, looked.n_samples, with_store=True)
    facts = [looked.fingerprint, looked.n_seen, looked.n_distinct, looked.columns, numbers, choices]
    facts += [plan.precision, _values_of_function(settings, looked)]
    if plan.method == "nystrom":
        facts += [plan.method, settings.nystrom.facts()]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def settings_digest(settings: FitSettings, source: Source) -> str:
    """What tells whether files that were fitted before would be fitted in the same way."""
    approximate = [settings.method, settings.allow_approximate, settings.nystrom.facts()]
    facts = [*_choices(settings), source.columns, approximate]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _choices(settings: FitSettings) -> tuple[list[Any], dict[str, Any]]:
    """The numbers of the kernel, and all else that a basis depends on, but for landmarks."""
    unlike = {"kernel", "storage", "memory_limit", "disk_limit", "checkpoint_seconds", "merge_duplicates"}
    unlike |= {"core_hours", "allow_approximate", "nystrom"}
    kernel = settings.kernel
    numbers = [kernel.name, kernel.gamma, kernel.degree, kernel.coef0]
    return numbers, {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in unlike}


def _values_of_function(settings: FitSettings, looked: Sweep) -> str | None:
    """What tells a function of one's own from another one under its name."""
    if not is_function_name(settings.kernel.name):
        return None
    kernel = resolve_kernel(settings.kernel, looked.moments, looked.sample, scale=settings.scale)
    return own_values(kernel, looked.sample)


class _Job(NamedTuple):
    """A fit that the limits allow, or may allow once duplicates are merged: else `refusal` says why not."""

    settings: FitSettings
    source: Source
    registry: Registry
    refusal: ConfigError | None


def _job(config: Config) -> _Job:
    settings, source, registry = settings_of(config), training_source(config), registry_of(config)
    return _Job(settings, source, registry, early_refusal(source, settings, with_store=True))


def _fitted(config: Config, job: _Job, reporter: Reporter, *, restart: bool) -> FitSummary:
    began = time.perf_counter()
    settings, source, registry, refusal = job
    place = Path(config.gram.path)
    with occupied(place, reporter.note, restart=restart) as store, recorded() as told:
        looked = look_at(source, settings, store, reporter, refusal=refusal)
        release_memory()
        name = fit_name(settings, looked, source)
        version = None if restart else registry.find(name)
        if version is not None:
            registry.promote(version)
            store.finish_after(name)
            return reused_summary(config, registry, version)
        named = replace(store, fit=name)
        found = fit(source, settings, store=named, reporter=reporter, looked=looked)
        warn_of_fewer(found.basis, settings)
        seconds = time.perf_counter() - began
        summary = partial(
            fit_summary, config, source.name, found, registry, seconds=seconds, told=tuple(told)
        )
        more = {
            "plan": as_json(plan_summary(config, found.plan, passes.n_workers(), passes.n_processes())),
            "trained": Trained.of(source, settings_digest(settings, source)).as_json(),
        }
        version = registry.publish(
            found.basis, lambda number: manifest_of(name, summary(version=number), **more)
        )
        registry.point(version)
        store.finish()
        return summary(version=version)


def registry_of(config: Config) -> Registry:
    """The versions of the configured model."""
    return Registry.of(Path(config.models.path), config.name)


def training_source(config: Config) -> Source:
    """The configured rows to train on, opened."""
    return open_source(config.data.train.path, rows=config.data.train.rows, columns=config.data.columns)


def _rows_to_score(config: Config) -> tuple[int, int] | None:
    """How many there are, in how many parts; None where none are there yet, or nothing is to be scored."""
    if config.score is None:
        return None
    asked = config.score.input
    place = Path(asked.path)
    if asked.path.startswith("sklearn:") or place.is_file() or (place.is_dir() and any(place.iterdir())):
        n_rows = open_source(asked.path, rows=asked.rows).n_samples
        return n_rows, max(1, -(-n_rows // (asked.part_rows or PART_ROWS)))
    return None


def _shape(source: Source | None) -> tuple[int, int]:
    return (0, 0) if source is None else (source.n_samples, source.n_features)


def connected(config: Config, reporter: Reporter) -> AbstractContextManager[None]:
    """The configured scheduler is active while the block runs."""
    return_freed_memory()
    folder = str(Path.cwd()) if is_function_name(config.kernel.name) else None
    memory = config.limits.memory
    return connect_as(config.cluster, memory=memory, note=reporter.note, function_folder=folder)


def _workers(config: Config, reporter: Reporter) -> tuple[int, int]:
    """Tasks at once and processes of a fit; a cluster is asked only where the configuration does not say."""
    known = forecast_workers(config.cluster)
    if known is not None:
        return known
    with connected(config, reporter):
        return passes.n_workers(), passes.n_processes()


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collects the warnings of a fit for its summary, and passes them on."""
    told: list[str] = []
    show = warnings.showwarning

    def keep(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        if issubclass(category, KpcaStreamWarning):
            told.append(str(message))
        show(message, category, *rest, **more)

    warnings.showwarning = keep
    try:
        yield told
    finally:
        warnings.showwarning = show


def make_importable() -> None:
    """A kernel ``module:function`` may lie in the folder that the command is called in."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def warn_of_fewer(basis: Basis, settings: FitSettings) -> None:
    """Warn of fewer components than asked for; a DataError where there is none."""
    kept, asked = basis.n_components, settings.n_components
    if kept == 0:
        raise DataError(
            "no component has a positive eigenvalue: to this kernel all rows are the same; use another kernel"
        )
    if isinstance(asked, int) and kept < asked:
        warnings.warn(
            f"only {kept} of {asked} components have a positive eigenvalue; the basis holds these",
            KpcaStreamWarning,
            stacklevel=2,
        )


def manifest_of(name: str, summary: FitSummary, **more: Any) -> dict[str, Any]:
    """What a version is published with: the name of its fit, when, by what and how it was made."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    facts = {"summary": as_json(summary), "packages": package_versions()}
    return {"fit": name, "created": created, **facts, **more}
