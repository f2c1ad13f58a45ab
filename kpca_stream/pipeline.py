"""The order of things: plan, fit, publish, score. One call for each command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kpca_stream import passes
from kpca_stream.addresses import Location, is_address, located
from kpca_stream.asked import (
    connected,
    make_importable,
    registry_of,
    settings_of,
    tiles_of,
    training_source,
    workers_of,
)
from kpca_stream.cluster import release_memory
from kpca_stream.config import Config
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.joining import merged
from kpca_stream.planning import make_plan
from kpca_stream.preliminaries import early_refusal, look_at, stays_in_place
from kpca_stream.publication import fit_name, manifest_of, recorded, settings_digest, warn_of_fewer
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
from kpca_stream.storage.basis import open_basis, save_basis, taken
from kpca_stream.storage.deliveries import Delivery
from kpca_stream.storage.inbox import arrived, is_single
from kpca_stream.storage.located import is_there
from kpca_stream.storage.opening import occupied
from kpca_stream.storage.published import basis_at
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.source import Source, open_source
from kpca_stream.storage.trained import Trained
from kpca_stream.summaries import fit_summary, merge_summary, plan_summary, reused_summary
from kpca_stream.telemetry import Reporter
from kpca_stream.tune_results import TuneSummary
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
    return plan_summary(config, plan, *workers_of(config, reporter), scored)


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
    # Imported here: Dask's arrays, which it needs, take memory that no other command has use for.
    from kpca_stream.tuning import tuned
    from kpca_stream.tuning.plot import check_plotting, save_plot
    from kpca_stream.tuning.settings import grid_of, labels_of, tune_settings_of

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


def merge_bases(paths: Sequence[str | Path], into: str | Location) -> MergeSummary:
    """Write the basis of all rows that several Nyström bases of the same landmarks were fitted on.

    Of a model's folder, the basis of its champion is taken, and told.
    """
    into = located(into)
    if is_there(into):
        raise taken(into)
    make_importable()
    places = [basis_at(located(path)) for path in paths]
    names = [str(place) for place in places]
    bases = [open_basis(place) for place in places]
    first = bases[0]
    most = max(basis.n_components for basis in bases)
    settings = FitSettings(n_components=most, quantile=first.thresholds.quantile)
    basis = merged(bases, names, settings)
    save_basis(basis, into)
    return merge_summary(basis, names, into)


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
    place, tiles = Path(config.gram.folder), tiles_of(config)
    with occupied(place, reporter.note, restart=restart, tiles=tiles) as store, recorded() as told:
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


def _rows_to_score(config: Config) -> tuple[int, int] | None:
    """How many there are, in how many parts; None where none are there yet, or nothing is to be scored."""
    if config.score is None:
        return None
    asked = config.score.input
    if not _is_there(asked.path):
        return None
    is_strict = is_single(asked.path)
    counts = [_count(delivery, is_strict=is_strict) for delivery in arrived(asked.path, asked.rows)]
    n_parts = sum(-(-n_rows // (asked.part_rows or PART_ROWS)) for n_rows in counts)
    return (sum(counts), n_parts) if n_parts else None


def _count(delivery: Delivery, *, is_strict: bool) -> int:
    """Rows of one file; of one that `score` would set aside, none."""
    try:
        return open_source(delivery.path, rows=delivery.rows).n_samples
    except (ConfigError, DataError):
        if is_strict:
            raise
        return 0


def _is_there(path: str) -> bool:
    """Whether rows to score are there already; of objects that land, which may be many, nobody asks."""
    if is_address(path):
        return is_single(path)
    place = Path(path)
    return path.startswith("sklearn:") or place.is_file() or (place.is_dir() and any(place.iterdir()))


def _shape(source: Source | None) -> tuple[int, int]:
    return (0, 0) if source is None else (source.n_samples, source.n_features)
