"""Whether a re-fit is due: numbers beside their limits, and one line that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kpca_stream.config import When
from kpca_stream.refit_results import Decision, Drift, NewFile, Trigger
from kpca_stream.storage.manifest import seconds_of
from kpca_stream.storage.trained import Landed, Trained
from kpca_stream.telemetry import duration


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a decision rests on.

    Parameters
    ----------
    champion : int or None
    trained : Trained or None
        What the champion was fitted on; None where there is no champion or it does not say.
    landed : Landed
        How the files of now differ.
    n_rows : int
        Of all files now.
    settings : str
        A digest of how a fit would be made now.
    age_seconds : float or None
        Of the champion.
    is_of_function : bool
        Whether the kernel of the champion, where it is a function of one's own, is what it was.
    drifts : sequence of Drift
    new_files : sequence of NewFile
    rows_read, bytes_read : int
        To find these out.
    """

    champion: int | None
    trained: Trained | None
    landed: Landed
    n_rows: int
    settings: str
    age_seconds: float | None
    is_of_function: bool = True
    drifts: Sequence[Drift] = ()
    new_files: Sequence[NewFile] = ()
    rows_read: int = 0
    bytes_read: int = 0


def decide(when: When, seen: Circumstances, *, force: bool) -> Decision:
    """Whether a re-fit is due.

    Without other rows, settings or kernel, a fit would give the champion again: none is due then, whatever
    has drifted, unless it is forced.
    """
    triggers = _triggers(when, seen)
    due, reason = _verdict(seen, triggers, force=force)
    landed = seen.landed
    return Decision(
        due=due,
        reason=reason,
        champion=seen.champion,
        n_rows=seen.n_rows,
        n_new=landed.n_new,
        n_gone=landed.n_gone,
        files_changed=len(landed.changed),
        files_gone=len(landed.gone),
        age_seconds=seen.age_seconds,
        triggers=tuple(triggers),
        drifts=tuple(seen.drifts),
        new_files=tuple(seen.new_files),
        rows_read=seen.rows_read,
        bytes_read=seen.bytes_read,
    )


def age_of(manifest: dict[str, Any], now: float) -> float | None:
    """Seconds since a version was created, as its manifest tells; None where it does not."""
    created = seconds_of(manifest.get("created"))
    return None if created is None else max(0.0, now - created)


def _triggers(when: When, seen: Circumstances) -> list[Trigger]:
    trained, landed = seen.trained, seen.landed
    share = None if trained is None else (landed.n_new + landed.n_gone) / max(trained.n_rows, 1)
    return [
        _trigger("new_rows", share, when.new_rows),
        _trigger("max_age", seen.age_seconds, when.max_age),
        _drifted(when, seen.drifts),
        *(
            _trigger(name, _largest(seen.drifts, name), getattr(when, name))
            for name in ("error_ratio", "residual_ratio")
        ),
    ]


def _drifted(when: When, drifts: Sequence[Drift]) -> Trigger:
    """Reached by a distance that is no chance of few rows."""
    beyond = [drift for drift in drifts if drift.drift is not None and drift.drift > drift.sampling_bound]
    certain = _trigger("drift", _largest(beyond, "drift"), when.drift)
    return certain if certain.reached else replace(certain, value=_largest(drifts, "drift"))


def _trigger(name: str, value: float | None, limit: float | None) -> Trigger:
    reached = value is not None and limit is not None and value >= limit
    return Trigger(name=name, value=value, limit=limit, reached=reached)


def _largest(drifts: Sequence[Drift], name: str) -> float | None:
    known = [value for drift in drifts if (value := getattr(drift, name)) is not None]
    return max(known, default=None)


def _verdict(seen: Circumstances, triggers: Sequence[Trigger], *, force: bool) -> tuple[bool, str]:
    version = f"version {seen.champion}"
    if outdated := _outdated(seen, version):
        return True, outdated
    reached = [_told(trigger) for trigger in triggers if trigger.reached]
    landed = seen.landed
    if not landed.new and not landed.gone:
        but = f", though {'; '.join(reached)}" if reached else ""
        return force, f"{'forced: ' if force else ''}no other rows than those of {version}{but}"
    counts = f"{landed.n_new:,} new rows" + (f", {landed.n_gone:,} gone" if landed.n_gone else "")
    if reached:
        return True, f"{counts}: {'; '.join(reached)}"
    known = "; ".join(_told(each) for each in triggers if each.value is not None and each.limit is not None)
    return force, f"{'forced, with ' if force else ''}{counts}: {known or 'nothing is asked'}"


def _outdated(seen: Circumstances, version: str) -> str | None:
    """Why a fit is due though no rows are new."""
    if seen.champion is None:
        return "there is no version yet"
    if seen.trained is None:
        return f"{version} does not tell which files it was fitted on"
    if seen.trained.settings != seen.settings:
        return f"{version} was fitted with other settings"
    if not seen.is_of_function:
        return f"the kernel's function gives other values than {version} tells, if it tells any"
    return None


_WORDS = {
    "new_rows": ("share of new rows", "{:.3g}"),
    "max_age": ("age", ""),
    "drift": ("drift", "{:.3g}"),
    "error_ratio": ("ratio of errors", "{:.3g}"),
    "residual_ratio": ("ratio of residual traces", "{:.3g}"),
}


def _told(trigger: Trigger) -> str:
    words, form = _WORDS[trigger.name]
    value, limit = (
        "unknown" if number is None else form.format(number) if form else duration(number)
        for number in (trigger.value, trigger.limit)
    )
    if trigger.reached:
        return f"{words} {value} reaches {limit}"
    may_be_chance = trigger.name == "drift" and (trigger.value or 0.0) >= (trigger.limit or 1.0)
    return f"{words} {value} {'may be chance, asked is' if may_be_chance else 'is below'} {limit}"
