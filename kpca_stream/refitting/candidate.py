"""A candidate: how it is fitted, with what of the champion's, and laid over it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal

from kpca_stream.aligning import aligned, compared, sample_of
from kpca_stream.config import Config
from kpca_stream.continuation import continues
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.joining import added
from kpca_stream.preliminaries import early_refusal, look_at, plan_of
from kpca_stream.publication import warn_of_fewer
from kpca_stream.refit_results import Comparison, Fitted
from kpca_stream.stages.gram import TileCounts
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.source import Source
from kpca_stream.storage.trained import Landed
from kpca_stream.telemetry import Reporter

Kind = Literal["added", "continued", "fresh"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a candidate is to be fitted, and why so."""

    kind: Kind
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Champion:
    """The version that serves.

    Parameters
    ----------
    version : int
    basis : Basis
    cold_passes : int or None
        Of the last fit that was not continued, up to this version.
    changed_function : str or None
        As `changed_function` tells it: what was measured by that of before is not to be compared.
    """

    version: int
    basis: Basis
    cold_passes: int | None
    changed_function: str | None = None

    def is_comparable(self, columns: tuple[str, ...]) -> bool:
        """Whether it scores rows of these columns as it did when it was fitted."""
        return self.changed_function is None and self.basis.columns == columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A basis that may become the next version, and what it took."""

    source: str
    fit: Fit
    fitted: Fitted
    comparison: Comparison | None
    cold_passes: int | None

    @property
    def basis(self) -> Basis:
        """Laid over the champion's."""
        return self.fit.basis


def way_of(
    champion: Champion | None,
    landed: Landed,
    *,
    same_settings: bool,
    residual_limit: float | None,
    residual_ratio: float | None,
) -> Way:
    """How to fit, as far as files and the champion tell."""
    if champion is None:
        return Way(kind="fresh", reason="there is no version to start from")
    if champion.changed_function is not None:
        return Way(kind="fresh", reason="the kernel's function is not known to be that of before")
    if not same_settings:
        return Way(kind="fresh", reason="the settings or the files of before are others, or not known")
    if champion.basis.accumulated is not None:
        return _way_of_sums(landed, residual_limit, residual_ratio)
    if landed.is_continued:
        return Way(kind="continued", reason="all files of before come first")
    return Way(kind="fresh", reason="files of before changed, went, or are not the first")


def _way_of_sums(landed: Landed, limit: float | None, ratio: float | None) -> Way:
    if landed.gone:
        count, first = len(landed.gone), landed.gone[0].name
        told = f"{count} files of before changed or went, the first {first}"
        return Way(kind="fresh", reason=f"{told}: their rows cannot be taken out of the sums")
    if limit is not None and ratio is not None and ratio >= limit:
        told = f"the landmarks leave {ratio:.3g} times as much of new rows as when they were chosen"
        return Way(kind="fresh", reason=f"{told}: chosen anew")
    if not landed.new:
        return Way(kind="fresh", reason="no rows are new")
    return Way(kind="added", reason="only new files are read")


class Making:
    """The steps of one candidate.

    Parameters
    ----------
    config : Config
    settings : FitSettings
    source : Source
        All files of now.
    landed : Landed
    champion : Champion or None
    store : callable
        Opens the store of a step, by its name, of this candidate's run and of no other.
    reporter : Reporter
    """

    def __init__(
        self,
        config: Config,
        settings: FitSettings,
        source: Source,
        landed: Landed,
        champion: Champion | None,
        store: Callable[[str], AbstractContextManager[RunStore]],
        reporter: Reporter,
    ) -> None:
        self.config, self.settings, self.source, self.landed = config, settings, source, landed
        self.champion, self.store, self.reporter = champion, store, reporter

    def made(self, way: Way) -> Candidate:
        """Fit, count what was read, and lay the result over the champion."""
        began = time.perf_counter()
        if way.kind == "added" and self.champion is not None:
            found, n_read = self._added(self.champion.basis)
        else:
            way, found, n_read = self._solved(way)
        warn_of_fewer(found.basis, self.settings)
        comparison, basis = self._laid(found.basis)
        is_cold = way.kind == "fresh"
        before = None if self.champion is None else self.champion.cold_passes
        is_continued = way.kind == "continued" and before is not None
        fitted = Fitted(
            kind=way.kind,
            reason=way.reason,
            method=found.plan.method,
            n_samples=found.n_seen,
            n_passes=found.n_passes,
            passes_saved=before - found.n_passes if is_continued and before is not None else None,
            rows_read=n_read,
            bytes_read=n_read * self.source.n_features * self.source.dtype.itemsize,
            seconds=time.perf_counter() - began,
            reused=False,
        )
        cold_passes = found.n_passes if is_cold else before
        return Candidate(
            source=self.source.name,
            fit=replace(found, basis=basis),
            fitted=fitted,
            comparison=comparison,
            cold_passes=cold_passes,
        )

    def _added(self, champion: Basis) -> tuple[Fit, int]:
        """The champion's sums, and those of the new files only."""
        basis, n_read, n_dropped = champion, 0, 0
        for start, stop in self.landed.ranges:
            with self.store(f"rows-{start}-{stop}") as store:
                more = added(
                    basis, self.source.part(start, stop), self.settings, store=store, reporter=self.reporter
                )
            basis, n_dropped = more.basis, n_dropped + more.looked.n_dropped
            n_read += more.looked.n_seen + more.looked.n_dropped
        facts = champion.facts
        chosen = facts.get("chosen_residual_share", facts["residual_trace_share"])
        basis = replace(basis, facts={**basis.facts, "chosen_residual_share": chosen})
        plan = plan_of(self.source, self.settings, self.source.n_samples, with_store=True)
        return Fit(
            basis=basis,
            pairs=None,
            plan=replace(plan, method="nystrom"),
            counts=TileCounts(),
            n_seen=basis.facts["n_samples"],
            n_distinct=None,
            n_dropped=n_dropped,
            fingerprint=None,
        ), n_read

    def _solved(self, way: Way) -> tuple[Way, Fit, int]:
        """All rows, from the champion's components where they can be."""
        refusal = early_refusal(self.source, self.settings, with_store=True)
        with self.store(way.kind) as store:
            looked = look_at(self.source, self.settings, store, self.reporter, refusal=refusal)
            previous = None
            if way.kind == "continued" and self.champion is not None:
                if continues(self.champion.basis, looked):
                    previous = self.champion.basis
                else:
                    way = Way(kind="fresh", reason="rows are merged or were, so that components do not match")
            found = fit(
                self.source,
                self.settings,
                store=store,
                reporter=self.reporter,
                looked=looked,
                previous=previous,
            )
            if previous is not None and found.plan.method != "lanczos":
                way = Way(kind="fresh", reason=f"{found.plan.method} takes no start")
        return way, found, looked.n_seen + looked.n_dropped

    def _laid(self, basis: Basis) -> tuple[Comparison | None, Basis]:
        if self.champion is None or not self.champion.is_comparable(basis.columns):
            return None, basis
        sample, how = sample_of(self.champion.basis), self.config.refit.align
        found = compared(self.champion.basis, basis, sample, how=how)
        comparison = Comparison(
            align=how,
            n_rows=sample.shape[0],
            angles=tuple(math.degrees(angle) for angle in found.angles),
            angles_exact=found.angles_exact,
            eigenvalue_changes=tuple(found.eigenvalue_changes.tolist()),
            displacement_before=found.displacement_before,
            displacement=found.displacement_after,
        )
        return comparison, aligned(basis, found)
