"""What was scored and reported, as tables."""

from __future__ import annotations

from rich.console import Console

from kpca_stream.cli.sections import Fact, count, section
from kpca_stream.results import ReportSummary, ScoreSummary
from kpca_stream.telemetry import duration, size


def scores_tables(console: Console, score: ScoreSummary) -> None:
    """What was scored, and what was set aside."""
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
        f"{number:,} {what}"
        for number, what in (
            (score.files_set_aside, "set aside"),
            (score.files_waiting, "still being written, left alone"),
        )
        if number
    ]
    return [("files", ", ".join([f"{score.n_files:,}", *notes]))]


def render_score(console: Console, score: ScoreSummary) -> None:
    """The same, and where it lies."""
    scores_tables(console, score)
    section(console, "Where everything lies", [("model", score.model), ("scores", score.output)])


def render_report(console: Console, report: ReportSummary) -> None:
    """Which page was written, of what."""
    scored = f"{report.n_rows:,} scored rows, {count(report.n_parts, 'part', 'parts')}"
    facts = [
        ("page", f"{report.path}, {size(report.n_bytes)}"),
        ("of", f"{report.model}, version {report.version}"),
        ("and", scored),
        ("time", duration(report.seconds)),
    ]
    section(console, "Report", facts)
