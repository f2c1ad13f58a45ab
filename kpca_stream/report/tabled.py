"""The sections of tables, versions and facts, and the numbers at the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kpca_stream.report.page import Figure, Part, Table
from kpca_stream.report.spectrum import brackets
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, date, number, share
from kpca_stream.telemetry import duration, size

MOST_VERSIONS = 30
MOST_COLUMNS = 12
SHOWN_EIGENVALUES = 3

Row = tuple[str, str]


def key_figures(subject: Subject) -> Iterator[Figure]:
    """What somebody looks for first."""
    basis, summary, found = subject.basis, subject.summary, subject.collected
    yield Figure("Rows fitted", count(basis.total_weight), f"{len(basis.columns):,} columns")
    at_least = "at least " if subject.is_approximate else ""
    explained = f"{at_least}{share(float(basis.explained_variance_ratio.sum()))} of the variance"
    yield Figure("Components", f"{basis.n_components}", explained)
    yield _certainty(subject)
    if found.n_rows:
        n_rows, n_novel = found.counts(subject.version)
        expected = share(1 - basis.thresholds.quantile)
        yield Figure("Novel rows", share(n_novel / n_rows), f"{n_novel:,} of {n_rows:,}; {expected} expected")
    if found.groups:
        beyond = sum(any(d.statistic > d.by_chance for d in g.distances.values()) for g in found.groups)
        yield Figure("Drift", f"{beyond} of {len(found.groups)}", "parts differ from the training rows by more than chance")
    if "seconds" in summary:
        yield Figure("Fit", duration(summary["seconds"]), f"{size(summary['peak_memory'])} at its peak")


def _certainty(subject: Subject) -> Figure:
    facts = subject.basis.facts
    if not subject.is_approximate:
        residual = max(facts.get("residual_norms") or [float("nan")])
        return Figure("Largest residual", number(residual, 2), "of the first eigenvalue")
    certified = [each.certificate for each in brackets(subject.basis) if each.certificate.certified]
    bound = certified[-1].bound / float(subject.basis.eigenvalues[0])
    return Figure("First eigenvalue", f"+{share(bound)}", f"at most, certified by {certified[-1].kind}")


def versions(subject: Subject) -> Part:
    """All versions of the model, side by side."""
    numbers = sorted(subject.manifests, reverse=True)
    rows = [_version_row(subject, version) for version in numbers[:MOST_VERSIONS]]
    names = tuple(f"eigenvalue {j}" for j in range(1, SHOWN_EIGENVALUES + 1))
    header = ("version", "published", "rows", *names, "explained", "solver", "fit took", "novel")
    cut = f" The newest {MOST_VERSIONS} are shown." if len(numbers) > MOST_VERSIONS else ""
    lead = (
        f"{count(len(numbers), 'version', 'versions')} of {subject.name}; this report is of version "
        f"{subject.version}. Novel is the share of the rows that a version scored.{cut}"
    )
    return Part("versions", "Versions", lead, tables=(Table("Versions, the newest first", header, rows),))


def _version_row(subject: Subject, version: int) -> tuple[str, ...]:
    manifest = subject.manifests[version]
    summary = manifest.get("summary", {})
    values = [*summary.get("eigenvalues", ())][:SHOWN_EIGENVALUES]
    n_rows, n_novel = subject.collected.counts(version)
    explained = summary.get("explained_variance_ratio")
    return (
        f"{version} (this one)" if version == subject.version else f"{version}",
        date(manifest.get("created")),
        count(summary["n_samples"]) if "n_samples" in summary else "–",
        *(number(value, 5) for value in values),
        *["–"] * (SHOWN_EIGENVALUES - len(values)),
        share(sum(explained)) if explained is not None else "–",
        str(summary.get("method", "–")),
        duration(summary["seconds"]) if "seconds" in summary else "–",
        share(n_novel / n_rows) if n_rows else "–",
    )


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
