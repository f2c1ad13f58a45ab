"""The order of a re-fit: lock, look, decide, fit, compare, judge, publish, promote or refuse."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kpca_stream.addresses import located
from kpca_stream.asked import connected, make_importable, registry_of, settings_of, training_source
from kpca_stream.config import Config
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.publication import recorded, settings_digest
from kpca_stream.refit_results import Action, Comparison, Decision, Drift, Fitted, GateCheck, RefitResult
from kpca_stream.refitting.candidate import Candidate, Champion, Making, Way, way_of
from kpca_stream.refitting.decision import Circumstances, age_of, decide
from kpca_stream.refitting.gate import Measured, judge, refusal
from kpca_stream.refitting.newness import Newness, of_new_rows, of_scores
from kpca_stream.refitting.publishing import Published, publish
from kpca_stream.refitting.stores import Stores
from kpca_stream.reporting import check_packages, make_report
from kpca_stream.storage.lock import locked
from kpca_stream.storage.own_function import changed_function
from kpca_stream.storage.registry import CHAMPION, Registry
from kpca_stream.storage.retention import Retention, collect
from kpca_stream.storage.score_chunks import written_parts
from kpca_stream.storage.source import Source
from kpca_stream.storage.trained import Landed, Trained
from kpca_stream.telemetry import Reporter

LOCK = "refit.lock"


def refit_config(
    config: Config, reporter: Reporter, *, force: bool = False, dry_run: bool = False
) -> RefitResult:
    """Fit and publish a new version where one is due, and promote it where it passes the gate.

    Idempotent: a call that was killed is gone on with by the next one, and one with nothing to do says so.

    Parameters
    ----------
    config : Config
    reporter : Reporter
    force : bool
        Whether to fit though nothing makes it due.
    dry_run : bool
        Whether to tell only what would be done; nothing is written.

    Returns
    -------
    RefitResult
        Its action is ``none``, ``promoted``, ``refused`` or (dry) ``planned``.

    Raises
    ------
    BusyError
        If another re-fit of this model is under way.
    ConfigError, DataError, ConvergenceError
    """
    began = time.perf_counter()
    if config.kernel.name == "precomputed":
        raise ConfigError(
            "kernel.name: got precomputed, expected a kernel between rows: a matrix has no new rows; use fit"
        )
    make_importable()
    if config.report is not None:
        check_packages()
    registry = registry_of(config)
    held = nullcontext() if dry_run else _held(config, registry)
    with held, connected(config, reporter), recorded() as told:
        refit = _Refit.of(config, registry, reporter)
        result = refit.planned(force=force) if dry_run else refit.done(told, force=force)
        if config.report is not None and result.action == "promoted":
            result = replace(result, report=make_report(config, reporter).path)
    return replace(result, seconds=time.perf_counter() - began, warnings=tuple(told))


@contextmanager
def _held(config: Config, registry: Registry) -> Iterator[None]:
    """One re-fit a model at a time; where it lies in a bucket, one beside a run's store."""
    store = Path(config.gram.folder)
    folder, name = store.parent, f"{store.name}.{LOCK}"
    if isinstance(registry.folder, Path):
        folder, name = registry.folder, LOCK
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, name=name):
        yield


@dataclass(frozen=True, kw_only=True, eq=False)
class _Refit:
    """A re-fit of the files of now: what is known before it is decided."""

    config: Config
    registry: Registry
    reporter: Reporter
    settings: FitSettings
    source: Source
    trained: Trained
    champion: Champion | None
    manifest: dict[str, Any]
    before: Trained | None
    landed: Landed

    @classmethod
    def of(cls, config: Config, registry: Registry, reporter: Reporter) -> _Refit:
        """What lies in the source and the registry now."""
        settings, source = settings_of(config), training_source(config)
        champion, manifest = _champion(registry)
        before = Trained.from_manifest(manifest)
        return cls(
            config=config,
            registry=registry,
            reporter=reporter,
            settings=settings,
            source=source,
            trained=Trained.of(source, settings_digest(settings, source)),
            champion=champion,
            manifest=manifest,
            before=before,
            landed=Landed.of(before, source),
        )

    @property
    def name(self) -> str:
        """Of what a re-fit would give: another one where files, settings or the champion are others."""
        facts = [self.trained.as_json(), self.manifest.get("fit"), self.config.refit.align]
        facts.append(self.champion and self.champion.changed_function)
        return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def stores(self) -> Stores:
        """Where runs of re-fits lie while they are under way."""
        return Stores.of(self.config)

    def planned(self, *, force: bool) -> RefitResult:
        """What would be done."""
        decision = self._decision(force=force)
        if not decision.due:
            return self._result("none", decision.reason, decision)
        way = self._way(decision)
        checks = judge(self.config.refit.gate, self._measured(None, decision))
        would = f"would fit ({way.kind}: {way.reason})"
        refused = refusal(checks)
        return self._result(
            "planned",
            f"{decision.reason}; {would}{f' and refuse it: {refused}' if refused else ''}",
            decision,
            gate=checks,
        )

    def done(self, told: list[str], *, force: bool) -> RefitResult:
        """Decide, and do what follows."""
        decision = self._decision(force=force)
        version = self.registry.find(self.name)
        taken_back = None if version is None or force else self._taken_back(version)
        if not decision.due or taken_back:
            self.stores.clear()
            return self._result("none", taken_back or decision.reason, decision)
        candidate = (
            self._made(decision, told) if version is None else Published.of_version(self.registry, version)
        )
        checks = judge(self.config.refit.gate, candidate.measured)
        refused = refusal(checks)
        if not refused:
            # What the gate refused before may pass a wider one; and a call may be forced.
            self.registry.promote(candidate.version, expected=decision.champion or 0, force=True)
        self.stores.clear()
        removed = collect(self.registry, Retention(keep=self.config.refit.keep)).removed
        return self._result(
            "refused" if refused else "promoted",
            f"version {candidate.version} is refused: {refused}" if refused else decision.reason,
            decision,
            fitted=candidate.fitted,
            comparison=candidate.comparison,
            gate=checks,
            candidate=candidate.version,
            removed=removed,
        )

    def _taken_back(self, version: int) -> str | None:
        """Why a version of these very rows stays away: it was promoted, and somebody took that back."""
        alias = self.registry.aliases().get(CHAMPION)
        was_champion = alias is not None and version in dict(alias.left)
        reason = None if self.registry.manifest(version).get("refused") else self.registry.refusal(version)
        if not was_champion and reason is None:
            return None
        told = reason or f"version {self.champion and self.champion.version} was promoted instead"
        return f"version {version}, fitted on these rows, was taken back: {told}; --force promotes it again"

    def _decision(self, *, force: bool) -> Decision:
        newness, drifts = self._newness()
        seen = Circumstances(
            champion=None if self.champion is None else self.champion.version,
            trained=self.before,
            landed=self.landed,
            n_rows=self.trained.n_rows,
            settings=self.trained.settings,
            age_seconds=age_of(self.manifest, time.time()),
            is_of_function=self.champion is None or self.champion.changed_function is None,
            drifts=drifts,
            new_files=newness.files,
            rows_read=newness.rows_read,
            bytes_read=newness.bytes_read,
        )
        decision = decide(self.config.refit.when, seen, force=force)
        left = None if decision.due else self._left()
        return decision if left is None else replace(decision, due=True, reason=f"{left}; {decision.reason}")

    def _left(self) -> str | None:
        """What an earlier call of the same left behind."""
        version = self.registry.find(self.name)
        if version is not None and self.registry.refusal(version) is None:
            return f"version {version} was fitted by a call that ended before it was promoted or refused"
        if self.stores.has(self.name):
            return "an earlier call was interrupted"
        return None

    def _newness(self) -> tuple[Newness, list[Drift]]:
        if self.champion is None or self.champion.basis.columns != self.source.columns:
            return Newness(), []
        basis, score = self.champion.basis, self.config.score
        scored = self.champion.changed_function is None
        newness = Newness()
        if self.before is not None and self.landed.new:
            newness = of_new_rows(basis, self.source, self.landed, self.reporter, scored=scored)
        written = None
        if score is not None and scored:
            parts = written_parts(located(score.output), score.format, self.config.name)
            written = of_scores(basis, self.champion.version, parts)
        return newness, [drift for drift in (newness.drift, written) if drift is not None]

    def _way(self, decision: Decision) -> Way:
        found = decision.drift_of_new_rows
        return way_of(
            self.champion,
            self.landed,
            same_settings=self.before is not None and self.before.settings == self.trained.settings,
            residual_limit=self.config.refit.when.residual_ratio,
            residual_ratio=None if found is None else found.residual_ratio,
        )

    def _made(self, decision: Decision, told: list[str]) -> Published:
        self.stores.clear(but=self.name)
        making = Making(
            self.config,
            self.settings,
            self.source,
            self.landed,
            self.champion,
            partial(self.stores.opened, self.name, reporter=self.reporter),
            self.reporter,
        )
        try:
            candidate = making.made(self._way(decision))
        except (ConfigError, DataError):  # what is wrong stays wrong: there is nothing to go on with
            self.stores.clear()
            raise
        measured = self._measured(candidate, decision)
        return publish(
            self.config, self.registry, self.name, self.trained, candidate, decision, measured, tuple(told)
        )

    def _measured(self, candidate: Candidate | None, decision: Decision) -> Measured:
        return Measured.of(
            None if candidate is None else candidate.basis,
            None if candidate is None else candidate.comparison,
            decision,
            (self.before, self.trained),
            champion_rows=None if self.champion is None else round(self.champion.basis.total_weight),
        )

    def _result(
        self,
        action: Action,
        reason: str,
        decision: Decision,
        *,
        gate: tuple[GateCheck, ...] = (),
        fitted: Fitted | None = None,
        comparison: Comparison | None = None,
        candidate: int | None = None,
        removed: tuple[int, ...] = (),
    ) -> RefitResult:
        promoted = candidate if action == "promoted" else None
        return RefitResult(
            name=self.config.name,
            action=action,
            reason=reason,
            decision=decision,
            fitted=fitted,
            comparison=comparison,
            gate=gate,
            candidate=candidate,
            champion=promoted or decision.champion,
            removed=removed,
            model=str(self.registry.folder),
            seconds=0.0,
        )


def _champion(registry: Registry) -> tuple[Champion | None, dict[str, Any]]:
    """The version that serves and its manifest; none in an empty registry."""
    if CHAMPION not in registry.aliases():
        return None, {}
    serving = registry.resolve()
    if not registry.has_basis(serving):
        raise DataError(
            f"version {serving} of {registry.folder}, which serves, has lost its basis; go back with "
            "kpca-stream models rollback, or fit it anew with kpca-stream fit"
        )
    version, manifest, basis = registry.opened()
    refit = manifest.get("refit") or {"cold_passes": manifest.get("summary", {}).get("n_passes")}
    return Champion(
        version=version,
        basis=basis,
        cold_passes=refit.get("cold_passes"),
        changed_function=changed_function(basis),
    ), manifest
