"""The order of things: plan, fit, publish, score. One call for each command."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kpca_stream import passes
from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.config import Config
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.fitting import Fit, FitPlan, FitSettings, fit, look_at, make_plan
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.results import FitSummary, Plan, RunResult, ScoreSummary, as_json
from kpca_stream.stages.scoring import PartResult, write_part
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.lock import locked
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.scores import part_name, read_counts
from kpca_stream.storage.source import Part, Source, open_source
from kpca_stream.telemetry import Reporter
from kpca_stream.verification import verify_store

__all__ = ["fit_config", "plan_config", "run_config", "score_config", "verify_store"]

IN_MEMORY_SHARE = 0.25
"""A basis that takes no more of the memory limit is held in memory while it scores."""


def run_config(config: Config, reporter: Reporter) -> RunResult:
    """Fit, publish and, where the configuration says so, score."""
    fitted = fit_config(config, reporter)
    return RunResult(fit=fitted, score=None if config.score is None else score_config(config, reporter))


def plan_config(config: Config, reporter: Reporter, *, shape: tuple[int, int] | None = None) -> Plan:  # noqa: ARG001  the signature of all commands
    """What a fit will cost, from the shape of the data alone; reads no rows (of a CSV file, their places)."""
    settings = settings_of(config)
    source = None if shape is not None else _training_source(config)
    n_samples, n_features = shape or _shape(source)
    dtype = np.dtype(np.float64) if source is None else source.original_dtype
    plan = make_plan(settings, n_samples, n_features, dtype, with_store=True)
    with _connected(config):
        return _plan_result(config, plan, passes.n_workers())


def fit_config(config: Config, reporter: Reporter) -> FitSummary:
    """Fit and publish a basis; where this very fit is published already, say so and do nothing."""
    began = time.perf_counter()
    settings = settings_of(config)
    registry = Registry.of(Path(config.models.path), config.name)
    source = _training_source(config)
    _refuse_early(settings, source)
    with _connected(config), _run_store(config) as store, _recorded() as recorded:
        looked = look_at(source, settings, store, reporter)
        name = fit_name(settings, looked)
        version = registry.find(name)
        if version is not None:
            registry.point(version)
            return _reused(registry, version)
        found = fit(source, settings, store=store, reporter=reporter, looked=looked)
        _warn_of_fewer(found, settings)
        summary = partial(
            _summary, config, source, found, registry, seconds=time.perf_counter() - began, told=tuple(recorded)
        )
        return _published(registry, found, name, summary, store)


def score_config(config: Config, reporter: Reporter) -> ScoreSummary:
    """Score the configured input part by part; parts that are there are left as they are."""
    if config.score is None:
        raise ConfigError("score: missing section, expected input and output; add it to the configuration")
    began = time.perf_counter()
    registry = Registry.of(Path(config.models.path), config.name)
    version = registry.resolve()
    basis = _opened(registry.basis_path(version), config.limits.memory)
    source = open_like(config.score.input.path, config.score.input.rows, basis)
    output = Path(config.score.output)
    output.mkdir(parents=True, exist_ok=True)
    parts = source.parts(config.score.input.part_rows)
    paths = [output / part_name(part.name, part.identity, config.name, version) for part in parts]
    missing = [(part, path) for part, path in zip(parts, paths, strict=True) if not path.exists()]
    metadata = {"kpca_stream.model": config.name, "kpca_stream.version": str(version)}
    with _connected(config), single_threaded_blas():
        _write_parts(basis, source, missing, metadata, config.data.on_missing, reporter)
    counts = [read_counts(path) for path in paths]
    return ScoreSummary(
        source=source.name,
        n_rows=sum(n_rows for n_rows, _ in counts),
        n_parts=len(parts),
        parts_written=len(missing),
        parts_skipped=len(parts) - len(missing),
        n_novel=sum(n_novel for _, n_novel in counts),
        output=str(output),
        model=str(registry.folder),
        version=version,
        seconds=time.perf_counter() - began,
    )


def settings_of(config: Config) -> FitSettings:
    """The fit that a configuration describes."""
    _make_importable()
    kernel, solver, gram = config.kernel, config.solver, config.gram
    return FitSettings(
        kernel=KernelSpec(kernel.name, kernel.gamma, kernel.degree, kernel.coef0),
        n_components=solver.n_components,
        max_components=solver.max_components,
        method=solver.method,
        precision=solver.precision,
        tol=solver.tol,
        max_passes=solver.max_passes,
        storage=gram.storage,
        tile_rows=None if gram.tile_rows == "auto" else gram.tile_rows,
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        scale=config.data.scale == "standard",
        on_missing=config.data.on_missing,
        on_indefinite=kernel.on_indefinite,
        quantile=config.novelty.quantile,
        seed=config.seed,
    )


def fit_name(settings: FitSettings, looked: Sweep) -> str:
    """A name that two fits share only if they must give the same basis."""
    unlike = {"kernel", "storage", "memory_limit", "disk_limit"}
    choices = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in unlike}
    kernel = settings.kernel
    numbers = [kernel.name, kernel.gamma, kernel.degree, kernel.coef0]
    facts = [looked.fingerprint, looked.n_samples, looked.columns, numbers, choices]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def open_like(path: str, rows: str | None, basis: Basis) -> Source:
    """Rows with the columns that `basis` was fitted on, by name; by position where there are no names.

    Raises
    ------
    DataError
        If there are no such columns.
    """
    source = open_source(path, rows=rows)
    numbered = tuple(str(position) for position in range(len(basis.columns)))
    if basis.columns == numbered and source.n_features != len(basis.columns):
        raise DataError(
            f"{source.name}: got {source.n_features} columns of numbers, expected the {len(basis.columns)} that the basis "
            "was fitted on; score rows of the same columns"
        )
    try:
        return open_source(path, rows=rows, columns=basis.columns)
    except ConfigError as error:
        raise DataError(f"{error}; the basis was fitted on it: score rows of the same columns") from error


def _training_source(config: Config) -> Source:
    return open_source(config.data.train.path, rows=config.data.train.rows, columns=config.data.columns)


def _shape(source: Source | None) -> tuple[int, int]:
    return (0, 0) if source is None else (source.n_samples, source.n_features)


def _refuse_early(settings: FitSettings, source: Source) -> None:
    plan = make_plan(settings, source.n_samples, source.n_features, source.original_dtype, with_store=True)
    if plan.refusals():
        raise ConfigError(f"{source.name}, {source.n_samples} rows: {'; '.join(plan.refusals())}")


def _connected(config: Config) -> Any:
    cluster = config.cluster
    return connect(cluster.kind, n_workers=cluster.n_workers, threads_per_worker=cluster.threads_per_worker)


@contextmanager
def _run_store(config: Config) -> Iterator[RunStore]:
    path = Path(config.gram.path)
    RunStore.check(path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        yield RunStore.open(path)


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
        raise DataError("no component has a positive eigenvalue: to this kernel all rows are the same; use another kernel")
    if isinstance(asked, int) and kept < asked:
        warnings.warn(
            f"only {kept} of {asked} components have a positive eigenvalue; the basis holds these",
            KpcaStreamWarning,
            stacklevel=2,
        )


def _published(registry: Registry, found: Fit, name: str, summary: Any, store: RunStore) -> FitSummary:
    manifest = {"fit": name, "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    version = registry.publish(found.basis, lambda number: {**manifest, "summary": as_json(summary(version=number))})
    registry.point(version)
    store.finish()
    return summary(version=version)  # type: ignore[no-any-return]


def _reused(registry: Registry, version: int) -> FitSummary:
    stored = registry.manifest(version)["summary"]
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
    return FitSummary(**{**values, "reused": True})


def _summary(
    config: Config, source: Source, found: Fit, registry: Registry, *, seconds: float, told: tuple[str, ...], version: int
) -> FitSummary:
    basis, plan = found.basis, found.plan
    return FitSummary(
        name=config.name,
        source=source.name,
        n_samples=basis.n_samples,
        n_features=len(basis.columns),
        n_dropped=found.n_dropped,
        fingerprint=found.fingerprint,
        kernel=config.kernel.name,
        gamma=getattr(basis.kernel, "gamma", None),
        precision=plan.precision,
        storage=plan.storage,
        tile_rows=plan.grid.tile_rows,
        n_tiles=plan.grid.n_tiles,
        **{f"tiles_{key}": count for key, count in asdict(found.counts).items()},
        method=plan.method,
        n_passes=found.pairs.n_passes,
        eigenvalues=tuple(basis.eigenvalues.tolist()),
        explained_variance_ratio=tuple(basis.explained_variance_ratio.tolist()),
        residual_norms=tuple(basis.facts["residual_norms"]),
        trace=basis.trace,
        seconds=seconds,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        store=config.gram.path,
        basis=str(registry.basis_path(version)),
        version=version,
        model=str(registry.folder),
        reused=False,
        warnings=told,
    )


def _plan_result(config: Config, plan: FitPlan, n_workers: int) -> Plan:
    f = plan.forecast
    return Plan(
        n_samples=plan.shape.n_samples,
        n_features=plan.shape.n_features,
        kernel=config.kernel.name,
        precision=plan.precision,
        storage=plan.storage,
        method=plan.method,
        tile_rows=plan.grid.tile_rows,
        n_tiles=plan.grid.n_tiles,
        n_tasks=plan.grid.n_tasks,
        disk_rows=f.disk_rows,
        disk_tiles=f.disk_tiles,
        disk_vectors=f.disk_vectors,
        disk_total=f.disk_rows + f.disk_tiles + f.disk_vectors,
        memory_client=f.memory_client,
        memory_task=f.memory_task,
        memory_total=plan.memory_total(n_workers),
        evaluations=f.evaluations,
        passes=f.passes,
        seconds=f.core_seconds / n_workers,
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        refusals=plan.refusals(),
    )


def _opened(path: Path, memory_limit: int) -> Basis:
    basis = open_basis(path)
    n_values = basis.n_samples * (len(basis.columns) + basis.n_components)
    return basis.in_memory() if 8 * n_values <= IN_MEMORY_SHARE * memory_limit else basis


def _write_parts(
    basis: Basis,
    source: Source,
    parts: list[tuple[Part, Path]],
    metadata: dict[str, str],
    on_missing: str,
    reporter: Reporter,
) -> None:
    calls = [
        passes.Call(write_part, (basis, source.part(part.start, part.stop), part.start, path, metadata, on_missing))
        for part, path in parts
    ]

    def fold(_: int, result: PartResult | DataError) -> None:
        if isinstance(result, DataError):
            raise result

    if calls:
        passes.run(calls, fold, progress=reporter.step("scores"))
