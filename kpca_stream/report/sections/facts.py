"""Where the numbers come from, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kpca_stream.report.page import Part, Table
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, number, share
from kpca_stream.telemetry import duration, size

MOST_COLUMNS = 12

Row = tuple[str, str]


def facts(subject: Subject) -> Part:
    """Where the numbers come from, and what they cost."""
    tables = [
        Table("Data", (), [*_data(subject)]),
        Table("Kernel and solver", (), [*_solver(subject)]),
        *_cost(subject),
        Table("Where everything lies", (), [*_places(subject)]),
        _packages(subject),
    ]
    lead = "The data, the kernel, what was planned and what it took, and the versions of packages."
    return Part("facts", "Facts of the run", lead, tables=tuple(tables))


def _data(subject: Subject) -> Iterator[Row]:
    summary, basis = subject.summary, subject.basis
    names = ", ".join(basis.columns[:MOST_COLUMNS])
    if len(basis.columns) > MOST_COLUMNS:
        names += f", and {len(basis.columns) - MOST_COLUMNS:,} more"
    if "source" in summary:
        yield "source", summary["source"]
    distinct = f", {summary['n_distinct']:,} of them distinct" if summary.get("n_distinct") else ""
    yield "rows", count(summary.get("n_samples", basis.total_weight)) + distinct
    if summary.get("n_dropped"):
        yield "dropped", count(summary["n_dropped"], "row with missing values", "rows with missing values")
    yield "columns", f"{len(basis.columns):,}: {names}"
    if basis.facts.get("fingerprint"):
        yield "fingerprint", basis.facts["fingerprint"]


def _solver(subject: Subject) -> Iterator[Row]:
    basis, known = subject.basis, subject.basis.facts
    numbers = [
        f"{name} {getattr(basis.kernel, name):.6g}"
        for name in ("gamma", "degree", "coef0")
        if hasattr(basis.kernel, name)
    ]
    yield "kernel", ", ".join([subject.summary.get("kernel", basis.kernel.name), *numbers])
    yield "solver", f"{known.get('method', '–')}, {known.get('precision', basis.precision)}"
    if subject.summary.get("method_reason"):
        yield "reason", subject.summary["method_reason"]
    if "n_landmarks" in known:
        yield "landmarks", f"{known['n_landmarks']:,} by {known['landmark_method']}, rank {known['rank']:,}"
        yield "residual trace", f"{share(known['residual_trace_share'])} of all"
    if known.get("residual_norms"):
        yield "largest residual", f"{max(known['residual_norms']):.2g} of the first eigenvalue"
    yield "trace", f"{number(basis.trace, 7)}{' at most' if subject.is_approximate else ''}"
    yield "novelty", f"beyond {100 * basis.thresholds.quantile:.6g} % of rows like the training rows"


def _cost(subject: Subject) -> Iterator[Table]:
    """What the plan foresaw, where it was kept, and what it came to."""
    summary, plan = subject.summary, subject.manifest.get("plan")
    if not summary:
        return
    measured = {
        "time": duration(summary["seconds"]),
        "peak memory": size(summary["peak_memory"]),
        "passes": count(summary["n_passes"]),
    }
    if plan is None:
        yield Table("What it took", (), [*measured.items()])
        return
    planned = {
        "time": f"about {duration(plan['seconds'])}",
        "peak memory": f"at most {size(plan['memory_total'])}",
        "passes": count(plan["passes"]),
    }
    rows = [(name, planned[name], value) for name, value in measured.items()]
    rows += [("kernel evaluations", count(plan["evaluations"]), "–"), ("disk", size(plan["disk_total"]), "–")]
    yield Table("Planned and measured", ("", "planned", "measured"), rows)


def _places(subject: Subject) -> Iterator[Row]:
    for name, key in (("model", "model"), ("basis", "basis"), ("run's store", "store")):
        if key in subject.summary:
            yield name, str(subject.summary[key])
    if subject.scores is not None:
        yield "scores", subject.scores


def _packages(subject: Subject) -> Table:
    then: Mapping[str, Any] = subject.manifest.get("packages") or subject.basis.facts.get("versions", {})
    names = dict.fromkeys([*then, *subject.packages])
    rows = [(name, str(then.get(name, "–")), subject.packages.get(name, "–")) for name in names]
    return Table("Versions of packages", ("", "at the fit", "now"), rows)
