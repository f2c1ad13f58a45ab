"""The numbers that somebody looks for first."""

from __future__ import annotations

from collections.abc import Iterator

from kpca_stream.report.page import Figure
from kpca_stream.report.spectrum import brackets
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, number, share
from kpca_stream.telemetry import duration, size


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
        beyond = sum(group.is_beyond_chance for group in found.groups)
        yield Figure(
            "Drift",
            f"{beyond} of {len(found.groups)}",
            "parts differ from the training rows by more than chance",
        )
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
