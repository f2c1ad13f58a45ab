"""A candidate as a version: with its decision, its numbers and the verdict in the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from kpca_stream.config import Config
from kpca_stream.publication import manifest_of
from kpca_stream.refit_results import Comparison, Decision, Fitted
from kpca_stream.refitting.candidate import Candidate
from kpca_stream.refitting.gate import Measured, judge, refusal
from kpca_stream.results import as_json
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.trained import Trained
from kpca_stream.summaries import fit_summary


@dataclass(frozen=True, kw_only=True)
class Published:
    """A candidate that is a version, whether this call made it or an earlier one."""

    version: int
    fitted: Fitted
    comparison: Comparison | None
    measured: Measured

    @classmethod
    def of_version(cls, registry: Registry, version: int) -> Self:
        """Of an earlier call, which did not promote it."""
        refit = registry.manifest(version)["refit"]
        comparison = refit["comparison"]
        return cls(
            version=version,
            fitted=Fitted(**{**refit["fitted"], "reused": True}),
            comparison=None if comparison is None else Comparison(**_tuples(comparison)),
            measured=Measured.from_manifest(refit["measured"]),
        )


def publish(
    config: Config,
    registry: Registry,
    name: str,
    trained: Trained,
    candidate: Candidate,
    decision: Decision,
    measured: Measured,
    told: tuple[str, ...],
) -> Published:
    """Write a candidate as a version, refused or not; it is promoted by nobody yet.

    Parameters
    ----------
    config : Config
    registry : Registry
    name : str
        By which a later call finds it.
    trained : Trained
        The files that it was fitted on.
    candidate : Candidate
    decision : Decision
    measured : Measured
        What the gate looks at.
    told : tuple of str
        Warnings of the fit.
    """
    found, checks = candidate.fitted, judge(config.refit.gate, measured)
    summary = partial(
        fit_summary, config, candidate.source, candidate.fit, registry, seconds=found.seconds, told=told
    )
    refit = {
        "champion": decision.champion,
        "decision": as_json(decision),
        "fitted": as_json(found),
        "comparison": None if candidate.comparison is None else as_json(candidate.comparison),
        "measured": measured.as_json(),
        "gate": as_json(checks),
        "cold_passes": candidate.cold_passes,
    }
    more: dict[str, Any] = {"trained": trained.as_json(), "refit": refit}
    if refused := refusal(checks):
        more["refused"] = refused
    version = registry.publish(
        candidate.basis, lambda number: manifest_of(name, summary(version=number), **more)
    )
    return Published(version=version, fitted=found, comparison=candidate.comparison, measured=measured)


def _tuples(stored: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
