"""Models, scores and reports, as several tests make them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.config import Config
from kpca_stream.pipeline import report_config, run_config
from kpca_stream.results import ReportSummary
from kpca_stream.telemetry import silent
from tests.jobs import configured

Array = NDArray[Any]

EVIL = '<script>alert("x")</script>'
NYSTROM = {
    "solver": {"method": "nystrom", "n_components": 4},
    "nystrom": {"landmarks": 40, "bound": "probabilistic"},
}


def rows(n_samples: int, seed: int = 0, shift: float = 0.0) -> Array:
    """Three groups of rows."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((3, 4))
    spread = 0.4 * rng.standard_normal((n_samples, 4))
    return np.asarray(2 * centres[rng.integers(0, 3, n_samples)] + spread + shift)


def write_csv(path: Path, X: Array) -> None:
    """A table whose first column has a name that would be a script, were it not escaped."""
    np.savetxt(path, X, delimiter=",", header='"<script>alert(""x"")</script>",b,c,d', comments="")


def job(folder: Path, changes: dict[str, Any] | None = None) -> Config:
    """200 rows to train on and 90 to score in parts of 20, of CSV files."""
    write_csv(folder / "train.csv", rows(200))
    write_csv(folder / "new.csv", rows(90, seed=1))
    files = {
        "data.train.path": str(folder / "train.csv"),
        "score.input.path": str(folder / "new.csv"),
    }
    asked = {"report": {"path": str(folder / "report.html")}, **(changes or {})}
    if asked["report"] is None:
        del asked["report"]
    return configured(folder, {**files, **asked})


def report_of(config: Config, *, fit: bool = True) -> tuple[ReportSummary, str]:
    """What a run, or the report alone, tells and writes."""
    told = run_config(config, silent()).report if fit else report_config(config, silent())
    assert told is not None
    return told, Path(told.path).read_text(encoding="utf-8")


@dataclass
class Document(HTMLParser):
    """A page in pieces."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    """Each with the innermost element that it is in."""
    within: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in {"meta", "img", "source"}:
            self.within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.within.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.within[-1], data.strip()))

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    def inside(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if tag in tags]


def parsed(html: str) -> Document:
    document = Document()
    document.feed(html)
    assert document.within == []
    return document
