"""The sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from kpca_stream.report.page import Part
from kpca_stream.report.sections.components import components
from kpca_stream.report.sections.drift import drift
from kpca_stream.report.sections.facts import facts
from kpca_stream.report.sections.figures import key_figures
from kpca_stream.report.sections.kernel import kernel
from kpca_stream.report.sections.maps import maps
from kpca_stream.report.sections.novelty import novelty
from kpca_stream.report.sections.versions import versions
from kpca_stream.report.subject import Subject

__all__ = ["key_figures", "sections"]


def sections(subject: Subject) -> Iterator[Part]:
    """Those that this model has something to show for."""
    yield components(subject)
    if subject.collected.maps:
        yield maps(subject)
    yield novelty(subject)
    if subject.basis.rows is not None:
        yield kernel(subject)
    if subject.collected.groups:
        yield drift(subject)
    yield versions(subject)
    yield facts(subject)
