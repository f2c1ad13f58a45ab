"""Results as tables that fit the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kpca_stream.refit_results import RefitResult
from kpca_stream.results import (
    Bound,
    ConfigCheck,
    FitSummary,
    Landmarks,
    MergeSummary,
    ModelResult,
    Plan,
    ReportSummary,
    Result,
    RunResult,
    ScoreSummary,
    VerifyReport,
)
from kpca_stream.telemetry import duration, size
from kpca_stream.tune_results import TuneSummary

MAX_COMPONENTS = 20

Fact = tuple[str, str]


def render(result: Result, stream: TextIO, *, width: int | None = None) -> None:
    """Print `result` to `stream`, as wide as its terminal (or `width` columns)."""
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    _RENDERERS.get(type(result), _model)(console, result)


def _run(console: Console, result: RunResult) -> None:
    _data(console, result.fit)
    _gram(console, result.fit)
    _components(console, result.fit)
    if result.score is not None:
        _scores(console, result.score)
    if result.report is not None:
        _report(console, result.report)
    _places(console, result.fit, result.score)
    _next(console, f"kpca-stream verify {result.fit.basis}")


def _fit(console: Console, fit: FitSummary) -> None:
    _data(console, fit)
    _gram(console, fit)
    _components(console, fit)
    _places(console, fit, None)
    _next(console, f"kpca-stream verify {fit.basis}")


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
    tiles = f"{fit.n_tiles:,} (edge {fit.tile_rows:,}): {fit.tiles_found:,} found, {fit.tiles_made:,} made"
    if fit.tiles_repaired:
        tiles += f", {fit.tiles_repaired:,} repaired"
    read = f", {_count(fit.tiles_read, 'tile', 'tiles')} read" if fit.tiles_read else ""
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
    passes = _count(fit.n_passes, "pass", "passes")
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


def _merge(console: Console, result: MergeSummary) -> None:
    facts = [
        ("bases", ", ".join(result.merged)),
        ("rows", f"{result.n_samples:,}"),
        *_quality(result.landmarks),
    ]
    section(console, "Merged", facts)
    _components(console, result)
    section(console, "Where everything lies", [("basis", result.basis)])
    _next(console, f"kpca-stream verify {result.basis}")


def _components(console: Console, fit: FitSummary | MergeSummary) -> None:
    _title(console, "Components")
    table = _component_table(fit, ("component", "eigenvalue", "explained", "cumulative"))
    if console.measure(table).maximum > console.width - 2:
        table = _component_table(fit, ("no.", "eigenvalue", "share"))
    _indented(console, table)
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


def _scores(console: Console, score: ScoreSummary) -> None:
    parts = f"{score.n_parts:,}: {score.parts_written:,} written, {score.parts_skipped:,} there already"
    novel = f"{score.n_novel:,} rows"
    if score.n_rows:
        novel += f", {score.n_novel / score.n_rows:.1%}"
    facts = [
        ("source", score.source),
        *_files(score),
        ("rows", f"{score.n_rows:,}"),
        ("parts", parts),
        ("novel", novel),
        ("time", duration(score.seconds)),
    ]
    section(console, "Scores", facts)
    if score.set_aside:
        section(console, "Set aside", [(file.name, file.reason) for file in score.set_aside])


def _files(score: ScoreSummary) -> list[Fact]:
    """Nothing where the input is one file that has its scores."""
    if score.n_files == 1 and not (score.files_set_aside or score.files_waiting):
        return []
    notes = [
        f"{count:,} {what}"
        for count, what in (
            (score.files_set_aside, "set aside"),
            (score.files_waiting, "still being written, left alone"),
        )
        if count
    ]
    return [("files", ", ".join([f"{score.n_files:,}", *notes]))]


def _score(console: Console, score: ScoreSummary) -> None:
    _scores(console, score)
    section(console, "Where everything lies", [("model", score.model), ("scores", score.output)])


def _report(console: Console, report: ReportSummary) -> None:
    scored = f"{report.n_rows:,} scored rows, {_count(report.n_parts, 'part', 'parts')}"
    facts = [
        ("page", f"{report.path}, {size(report.n_bytes)}"),
        ("of", f"{report.model}, version {report.version}"),
        ("and", scored),
        ("time", duration(report.seconds)),
    ]
    section(console, "Report", facts)


def _plan(console: Console, plan: Plan) -> None:
    problem = [
        ("rows x columns", f"{plan.n_samples:,} x {plan.n_features:,}"),
        ("kernel", plan.kernel),
        ("solver", f"{plan.method}, {plan.precision}, {_count(plan.passes, 'pass', 'passes')}"),
        *_units(plan),
        ("evaluations", f"{plan.evaluations:,} of the kernel"),
        ("time", f"about {duration(plan.seconds)}"),
    ]
    if plan.n_scored is not None and plan.scoring_seconds is not None:
        problem.append(("scoring", f"{plan.n_scored:,} rows in about {duration(plan.scoring_seconds)}"))
    if plan.method_reason:
        problem.append(("reason", plan.method_reason))
    disk = [
        ("rows", size(plan.disk_rows)),
        ("tiles", f"{size(plan.bucket_tiles)} in the bucket" if plan.bucket_tiles else size(plan.disk_tiles)),
        ("vectors", size(plan.disk_vectors)),
        ("basis", size(plan.disk_basis)),
        ("total", f"{size(plan.disk_total)} of {size(plan.disk_limit)}"),
    ]
    memory = [
        ("client", size(plan.memory_client)),
        ("each task", size(plan.memory_task)),
        ("total", f"{size(plan.memory_total)} of {size(plan.memory_limit)}"),
    ]
    for title, facts in (("Plan", problem), ("Disk", disk), ("Memory", memory)):
        section(console, title, facts)


def _units(plan: Plan) -> list[Fact]:
    tasks = _count(plan.n_tasks, "task", "tasks")
    if plan.n_landmarks is not None:
        return [("landmarks", f"{plan.n_landmarks:,} at most, rows in {tasks}")]
    tiles = f"{plan.n_tiles:,} (edge {plan.tile_rows:,}) in {tasks}"
    return [("storage", plan.storage), ("tiles", tiles)]


def _verify(console: Console, report: VerifyReport) -> None:
    _title(console, f"{report.path} ({report.kind})")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", ratio=1)
    for check in report.checks:
        mark = Text("ok", style="green") if check.ok else Text("FAILED", style="bold red")
        table.add_row(mark, check.name, check.detail)
    _indented(console, table)


def _refit(console: Console, result: RefitResult) -> None:
    from kpca_stream.cli.refit_tables import render_refit

    render_refit(console, result)


def _tune(console: Console, result: TuneSummary) -> None:
    from kpca_stream.cli.tune_tables import render_tune

    render_tune(console, result)


def _model(console: Console, result: ModelResult) -> None:
    from kpca_stream.cli.models_tables import render_model

    render_model(console, result)


def _config_check(console: Console, check: ConfigCheck) -> None:
    console.print(f"{check.path}: no mistakes", soft_wrap=True)


def section(console: Console, title: str, facts: Sequence[Fact]) -> None:
    """Names and what is to be said of each, below a title."""
    _title(console, title)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=14)
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(*fact)
    _indented(console, table)


def titled(console: Console, title: str, table: Table) -> None:
    """A table below a title."""
    _title(console, title)
    _indented(console, table)


def _indented(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _title(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold", overflow="fold"))


def _next(console: Console, command: str) -> None:
    _title(console, "Next")
    # Not wrapped: it is there to be copied.
    console.print(f"  {command}", soft_wrap=True)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_RENDERERS: dict[type[Any], Callable[[Console, Any], None]] = {
    RunResult: _run,
    FitSummary: _fit,
    MergeSummary: _merge,
    ScoreSummary: _score,
    ReportSummary: _report,
    Plan: _plan,
    RefitResult: _refit,
    TuneSummary: _tune,
    VerifyReport: _verify,
    ConfigCheck: _config_check,
}
