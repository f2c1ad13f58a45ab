"""The report of a model: all its sections on one page."""

from __future__ import annotations

from pathlib import Path

from kpca_stream.report.page import Page, html
from kpca_stream.report.sections import key_figures, sections
from kpca_stream.report.subject import Subject
from kpca_stream.storage.whole import written_whole


def page_of(subject: Subject) -> Page:
    """The page about `subject`."""
    return Page(
        title=subject.name,
        subtitle=f"Kernel PCA, version {subject.version}, reported {subject.made}",
        figures=tuple(key_figures(subject)),
        warnings=tuple(subject.summary.get("warnings", ())),
        parts=tuple(sections(subject)),
        footer=f"Made by kpca_stream on {subject.made}. One file, without scripts; it loads nothing.",
    )


def write_page(page: Page, path: Path) -> int:
    """Write a page whole or not at all; returns its bytes."""
    content = html(page).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.write(content)
    return len(content)
