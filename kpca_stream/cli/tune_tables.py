"""What tuning found, as a table."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kpca_stream.cli.sections import next_command, section, titled
from kpca_stream.telemetry import duration
from kpca_stream.tune_results import TuneSummary

MOST_ROWS = 20


def render_tune(console: Console, result: TuneSummary) -> None:
    """What was tried, what came of it, what may be compared, and how to go on."""
    facts = [
        ("source", result.source),
        ("sample", f"{result.n_sampled:,} of {result.n_samples:,} rows, {result.folds} folds"),
        ("tried", f"{len(result.trials):,}, the best {min(MOST_ROWS, len(result.trials))} below"),
        ("time", duration(result.seconds)),
    ]
    if result.plot is not None:
        facts.append(("plot", result.plot))
    section(console, "Tuning", facts)
    table = trials_table(result)
    if console.measure(table).maximum > console.width - 2:
        table = trials_table(result, narrow=True)
    titled(console, "Trials", table)
    failed = [trial for trial in result.trials if trial.problem]
    if failed:
        told = f"{len(failed):,} failed; {failed[0].kernel}: {failed[0].problem}"
        console.print(Padding(Text(told), (1, 0, 0, 2)))
    console.print(Padding(Text(result.note), (1, 0, 0, 2)))
    next_command(console, *result.command)


def trials_table(summary: TuneSummary, *, narrow: bool = False) -> Table:
    """The best trials, with those numbers that some of them have; `narrow`: rounded, no spread."""
    shown = summary.trials[:MOST_ROWS]
    names = ("gamma", "degree", "coef0", "alpha")
    numbers = [name for name in names if any(getattr(trial, name) is not None for trial in shown)]
    judged = "error" if summary.less_is_better else summary.criterion
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    digits, last = (3, ()) if narrow else (6, ("spread",))
    for name in ("kernel", *numbers, "components", judged, *last):
        table.add_column(name, justify="left" if name == "kernel" else "right", no_wrap=True)
    for trial in shown:
        values = [_number(getattr(trial, name), digits) for name in numbers]
        judgement = _number(trial.score, digits) or "failed", _number(trial.spread, digits)
        table.add_row(trial.kernel, *values, str(trial.n_components), *judgement[: 1 + len(last)])
    return table


def _number(value: float | str | None, digits: int = 6) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value:.{digits}g}"
