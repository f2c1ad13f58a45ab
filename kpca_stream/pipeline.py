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
from kpca_stream.cluster import connect, release_memory, return_freed_memory
from kpca_stream.config import Config
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.joining import merged
from kpca_stream.landmark_settings import landmark_settings
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.resolve import KernelSpec, make_kernel, resolve_kernel
from kpca_stream.parameters import is_function_name
from kpca_stream.planning import make_plan
from kpca_stream.preliminaries import early_refusal, look_at, own_values, plan_of, stays_in_place
from kpca_stream.results import FitSummary, MergeSummary, Plan, RunResult, ScoreSummary, as_json
from kpca_stream.scorer import Scorer
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import open_basis, save_basis
from kpca_stream.storage.opening import occupied
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.source import Source, open_source
from kpca_stream.summaries import fit_summary, merge_summary, plan_summary, reused_summary
from kpca_stream.telemetry import Reporter
from kpca_stream.verification import verify_store

__all__ = ["fit_config", "plan_config", "run_config", "score_config", "verify_store"]


def run_config(config: Config, reporter: Reporter, *, restart: bool = False) -> RunResult:
    """Fit (see `fit_config`), publish and, where the configuration says so, score."""
    job = _job(config)
    with _connected(config):
        fitted = _fitted(config, job, reporter, restart=restart)
        return RunResult(
            fit=fitted, score=None if config.score is None else Scorer(config, reporter).work_off()
        )


def plan_config(config: Config, reporter: Reporter, *, shape: tuple[int, int] | None = None) -> Plan:  # noqa: ARG001  the signature of all commands
    """What a fit will cost, from the shape of the data alone; reads no rows (of a CSV file, their places)."""
    settings = settings_of(config)
    source = None if shape is not None else _training_source(config)
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
    n_scored = None if source is None else _rows_to_score(config)
    with _connected(config):
        return plan_summary(config, plan, passes.n_workers(), passes.n_processes(), n_scored)


def fit_config(config: Config, reporter: Reporter, *, restart: bool = False) -> FitSummary:
    """Fit and publish a basis; where this very fit is published already, say so and do nothing.

    With `restart`, what earlier runs left in the store is removed once the rows were looked at and the fit
    may begin, and it is made anew.
    """
    job = _job(config)
    with _connected(config):
        return _fitted(config, job, reporter, restart=restart)


def score_config(config: Config, reporter: Reporter, *, follow: bool = False) -> ScoreSummary:
    """Score what is new in the configured input, once or (`follow`) until SIGTERM or SIGINT comes."""
    _make_importable()
    with _connected(config):
        scorer = Scorer(config, reporter)
        return scorer.follow() if follow else scorer.work_off()


def merge_bases(paths: Sequence[Path], into: Path) -> MergeSummary:
    """Write the basis of all rows that several Nyström bases of the same landmarks were fitted on."""
    if into.exists():
        raise ConfigError(f"{into} exists; a basis is never overwritten: choose another path, or remove it")
    _make_importable()
    bases = [open_basis(path) for path in paths]
    first = bases[0]
    most = max(basis.n_components for basis in bases)
    settings = FitSettings(n_components=most, quantile=first.thresholds.quantile)
    basis = merged(bases, [str(path) for path in paths], settings)
    save_basis(basis, into)
    return merge_summary(basis, [str(path) for path in paths], into)


def settings_of(config: Config) -> FitSettings:
    """The fit that a configuration describes."""
    _make_importable()
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
        _make_importable()
        make_kernel(_kernel_spec(config), Preparation(), gamma=0.0)


def fit_name(settings: FitSettings, looked: Sweep, source: Source) -> str:
    """A name that two fits share only if they must give the same basis."""
    unlike = {"kernel", "storage", "memory_limit", "disk_limit", "checkpoint_seconds", "merge_duplicates"}
    unlike |= {"core_hours", "allow_approximate", "nystrom"}
    choices = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in unlike}
    kernel = settings.kernel
    numbers = [kernel.name, kernel.gamma, kernel.degree, kernel.coef0]
    plan = plan_of(source, settings, looked.n_samples, with_store=True)
    facts = [looked.fingerprint, looked.n_seen, looked.n_distinct, looked.columns, numbers, choices]
    facts += [plan.precision, _values_of_function(settings, looked)]
    if plan.method == "nystrom":
        facts += [plan.method, settings.nystrom.facts()]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


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
    settings, source, registry = settings_of(config), _training_source(config), _registry(config)
    return _Job(settings, source, registry, early_refusal(source, settings, with_store=True))


def _fitted(config: Config, job: _Job, reporter: Reporter, *, restart: bool) -> FitSummary:
    began = time.perf_counter()
    settings, source, registry, refusal = job
    place = Path(config.gram.path)
    with occupied(place, reporter.note, restart=restart) as store, _recorded() as recorded:
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
        _warn_of_fewer(found, settings)
        seconds = time.perf_counter() - began
        summary = partial(
            fit_summary, config, source.name, found, registry, seconds=seconds, told=tuple(recorded)
        )
        version = registry.publish(found.basis, lambda number: _manifest(name, summary(version=number)))
        registry.point(version)
        store.finish()
        return summary(version=version)


def _registry(config: Config) -> Registry:
    return Registry.of(Path(config.models.path), config.name)


def _training_source(config: Config) -> Source:
    return open_source(config.data.train.path, rows=config.data.train.rows, columns=config.data.columns)


def _rows_to_score(config: Config) -> int | None:
    """How many there are; None where none are there yet, or nothing is to be scored."""
    if config.score is None:
        return None
    asked = config.score.input
    place = Path(asked.path)
    if asked.path.startswith("sklearn:") or place.is_file() or (place.is_dir() and any(place.iterdir())):
        return open_source(asked.path, rows=asked.rows).n_samples
    return None


def _shape(source: Source | None) -> tuple[int, int]:
    return (0, 0) if source is None else (source.n_samples, source.n_features)


def _connected(config: Config) -> AbstractContextManager[None]:
    cluster = config.cluster
    return_freed_memory()
    return connect(cluster.kind, n_workers=cluster.n_workers, threads_per_worker=cluster.threads_per_worker)


@contextmanager
def _recorded() -> Iterator[list[str]]:
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


def _make_importable() -> None:
    """A kernel ``module:function`` may lie in the folder that the command is called in."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _warn_of_fewer(found: Fit, settings: FitSettings) -> None:
    kept, asked = found.basis.n_components, settings.n_components
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


def _manifest(name: str, summary: FitSummary) -> dict[str, Any]:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"fit": name, "created": created, "summary": as_json(summary)}
