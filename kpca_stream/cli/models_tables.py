"""A model's versions, as tables."""

from __future__ import annotations

import json
from itertools import compress
from typing import Any

from rich.console import Console
from rich.table import Table

from kpca_stream.cli.sections import Fact, section, titled
from kpca_stream.model_results import (
    Collection,
    ModelDiff,
    ModelList,
    ModelVersion,
    Promotion,
    VersionFacts,
)
from kpca_stream.telemetry import size

MOST_VALUES = 10
SHORT = 40
WIDE = 76
LEFT_OUT = frozenset({"rows", "method", "k"})
"""Of a list in a narrow window; `models show` has them."""
MINUTES = len("2026-01-31 12:30")


def render_model(console: Console, result: Any) -> None:
    """Print what a command of the registry found out."""
    _RENDERERS[type(result)](console, result)


def _list(console: Console, result: ModelList) -> None:
    names = ("version", "made", "rows", "method", "k", "explained", "named by", "standing")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    shown = [name not in LEFT_OUT or console.width >= WIDE for name in names]
    for name in compress(names, shown):
        right = name in {"version", "rows", "k", "explained"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for facts in result.versions:
        table.add_row(*compress(_row(facts), shown))
    titled(console, result.model, table)
    for facts in result.versions:
        if facts.reason is not None:
            console.print(f"  {facts.version} is {facts.standing}: {facts.reason}", soft_wrap=True)


def _row(facts: VersionFacts) -> tuple[str, ...]:
    shares = facts.explained_variance_ratio
    return (
        str(facts.version),
        (facts.created or "").replace("T", " ")[:MINUTES],
        "" if facts.n_samples is None else f"{facts.n_samples:,}",
        facts.method or "",
        str(len(facts.eigenvalues)) if facts.eigenvalues else "",
        f"{sum(shares):.2%}" if shares else "",
        ", ".join(facts.aliases),
        facts.standing,
    )


def _show(console: Console, result: ModelVersion) -> None:
    facts = result.facts
    gamma = "" if facts.gamma is None else f", gamma {facts.gamma:.6g}"
    told: list[Fact] = [
        ("model", result.model),
        ("named by", ", ".join(facts.aliases) or "nothing"),
        ("standing", facts.standing if facts.reason is None else f"{facts.standing}: {facts.reason}"),
        ("made", facts.created or "unknown"),
        ("source", facts.source or "unknown"),
        ("rows", "unknown" if facts.n_samples is None else f"{facts.n_samples:,}"),
        ("kernel", f"{facts.kernel or 'unknown'}{gamma}"),
        ("method", facts.method or "unknown"),
        ("eigenvalues", _values(facts.eigenvalues, ".6g")),
        ("explained", _values(facts.explained_variance_ratio, ".2%")),
        ("fingerprint", facts.fingerprint or "unknown"),
        ("size", size(facts.n_bytes)),
        ("basis", facts.basis),
    ]
    known = {"version", "created", "fit", "summary", "refused"}
    more = [(key, _short(value)) for key, value in result.manifest.items() if key not in known]
    section(console, f"Version {facts.version}", told + more)


def _promotion(console: Console, result: Promotion) -> None:
    if result.before == result.version:
        outcome = f"names version {result.version} already"
    elif result.before is None:
        outcome = f"names version {result.version} now"
    else:
        outcome = f"names version {result.version} now, version {result.before} before"
    told = [(result.alias, outcome), ("basis", result.basis), ("model", result.model)]
    section(console, "Promoted" if result.action == "promote" else "Rolled back", told)


def _diff(console: Console, result: ModelDiff) -> None:
    first, second = f"version {result.first}", f"version {result.second}"
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("", first, second):
        table.add_column(name, overflow="fold")
    for change in result.changes:
        table.add_row(change.name, _short(change.first), _short(change.second))
    if result.changes:
        titled(console, f"{result.model}: facts that differ", table)
    else:
        section(console, result.model, [("facts", "the same")])
    section(console, f"From {first} to {second}", list(_comparison(result)))


def _comparison(result: ModelDiff) -> tuple[Fact, ...]:
    if result.not_compared is not None or result.angles is None or result.eigenvalue_changes is None:
        return (("not compared", result.not_compared or "unknown"),)
    how = "" if result.angles_exact else ", estimated from scores"
    return (
        ("variances", _values(result.eigenvalue_changes, "+.2%")),
        ("angles", _values(result.angles, ".3g", "°") + how),
        ("scores move", f"{result.displacement:.2%} of their length, over {result.n_rows:,} rows"),
        ("aligned", f"{result.displacement_aligned:.2%}"),
    )


def _gc(console: Console, result: Collection) -> None:
    removed = ", ".join(map(str, result.removed)) or "none"
    told = [("would go" if result.dry_run else "taken away", removed)]
    if result.removed:
        told.append(("would free" if result.dry_run else "freed", size(result.n_bytes)))
    section(console, result.model, told)
    section(console, "Kept", [(f"version {kept.version}", kept.reason) for kept in result.kept])


def _values(values: tuple[float, ...], form: str, unit: str = "") -> str:
    told = "  ".join(f"{value:{form}}{unit}" for value in values[:MOST_VALUES]) or "unknown"
    more = len(values) - MOST_VALUES
    return f"{told}  and {more} more" if more > 0 else told


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


_RENDERERS: dict[type[Any], Any] = {
    ModelList: _list,
    ModelVersion: _show,
    Promotion: _promotion,
    ModelDiff: _diff,
    Collection: _gc,
}
