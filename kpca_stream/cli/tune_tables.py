"""What tuning found, as a table."""

from __future__ import annotations

from rich import box
from rich.table import Table

from kpca_stream.tune_results import Trial, TuneSummary

MOST_ROWS = 20


def trials_table(summary: TuneSummary) -> Table:
    """The best trials, with those numbers that some of them have."""
    shown = summary.trials[:MOST_ROWS]
    numbers = [name for name in ("gamma", "degree", "coef0", "alpha") if any(getattr(t, name) for t in shown)]
    judged = "error" if summary.less_is_better else summary.criterion
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("kernel", *numbers, "components", judged, "spread"):
        table.add_column(name, justify="left" if name == "kernel" else "right", no_wrap=True)
    for trial in shown:
        values = [_number(getattr(trial, name)) for name in numbers]
        judgement = (
            [_number(trial.score), _number(trial.spread)] if not trial.problem else [trial.problem, ""]
        )
        table.add_row(trial.kernel, *values, str(trial.n_components), *judgement)
    return table


def next_command(trial: Trial) -> str:
    """How to fit with these numbers."""
    numbers = {f"kernel.{name}": getattr(trial, name) for name in ("gamma", "degree", "coef0")}
    changes = {"kernel.name": trial.kernel, **numbers, "solver.n_components": trial.n_components}
    told = (f"--set {key}={_number(value)}" for key, value in changes.items() if value is not None)
    return f"kpca-stream run CONFIG {' '.join(told)}"


def _number(value: float | str | None) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value:.6g}"
