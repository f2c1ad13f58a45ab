"""What a command found out, put into the values that are printed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dask.system import CPU_COUNT

from kpca_stream.config import Config
from kpca_stream.fitting import Fit, FitPlan
from kpca_stream.results import FitSummary, Plan
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import peak_memory


def fit_summary(
    config: Config,
    source: str,
    found: Fit,
    registry: Registry,
    *,
    version: int,
    seconds: float,
    told: tuple[str, ...],
) -> FitSummary:
    """A new version and what it took; `told` are the warnings of the fit."""
    basis, plan = found.basis, found.plan
    return FitSummary(
        name=config.name,
        source=source,
        n_samples=found.n_seen,
        n_distinct=found.n_distinct,
        n_features=len(basis.columns),
        n_dropped=found.n_dropped,
        fingerprint=found.fingerprint,
        kernel=config.kernel.name,
        gamma=getattr(basis.kernel, "gamma", None),
        precision=plan.precision,
        storage=plan.storage,
        tile_rows=plan.grid.tile_rows,
        n_tiles=plan.grid.n_tiles,
        tiles_found=found.counts.found,
        tiles_made=found.counts.made,
        tiles_read=found.counts.read,
        tiles_repaired=len(found.counts.repaired),
        method=plan.method,
        n_passes=found.pairs.n_passes,
        passes_resumed=found.counts.resumed,
        eigenvalues=tuple(basis.eigenvalues.tolist()),
        explained_variance_ratio=tuple(basis.explained_variance_ratio.tolist()),
        residual_norms=tuple(basis.facts["residual_norms"]),
        trace=basis.trace,
        seconds=seconds,
        peak_memory=peak_memory(),
        store=config.gram.path,
        basis=str(registry.basis_path(version)),
        version=version,
        model=str(registry.folder),
        reused=False,
        warnings=told,
    )


def reused_summary(config: Config, registry: Registry, version: int) -> FitSummary:
    """A version that was there already, as its manifest tells of it; where things lie, as seen from here."""
    known = {field.name for field in fields(FitSummary)}
    stored = {key: value for key, value in registry.manifest(version)["summary"].items() if key in known}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
    }
    here: dict[str, Any] = {
        "store": config.gram.path,
        "basis": str(registry.basis_path(version)),
        "model": str(registry.folder),
    }
    return FitSummary(**{**values, **here, "version": version, "reused": True})


def plan_summary(config: Config, plan: FitPlan, n_workers: int, n_processes: int) -> Plan:
    """What a fit will cost with `n_workers` tasks at once, in `n_processes` of their own or (0) in threads.

    The memory is also that of scoring, where the configuration says what to score.
    """
    f, memory = plan.forecast, plan.memory_total(n_workers, n_processes)
    if config.score is not None:
        memory = max(memory, plan.memory_scoring(n_workers, n_processes))
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
        memory_total=memory,
        evaluations=f.evaluations,
        passes=f.passes,
        seconds=f.seconds(min(n_workers, CPU_COUNT), n_processes),
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        refusals=plan.refusals(),
    )
