"""All versions of the model, side by side."""

from __future__ import annotations

from kpca_stream.report.page import Part, Table
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, date, number, share
from kpca_stream.telemetry import duration

MOST_VERSIONS = 30
SHOWN_EIGENVALUES = 3


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
