"""What a command found out, put into the values that are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from dask.system import CPU_COUNT

from kpca_stream.addresses import Location
from kpca_stream.config import Config
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitting import Fit
from kpca_stream.results import Bound, FitSummary, Landmarks, MergeSummary, Plan
from kpca_stream.storage.basis import Basis
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
        precision=plan.precision if found.pairs is not None else basis.precision,
        storage=plan.storage,
        tile_rows=plan.grid.tile_rows,
        n_tiles=0 if found.pairs is None else plan.grid.n_tiles,
        tiles_found=found.counts.found,
        tiles_made=found.counts.made,
        tiles_read=found.counts.read,
        tiles_repaired=len(found.counts.repaired),
        method=plan.method,
        method_reason=plan.method_reason,
        n_passes=found.n_passes,
        passes_resumed=found.counts.resumed,
        eigenvalues=tuple(basis.eigenvalues.tolist()),
        explained_variance_ratio=tuple(basis.explained_variance_ratio.tolist()),
        residual_norms=tuple(basis.facts["residual_norms"]),
        trace=basis.trace,
        seconds=seconds,
        peak_memory=peak_memory(),
        store=config.gram.folder,
        basis=str(registry.basis_path(version)),
        version=version,
        model=str(registry.folder),
        reused=False,
        warnings=told,
        landmarks=_landmarks(found),
    )


def merge_summary(basis: Basis, paths: Sequence[str], into: Location) -> MergeSummary:
    """A basis that was merged from several."""
    return MergeSummary(
        merged=tuple(paths),
        n_samples=basis.facts["n_samples"],
        eigenvalues=tuple(basis.eigenvalues.tolist()),
        explained_variance_ratio=tuple(basis.explained_variance_ratio.tolist()),
        landmarks=_landmarks_of(basis),
        trace=basis.trace,
        basis=str(into),
    )


def _landmarks(found: Fit) -> Landmarks | None:
    if found.pairs is not None:
        return None
    return _landmarks_of(found.basis)


def _landmarks_of(basis: Basis) -> Landmarks:
    facts = basis.facts
    return Landmarks(
        n_landmarks=facts["n_landmarks"],
        method=facts["landmark_method"],
        rank=facts["rank"],
        residual_trace_share=facts["residual_trace_share"],
        bounds=tuple(Bound(**bound) for bound in facts["certificates"]),
        rounding=tuple(facts["rounding"]),
    )


def reused_summary(config: Config, registry: Registry, version: int) -> FitSummary:
    """A version that was there already, as its manifest tells of it; where things lie, as seen from here."""
    known = {field.name for field in fields(FitSummary)}
    stored = {key: value for key, value in registry.manifest(version)["summary"].items() if key in known}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
    }
    if stored.get("landmarks") is not None:
        values["landmarks"] = _stored_landmarks(stored["landmarks"])
    here: dict[str, Any] = {
        "store": config.gram.folder,
        "basis": str(registry.basis_path(version)),
        "model": str(registry.folder),
    }
    return FitSummary(**{**values, **here, "version": version, "reused": True})


def _stored_landmarks(stored: dict[str, Any]) -> Landmarks:
    bounds = tuple(Bound(**bound) for bound in stored["bounds"])
    return Landmarks(**{**stored, "bounds": bounds, "rounding": tuple(stored["rounding"])})


def _moved(plan: FitPlan, n_processes: int) -> dict[str, Any]:
    moved = plan.moved
    return {
        "n_processes": n_processes,
        "moved_to_workers": moved.to_workers,
        "moved_from_workers": moved.from_workers,
        "moved_read": moved.read,
        "receiving_seconds": moved.receiving_seconds,
    }


def plan_summary(
    config: Config, plan: FitPlan, n_workers: int, n_processes: int, scored: tuple[int, int] | None = None
) -> Plan:
    """What a fit will cost with `n_workers` tasks at once, in `n_processes` of their own or (0) in threads.

    The memory is also that of scoring, where the configuration says what to score; the time of that is told
    where `scored`, the number of its rows and that of their parts, is known.
    """
    n_cores = n_workers if config.cluster.is_elsewhere else min(n_workers, CPU_COUNT)
    n_scored, n_parts = scored or (None, 0)
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
        n_tiles=0 if plan.method == "nystrom" else plan.grid.n_tiles,
        n_tasks=plan.n_tasks,
        n_landmarks=plan.n_landmarks if plan.method == "nystrom" else None,
        method_reason=plan.method_reason,
        disk_rows=f.disk_rows,
        disk_tiles=plan.disk_tiles,
        bucket_tiles=plan.bucket_tiles,
        disk_vectors=f.disk_vectors,
        disk_basis=plan.disk_basis,
        disk_total=plan.disk_total,
        memory_client=f.memory_client,
        memory_task=f.memory_task,
        memory_total=memory,
        evaluations=f.evaluations,
        passes=f.passes,
        seconds=plan.seconds(n_cores, n_processes),
        **(_moved(plan, n_processes) if n_processes else {}),
        n_scored=n_scored,
        scoring_seconds=None if n_scored is None else plan.scoring_seconds(n_scored, min(n_cores, n_parts)),
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        refusals=(plan.refusal(),) if plan.refusals() else (),
    )
