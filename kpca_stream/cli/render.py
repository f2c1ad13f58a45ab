"""Results as tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kpca_stream.cli.fit_tables import render_fit, render_merge, render_run
from kpca_stream.cli.models_tables import render_model
from kpca_stream.cli.refit_tables import render_refit
from kpca_stream.cli.score_tables import render_report, render_score
from kpca_stream.cli.sections import Fact, count, heading, indented, section
from kpca_stream.cli.tune_tables import render_tune
from kpca_stream.refit_results import RefitResult
from kpca_stream.results import (
    ConfigCheck,
    FitSummary,
    MergeSummary,
    Plan,
    ReportSummary,
    Result,
    RunResult,
    ScoreSummary,
    VerifyReport,
)
from kpca_stream.telemetry import duration, size
from kpca_stream.tune_results import TuneSummary


class _Console(Console):
    """Rich's own, which leaves it to the invocation that nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Raise what Rich caught: it would end the process with 1."""
        raise  # noqa: PLE0704  called in an except clause


def render(result: Result, stream: TextIO, *, width: int | None = None) -> None:
    """Print `result` to `stream`, as wide as its terminal (or `width` columns)."""
    console = _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    _RENDERERS.get(type(result), render_model)(console, result)


def _plan(console: Console, plan: Plan) -> None:
    problem = [
        ("rows x columns", f"{plan.n_samples:,} x {plan.n_features:,}"),
        ("kernel", plan.kernel),
        ("solver", f"{plan.method}, {plan.precision}, {count(plan.passes, 'pass', 'passes')}"),
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
    for title, facts in (
        ("Plan", problem),
        ("Disk", disk),
        ("Memory", memory),
        ("A pass moves", _moved(plan)),
    ):
        if facts:
            section(console, title, facts)


def _moved(plan: Plan) -> list[Fact]:
    """Nothing where tasks are threads of the command's own."""
    if not plan.n_processes:
        return []
    each = size(plan.moved_read // plan.n_processes)
    return [
        ("to workers", f"{size(plan.moved_to_workers)}: what {count(plan.n_tasks, 'task is', 'tasks are')}"),
        (
            "from workers",
            f"{size(plan.moved_from_workers)} of sums, received in about {duration(plan.receiving_seconds)}",
        ),
        ("read", f"{size(plan.moved_read)} from files, {each} by each of {plan.n_processes:,} processes"),
    ]


def _units(plan: Plan) -> list[Fact]:
    tasks = count(plan.n_tasks, "task", "tasks")
    if plan.n_landmarks is not None:
        return [("landmarks", f"{plan.n_landmarks:,} at most, rows in {tasks}")]
    tiles = f"{plan.n_tiles:,} (edge {plan.tile_rows:,}) in {tasks}"
    return [("storage", plan.storage), ("tiles", tiles)]


def _verify(console: Console, report: VerifyReport) -> None:
    heading(console, f"{report.path} ({report.kind})")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", ratio=1)
    for check in report.checks:
        mark = Text("ok", style="green") if check.ok else Text("FAILED", style="bold red")
        table.add_row(mark, check.name, check.detail)
    indented(console, table)


def _config_check(console: Console, check: ConfigCheck) -> None:
    console.print(f"{check.path}: no mistakes", soft_wrap=True)


_RENDERERS: dict[type[Any], Callable[[Console, Any], None]] = {
    RunResult: render_run,
    FitSummary: render_fit,
    MergeSummary: render_merge,
    ScoreSummary: render_score,
    ReportSummary: render_report,
    Plan: _plan,
    RefitResult: render_refit,
    TuneSummary: render_tune,
    VerifyReport: _verify,
    ConfigCheck: _config_check,
}
