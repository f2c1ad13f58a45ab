"""What a fit found, as tables."""

from __future__ import annotations

import itertools

from rich.console import Console
from rich.table import Table

from kpca_stream.cli.score_tables import render_report, scores_tables
from kpca_stream.cli.sections import Fact, count, heading, indented, next_command, section
from kpca_stream.results import Bound, FitSummary, Landmarks, MergeSummary, RunResult, ScoreSummary
from kpca_stream.telemetry import duration, size

MAX_COMPONENTS = 20


def render_run(console: Console, result: RunResult) -> None:
    """A fit, its scores and its report."""
    _data(console, result.fit)
    _gram(console, result.fit)
    _components(console, result.fit)
    if result.score is not None:
        scores_tables(console, result.score)
    if result.report is not None:
        render_report(console, result.report)
    _places(console, result.fit, result.score)
    next_command(console, f"kpca-stream verify {result.fit.basis}")


def render_fit(console: Console, fit: FitSummary) -> None:
    """A fit alone."""
    _data(console, fit)
    _gram(console, fit)
    _components(console, fit)
    _places(console, fit, None)
    next_command(console, f"kpca-stream verify {fit.basis}")


def _data(console: Console, fit: FitSummary) -> None:
    gamma = "" if fit.gamma is None else f", gamma {fit.gamma:.6g}"
    distinct = "" if fit.n_distinct is None else f" ({fit.n_distinct:,} distinct)"
    dropped = f", {fit.n_dropped:,} more dropped" if fit.n_dropped else ""
    facts = [
        ("source", fit.source),
        ("rows x columns", f"{fit.n_samples:,} x {fit.n_features:,}{distinct}{dropped}"),
        ("kernel", fit.kernel + gamma),
    ]
    if fit.fingerprint:
        facts.append(("fingerprint", fit.fingerprint))
    section(console, "Data", facts)


def _gram(console: Console, fit: FitSummary) -> None:
    title = "Gram matrix" if fit.landmarks is None else "Nyström"
    if fit.reused:
        section(console, title, [("nothing to do", f"version {fit.version} was fitted already")])
        return
    if fit.landmarks is not None:
        section(console, title, _landmark_facts(fit, fit.landmarks))
        return
    again = max(0, fit.tiles_found + fit.tiles_made - fit.tiles_repaired - fit.n_tiles)
    made = f"{fit.tiles_found:,} found, {fit.tiles_made - again:,} made"
    tiles = f"{fit.n_tiles:,} (edge {fit.tile_rows:,}): {made}"
    if again:
        tiles += f", {again:,} made again"
    if fit.tiles_repaired:
        tiles += f", {fit.tiles_repaired:,} repaired"
    read = f", {count(fit.tiles_read, 'tile', 'tiles')} read" if fit.tiles_read else ""
    facts = [
        ("tiles", tiles),
        ("storage", fit.storage + read),
        *_effort(fit),
    ]
    section(console, title, facts)


def _landmark_facts(fit: FitSummary, used: Landmarks) -> list[Fact]:
    reason = [("reason", fit.method_reason)] if fit.method_reason else []
    return [*reason, *_quality(used), *_effort(fit)]


def _effort(fit: FitSummary) -> list[Fact]:
    passes = count(fit.n_passes, "pass", "passes")
    if fit.passes_resumed:
        passes += f" ({fit.passes_resumed:,} resumed)"
    return [
        ("solver", f"{fit.method}, {fit.precision}, {passes}"),
        ("peak memory", size(fit.peak_memory)),
        ("time", duration(fit.seconds)),
    ]


def _quality(used: Landmarks) -> list[Fact]:
    chosen = "given" if used.method == "given" else f"by {used.method}"
    return [
        ("landmarks", f"{used.n_landmarks:,} {chosen}, rank {used.rank:,}"),
        ("residual trace", f"{100 * used.residual_trace_share:.2g} % of all"),
        *((f"{bound.kind} bound", _told(bound)) for bound in used.bounds),
    ]


def _told(bound: Bound) -> str:
    if not bound.certified:
        return f"exact eigenvalues are higher by up to about {bound.bound:.4g}: an estimate, not certified"
    chance = f", but for a chance of {bound.failure_probability:.0e}" if bound.failure_probability else ""
    return f"exact eigenvalues are higher by at most {bound.bound:.4g}{chance}"


def render_merge(console: Console, result: MergeSummary) -> None:
    """A basis of several."""
    facts = [
        ("bases", ", ".join(result.merged)),
        ("rows", f"{result.n_samples:,}"),
        *_quality(result.landmarks),
    ]
    section(console, "Merged", facts)
    _components(console, result)
    section(console, "Where everything lies", [("basis", result.basis)])
    next_command(console, f"kpca-stream verify {result.basis}")


def _components(console: Console, fit: FitSummary | MergeSummary) -> None:
    heading(console, "Components")
    table = _component_table(fit, ("component", "eigenvalue", "explained", "cumulative"))
    if console.measure(table).maximum > console.width - 2:
        table = _component_table(fit, ("no.", "eigenvalue", "share"))
    indented(console, table)
    if len(fit.eigenvalues) > MAX_COMPONENTS:
        console.print(f"  and {len(fit.eigenvalues) - MAX_COMPONENTS} more: --json lists all")


def _component_table(fit: FitSummary | MergeSummary, names: tuple[str, ...]) -> Table:
    """The first components; a cumulative share only where there is a fourth name."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    last, cells = _last_column(fit)
    for name in (*names, last):
        table.add_column(name, justify="right", no_wrap=True)
    shares = fit.explained_variance_ratio
    rows = zip(fit.eigenvalues, shares, itertools.accumulate(shares), cells, strict=True)
    for index, (value, share, total, cell) in enumerate(itertools.islice(rows, MAX_COMPONENTS), start=1):
        values = (f"{index}", f"{value:.6g}", f"{share:.2%}", f"{total:.2%}")
        table.add_row(*values[: len(names)], cell)
    return table


def _last_column(fit: FitSummary | MergeSummary) -> tuple[str, list[str]]:
    """What is known of each eigenvalue: its residual, or up to where the exact one may be."""
    if fit.landmarks is None:
        return "residual", [f"{residual:.1e}" for residual in fit.residual_norms]
    used = fit.landmarks
    certified = min((bound.bound for bound in used.bounds if bound.certified), default=0.0)
    values = zip(fit.eigenvalues, used.rounding, strict=True)
    return "at most", [f"{value + rounding + certified:.6g}" for value, rounding in values]


def _places(console: Console, fit: FitSummary, score: ScoreSummary | None) -> None:
    facts = [("model", fit.model), (f"version {fit.version}", fit.basis), ("run's store", fit.store)]
    if score is not None:
        facts.append(("scores", score.output))
    section(console, "Where everything lies", facts)
