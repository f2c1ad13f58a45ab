"""What a re-fit decided and did, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from kpca_stream.cli.sections import Fact, count, section
from kpca_stream.refit_results import Comparison, Decision, Fitted, GateCheck, RefitResult
from kpca_stream.telemetry import duration, size

MOST_FILES = 10
_DONE = {
    "none": "nothing to do",
    "promoted": "promoted",
    "refused": "refused: the champion stays",
    "planned": "would be done",
}


def render_refit(console: Console, result: RefitResult) -> None:
    """Print all that is known, the verdict first."""
    section(console, "Re-fit", list(_verdict(result)))
    section(console, "Decision", list(_decision(result.decision)))
    if result.decision.new_files:
        section(console, "New files", list(_files(result.decision)))
    if result.fitted is not None:
        section(console, "Fit", list(_fitted(result.fitted)))
    if result.comparison is not None:
        section(console, "Beside the champion", list(_comparison(result.comparison)))
    if result.gate:
        section(console, "Gate", [_check(check) for check in result.gate])


def _verdict(result: RefitResult) -> Iterator[Fact]:
    yield "outcome", _DONE[result.action]
    yield "reason", result.reason
    if result.candidate is not None:
        yield "candidate", f"version {result.candidate}"
    yield "champion", "none" if result.champion is None else f"version {result.champion}"
    if result.removed:
        yield "taken away", f"versions {', '.join(map(str, result.removed))}"
    yield "model", result.model
    if result.report is not None:
        yield "report", result.report
    yield "time", duration(result.seconds)


def _decision(decision: Decision) -> Iterator[Fact]:
    more = [
        f"{count:,} {word}"
        for count, word in ((decision.n_gone, "rows gone"), (decision.files_changed, "files changed"))
        if count
    ]
    yield "rows", ", ".join([f"{decision.n_rows:,}, {decision.n_new:,} of them new", *more])
    for trigger in decision.triggers:
        if trigger.value is not None or trigger.limit is not None:
            yield trigger.name, _told(trigger.name, trigger.value, trigger.limit)
    for drift in decision.drifts:
        novel = "" if drift.novelty is None else f", {drift.novelty:.1%} novel"
        far = "not known" if drift.drift is None else f"{drift.drift:.3f}"
        yield f"drift: {drift.source}", f"{far} (by chance up to {drift.sampling_bound:.3f}){novel}"
    yield "read", f"{decision.rows_read:,} rows, {size(decision.bytes_read)}"


def _told(name: str, value: float | None, limit: float | None) -> str:
    got, asked = (
        "not known" if number is None else duration(number) if name == "max_age" else f"{number:.4g}"
        for number in (value, limit)
    )
    return got if limit is None else f"{got}, due from {asked}"


def _files(decision: Decision) -> Iterator[Fact]:
    worst = sorted(decision.new_files, key=lambda file: -(file.novelty or 0.0))
    for file in worst[:MOST_FILES]:
        novel = "not known" if file.novelty is None else f"{file.novelty:.1%} novel"
        unfit = (
            "" if file.column_ratio is None else f", column {file.column!r} off by {file.column_ratio:.3g}"
        )
        yield file.name, f"{file.n_rows:,} rows, {novel}{unfit}"
    if len(worst) > MOST_FILES:
        yield "and", f"{len(worst) - MOST_FILES:,} more, less novel: --json lists all"


def _fitted(fitted: Fitted) -> Iterator[Fact]:
    yield "kind", f"{fitted.kind}: {fitted.reason}"
    saved = "" if fitted.passes_saved is None else f", {fitted.passes_saved} fewer than afresh"
    yield "solver", f"{fitted.method}, {count(fitted.n_passes, 'pass', 'passes')}{saved}"
    yield "rows", f"{fitted.n_samples:,}"
    yield "read", f"{fitted.rows_read:,} rows, {size(fitted.bytes_read)}"
    yield "time", duration(fitted.seconds) + (", by an earlier call" if fitted.reused else "")


def _comparison(found: Comparison) -> Iterator[Fact]:
    estimated = "" if found.angles_exact else ", estimated"
    yield "largest angle", f"{max(found.angles, default=0.0):.3g} degrees{estimated}"
    changes = [abs(change) for change in found.eigenvalue_changes]
    yield "eigenvalues", f"change by up to {max(changes, default=0.0):.2%}"
    moved = f"{found.displacement:.2%} (without alignment {found.displacement_before:.2%})"
    yield "scores", f"move by {moved}, of {found.n_rows:,} rows; align: {found.align}"


def _check(check: GateCheck) -> Fact:
    verdict = "FAILED" if not check.ok else "not judged" if check.value is None else "ok"
    return check.name, f"{verdict}: {check.detail}"
