"""From a configuration to the report of its published model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kpca_stream.addresses import located
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.config import Config
from kpca_stream.config.schema import Report
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.packages import package_versions
from kpca_stream.report.canvas import check_packages
from kpca_stream.report.collect import Reference, collect
from kpca_stream.report.subject import Subject
from kpca_stream.report.writing import page_of, write_page
from kpca_stream.results import ReportSummary
from kpca_stream.stages.scoring import training_scores
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.score_chunks import written_parts
from kpca_stream.telemetry import Reporter

__all__ = ["check_packages", "make_report"]

Array = NDArray[Any]


def make_report(config: Config, reporter: Reporter) -> ReportSummary:
    """Report on the published version of the configured model and on its scores, in one HTML file.

    Written to ``report.path``, or where the configuration has no such section to ``report.html``. Tasks, if
    any, run on the active scheduler.

    Raises
    ------
    ConfigError
        If nothing is published, or the extra ``report`` is not installed.
    DataError
        If the basis or a part of the scores is damaged.
    """
    check_packages()
    began = time.perf_counter()
    asked = config.report or Report()
    registry = Registry.of(config.models.path, config.name)
    version, manifest, basis = registry.opened()
    score = config.score
    parts = () if score is None else written_parts(located(score.output), score.format, config.name)
    subject = Subject(
        name=config.name,
        version=version,
        basis=basis,
        manifests={**_manifests(registry), version: manifest},
        collected=collect(
            basis,
            version,
            _training(basis),
            parts,
            _references(registry, {part.version for part in parts}),
            reporter.step("report"),
        ),
        scores=None if score is None else score.output,
        packages=package_versions(),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    )
    n_bytes = write_page(page_of(subject), Path(asked.path))
    return ReportSummary(
        path=asked.path,
        n_bytes=n_bytes,
        model=str(registry.folder),
        version=version,
        n_parts=len(parts),
        n_rows=subject.collected.n_rows,
        seconds=time.perf_counter() - began,
    )


def _manifests(registry: Registry) -> dict[int, dict[str, Any]]:
    """What is known of each version: nothing where that is damaged, or was taken away meanwhile."""
    found: dict[int, dict[str, Any]] = {}
    for version in registry.versions():
        try:
            found[version] = registry.manifest(version)
        except (ConfigError, DataError):
            found[version] = {}
    return found


def _references(registry: Registry, versions: Iterable[int]) -> dict[int, Reference]:
    """Of the versions that are still there."""
    there = set(registry.versions()).intersection(versions)
    bases = {version: open_basis(registry.basis_path(version)) for version in there}
    return {version: (basis.thresholds, basis.rows_of_thresholds) for version, basis in bases.items()}


def _training(basis: Basis) -> Callable[[], Iterable[tuple[Array, Array]]]:
    """Gives its training scores as often as it is called; those of landmarks are computed once."""
    if basis.accumulated is None:
        return lambda: training_scores(basis)
    with single_threaded_blas():
        found = list(training_scores(basis))
    return lambda: found
