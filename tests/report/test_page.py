"""The report: what is on the page, and that it is one file that loads nothing."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import pytest

from kpca_stream import load_basis
from kpca_stream.cli import main
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.report.collect import pairs_of
from kpca_stream.results import json_schema
from kpca_stream.storage.registry import Registry
from tests.disturb import write_yaml
from tests.report.pages import EVIL, NYSTROM, Document, job, parsed, report_of, rows, write_csv

LIMIT = 2_000_000
SECTIONS = ["Components", "Maps", "Novelty", "Kernel", "Drift over time", "Versions", "Facts of the run"]


@pytest.fixture(scope="module", params=["exact", "nystrom"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp(request.param)
    return report_of(job(folder, NYSTROM if request.param == "nystrom" else None))[1]


@pytest.fixture
def document(page: str) -> Document:
    return parsed(page)


def test_the_page_has_its_sections(document: Document) -> None:
    """One first heading, the sections in their order below it, and no level left out."""
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later <= level + 1 for level, later in pairwise(levels))
    assert document.inside("h1") == ["rows"]
    assert document.inside("h2") == SECTIONS
    assert document.elements[0] == ("html", {"lang": "en"})


def test_links_lead_to_sections(document: Document) -> None:
    """Every link leads to a place on the page."""
    names = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(names) == len(set(names))
    assert {link["href"] for link in document.all("a")} <= {f"#{name}" for name in names}
    labels = [each["aria-labelledby"] for each in document.all("section")]
    assert set(labels) <= set(names)


def test_pictures_have_texts(document: Document) -> None:
    """Every picture has a sentence in its place, a size, and a twin for dark pages."""
    images = document.all("img")
    assert len(images) == len(document.all("source")) == len(document.all("picture")) >= 9
    for image in images:
        assert len(image["alt"]) > 40
        assert image["alt"].endswith(".")
        assert int(image["width"]) > 100 < int(image["height"])
    assert len({image["alt"] for image in images}) == len(images)
    assert {source["media"] for source in document.all("source")} == {"(prefers-color-scheme: dark)"}


def test_the_page_loads_nothing(page: str, document: Document) -> None:
    """No scripts, no addresses elsewhere, and a policy that forbids both; under 2 MB."""
    assert len(page.encode()) < LIMIT
    assert not document.all("script", "link", "iframe", "object", "base")
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page
    loaded = [each["src"] for each in document.all("img")] + [
        each["srcset"] for each in document.all("source")
    ]
    assert all(address.startswith("data:image/svg+xml;base64,") for address in loaded)
    policies = [each["content"] for each in document.all("meta") if "http-equiv" in each]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_pictures_are_whole_and_load_nothing(document: Document) -> None:
    """Every picture is SVG that can be read, with text as text, and refers to nothing outside itself."""
    for image in document.all("img"):
        svg = base64.b64decode(image["src"].partition(",")[2]).decode()
        root = ET.fromstring(svg)  # noqa: S314  made by this package
        assert root.tag.endswith("svg")
        assert any(each.tag.endswith("text") for each in root.iter())
        references = [
            value for each in root.iter() for name, value in each.attrib.items() if name.endswith("href")
        ]
        assert all(value.startswith(("#", "data:image/png;base64,")) for value in references)


def test_names_are_escaped(page: str, document: Document) -> None:
    """A column named like a script is text on the page."""
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert any(EVIL in text for text in document.inside("td"))


def test_tables_have_headers_and_scroll(document: Document) -> None:
    """Every table has a caption and a header in each row, and lies in a box that scrolls by keyboard too."""
    tables = document.all("table")
    assert len(document.inside("caption")) == len(tables) >= 8
    boxes = [each for each in document.all("div") if each.get("class") == "scroll"]
    assert len(boxes) == len(tables)
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert {each["scope"] for each in document.all("th")} == {"row", "col"}


def test_the_facts_are_those_of_the_run(document: Document) -> None:
    """Rows, kernel, fingerprint, plan, versions of packages and places are told."""
    cells = document.inside("td")
    assert "200" in cells
    assert "rbf, gamma 0.05" in cells
    assert any(re.fullmatch("[0-9a-f]{32}", cell) for cell in cells)
    assert any(cell.endswith("train.csv") for cell in cells)
    assert np.__version__ in cells
    assert {"planned", "measured", "at the fit", "now"} <= set(document.inside("th"))


def test_approximate_eigenvalues_have_brackets(tmp_path: Path) -> None:
    """Both bounds of a fit by landmarks are told, the certified ones as such."""
    document = parsed(report_of(job(tmp_path, NYSTROM))[1])
    assert {"at most (trace)", "at most (probabilistic)"} <= set(document.inside("th"))
    scree = document.all("img")[0]["alt"]
    assert "by the trace bound, at most" in scree
    assert any("They are approximate" in text for text in document.inside("p"))


def test_two_reports_are_alike(tmp_path: Path) -> None:
    """The same model and scores give the same page, but for when it was made."""
    config = job(tmp_path)
    first, again = report_of(config)[1], report_of(config, fit=False)[1]
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    assert re.sub(moment, "", first) == re.sub(moment, "", again)


def test_versions_are_compared(tmp_path: Path) -> None:
    """Each version has a line with what it found, and drift tells parts of both."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    arriving = {
        "score.input.path": str(inbox),
        "score.input.settle_seconds": 0,
        "score.on_new_version": "keep",
    }
    write_csv(inbox / "1.csv", rows(100, seed=4))
    report_of(job(tmp_path, arriving))
    write_csv(inbox / "2.csv", rows(60, seed=5))
    write_csv(tmp_path / "more.csv", rows(150, seed=3))
    changes = {"gram.path": str(tmp_path / "other.zarr"), "data.train.path": str(tmp_path / "more.csv")}
    told, page = report_of(job(tmp_path, {**arriving, **changes}))
    document = parsed(page)
    assert (told.version, told.n_parts, told.n_rows) == (2, 8, 60)
    assert {"2 (this one)", "1"} <= set(document.inside("th"))
    assert any("2 versions of rows" in text for text in document.inside("p"))
    assert {"150", "200"} <= set(document.inside("td"))


def test_scores_of_versions_that_are_gone_are_left_out(tmp_path: Path) -> None:
    """Parts whose version was taken away cannot be compared, and are told."""
    config = job(tmp_path)
    report_of(config)
    registry = Registry.of(tmp_path / "models", "rows")
    versions = tmp_path / "models/rows/versions"
    (versions / "1").rename(versions / "7")
    manifest = json.loads((versions / "7/manifest.json").read_text())
    (versions / "7/manifest.json").write_text(json.dumps({**manifest, "version": 7}))
    registry.point(7)
    told, page = report_of(config, fit=False)
    assert (told.n_rows, told.n_parts) == (0, 5)
    document = parsed(page)
    assert any("No rows were scored by this version yet" in text for text in document.inside("p"))
    assert "Drift over time" not in document.inside("h2")


def test_neighbouring_components_are_mapped() -> None:
    """One component has no map, two have one, three have two; at most six are shown."""
    assert [pairs_of(n) for n in (1, 2, 3, 4, 5)] == [[], [(1, 2)], [(1, 2), (1, 3)]] + 2 * [[(1, 2), (3, 4)]]
    assert pairs_of(6) == pairs_of(200) == [(1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_parts_that_are_no_random_samples_are_told(tmp_path: Path, shift: float) -> None:
    """Where parts in order of T² differ from the training rows, but not all together, the page says so."""
    config = job(tmp_path)
    report_of(config)
    X = rows(200)
    order = np.argsort(load_basis(tmp_path / "models/rows/versions/1/basis.zarr").score(X).hotelling_t2)
    write_csv(tmp_path / "sorted.csv", X[order] + shift)
    changes = {"score.input.path": str(tmp_path / "sorted.csv"), "score.output": str(tmp_path / "others")}
    document = parsed(report_of(job(tmp_path, changes))[1])
    (lead,) = [text for text in document.inside("p") if "differ from the training rows" in text]
    assert not lead.startswith("0 of 10")
    assert ("All rows of this version together do not" in lead) == (shift == 0)


def test_one_component_has_no_maps(tmp_path: Path) -> None:
    """All else is on the page."""
    document = parsed(report_of(job(tmp_path, {"solver.n_components": 1}))[1])
    assert document.inside("h2") == [each for each in SECTIONS if each != "Maps"]


def test_a_model_without_scores_has_a_report(tmp_path: Path) -> None:
    """Where nothing is scored the maps are of the training rows, and thresholds are told all the same."""
    told, page = report_of(job(tmp_path, {"score": None}))
    assert (told.n_rows, told.n_parts) == (0, 0)
    document = parsed(page)
    assert document.inside("h2") == [each for each in SECTIONS if each != "Drift over time"]
    assert any(text.startswith("Where the training rows lie") for text in document.inside("p"))


def test_a_precomputed_kernel_has_no_kernel_map(tmp_path: Path) -> None:
    """Its basis holds no rows, and reconstruction errors are not known."""
    X = rows(80)
    np.save(tmp_path / "train.npy", X @ X.T)
    np.save(tmp_path / "new.npy", rows(30, seed=1) @ X.T)
    changes = {
        "kernel": {"name": "precomputed"},
        "data.train.path": str(tmp_path / "train.npy"),
        "score.input.path": str(tmp_path / "new.npy"),
    }
    document = parsed(report_of(job(tmp_path, changes))[1])
    assert "Kernel" not in document.inside("h2")
    assert {"Maps", "Novelty", "Drift over time"} <= set(document.inside("h2"))


def test_weighted_rows_are_all_on_the_map(tmp_path: Path) -> None:
    """Rows that were merged count as often as they occurred."""
    write_csv(tmp_path / "copies.csv", np.repeat(rows(60), 4, axis=0))
    changes = {"data.train.path": str(tmp_path / "copies.csv"), "score": None}
    document = parsed(report_of(job(tmp_path, changes))[1])
    maps = [image["alt"] for image in document.all("img") if image["alt"].startswith("Map of")]
    assert all("240 rows in" in text for text in maps)


def test_many_parts_share_points(tmp_path: Path) -> None:
    """The curve of drift has at most a hundred points, however many parts there are."""
    write_csv(tmp_path / "many.csv", rows(130, seed=2))
    config = job(tmp_path, {"score.input.part_rows": 1, "score.input.path": str(tmp_path / "many.csv")})
    document = parsed(report_of(config)[1])
    assert any("of 65 groups of parts" in text for text in document.inside("p"))
    assert "Furthest from the training rows" in document.inside("caption")


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    """A part that was cut is told by name, with what to do."""
    config = job(tmp_path)
    report_of(config)
    part = min((tmp_path / "scores").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-40])
    with pytest.raises(DataError, match=f"{part.name} is damaged .*; remove it and score again"):
        report_of(config, fit=False)


def test_the_extra_is_named_where_it_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Matplotlib a run that reports is refused before it fits anything."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs matplotlib, .* pip install 'kpca-stream\[report\]'"):
        report_of(job(tmp_path))
    assert not (tmp_path / "models").exists()


def test_the_command_tells_where_the_page_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kpca-stream report` prints tables, or JSON that meets its schema; the page lies at report.html."""
    report_of(job(tmp_path))
    monkeypatch.chdir(tmp_path)
    sections: dict[str, Any] = {
        "name": "rows",
        "data": {"train": {"path": "train.csv"}},
        "score": {"input": {"path": "new.csv"}, "output": "scores"},
    }
    write_yaml(tmp_path / "c.yaml", sections)
    capsys.readouterr()
    assert main(["report", "c.yaml", "--json", "--quiet"]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json_schema())
    assert printed["result"]["path"] == "report.html"
    assert printed["result"]["n_bytes"] == (tmp_path / "report.html").stat().st_size
    assert main(["report", "c.yaml", "--quiet", "--set", "report.path=pages/monday.html"]) == 0
    assert "pages/monday.html" in capsys.readouterr().out
    assert (tmp_path / "pages/monday.html").exists()


def test_without_a_model_there_is_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says that a fit comes first."""
    monkeypatch.chdir(tmp_path)
    write_yaml(tmp_path / "c.yaml", {"name": "rows", "data": {"train": {"path": "train.csv"}}})
    assert main(["report", "c.yaml", "--quiet"]) == 2
    assert "fit a model first: kpca-stream fit CONFIG" in capsys.readouterr().err


def test_a_damaged_manifest_of_another_version_is_no_obstacle(tmp_path: Path) -> None:
    """Its line tells nothing; that of the reported version must be whole."""
    config = job(tmp_path)
    report_of(config)
    versions = tmp_path / "models/rows/versions"
    shutil.copytree(versions / "1", versions / "2")
    (versions / "2/manifest.json").write_text("{")
    document = parsed(report_of(config, fit=False)[1])
    assert {"1 (this one)", "2"} <= set(document.inside("th"))


def test_scores_in_zarr_are_read(tmp_path: Path) -> None:
    """A report of scores in Zarr counts the same rows, and as many novel ones, as one of Parquet parts."""
    of_parts = parsed(report_of(job(tmp_path))[1])
    other = {"score.format": "zarr", "score.output": str(tmp_path / "arrays")}
    told, page = report_of(job(tmp_path, other))
    document = parsed(page)
    assert (told.n_rows, told.n_parts) == (90, 1)
    assert document.inside("h2") == SECTIONS
    lead = [text for text in document.inside("p") if "scored rows are novel" in text]
    assert lead == [text for text in of_parts.inside("p") if "scored rows are novel" in text]
    maps = [
        [each["alt"] for each in page.all("img") if "Map of" in each["alt"]] for page in (document, of_parts)
    ]
    assert maps[0] == maps[1]


def test_a_page_is_never_written_over_what_is_read(tmp_path: Path) -> None:
    """A report whose path is that of the data is refused."""
    with pytest.raises(ValueError, match=r"at or inside data\.train\.path"):
        job(tmp_path, {"report": {"path": str(tmp_path / "train.csv")}})
