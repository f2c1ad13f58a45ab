"""A page as values, and its HTML: one file, no scripts, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kpca_stream.report.pictures import Picture


@dataclass(frozen=True)
class Figure:
    """One number that matters, with a few words."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Table:
    """Cells as texts; the first column names its row.

    Parameters
    ----------
    caption : str
    header : tuple of str
        Empty for a table of names and values.
    rows : sequence of sequences of str
    """

    caption: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A section of the page.

    Parameters
    ----------
    anchor, title : str
        Where links lead to, and the heading.
    lead : str
        What the section says, in a sentence or two.
    pictures : tuple of Picture
    tables : tuple of Table
    """

    anchor: str
    title: str
    lead: str
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Page:
    """All that a page tells."""

    title: str
    subtitle: str
    figures: tuple[Figure, ...]
    warnings: tuple[str, ...]
    parts: tuple[Part, ...]
    footer: str


def html(page: Page) -> str:
    """The page as one HTML document; every text in it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("kpca_stream.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").render(page=page)
