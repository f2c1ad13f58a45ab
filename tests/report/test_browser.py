"""The report in a browser: on a phone, a tablet and a desktop, on a light and on a dark page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.report import DARK, LIGHT
from tests.report.pages import NYSTROM, job, report_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
METHODS: dict[str, dict[str, Any] | None] = {
    "exact": None,
    "nystrom": NYSTROM,
    "by-trace": {**NYSTROM, "nystrom": {"landmarks": 40}},
}
WIDTHS = (360, 390, 768, 1280)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the PATH, to look at pages"),
]

LOOK = """
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, view = frame.contentWindow, width = page.documentElement.clientWidth;
    const inScroller = (each) => each.closest(".scroll") !== null;
    const out = [...page.querySelectorAll("body *")].filter(
      (each) => !inScroller(each) && each.getBoundingClientRect().right > width + 0.5);
    return {
      width, scrolls: page.documentElement.scrollWidth, out: out.map((each) => each.tagName),
      images: [...page.images].map((each) => [each.naturalWidth, each.getBoundingClientRect().width]),
      dark: [...page.images].filter((each) => each.currentSrc !== each.src).length,
      background: view.getComputedStyle(page.body).backgroundColor,
      ink: view.getComputedStyle(page.body).color,
      clipped: [...page.querySelectorAll(".card:not(.wide) > .scroll")].filter(
        (each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel),
      headings: [...page.querySelectorAll("h2")].filter((each) => each.clientHeight > 0).length,
      columns: view.getComputedStyle(page.querySelector(".grid")).gridTemplateColumns.split(" ").length,
    };
  });
  document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
});
"""


def chromium(address: str, folder: Path, *arguments: str, dark: bool) -> subprocess.CompletedProcess[str]:
    """Chromium's call for one page; ``dark``: for a reader who prefers dark pages, by its own number."""
    known = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    known += ["--blink-settings=preferredColorScheme=0"] if dark else []
    return subprocess.run(
        [str(CHROMIUM), *known, f"--user-data-dir={folder / 'profile'}", *arguments, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def looked_at(page: str, folder: Path, *, dark: bool) -> tuple[list[dict[str, Any]], str]:
    """What Chromium measures of the page at each width, and what it logs."""
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border: 0" srcdoc="{html.escape(page)}"></iframe>'
        for width in WIDTHS
    )
    (folder / "frames.html").write_text(
        f"<!DOCTYPE html><meta charset=utf-8><body>{frames}<script>{LOOK}</script>", encoding="utf-8"
    )
    address = (folder / "frames.html").as_uri()
    done = chromium(address, folder, "--dump-dom", "--window-size=1400,1000", dark=dark)
    found = re.search("FOUND(.*)END", done.stdout)
    assert found, done.stderr
    return json.loads(html.unescape(found[1])), done.stderr


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("method", METHODS)
def test_the_page_fits_every_screen(tmp_path: Path, method: str, dark: bool) -> None:  # noqa: FBT001  pytest's call
    """Nothing is wider than the screen, each picture shows, dark ones on dark pages; nothing is logged."""
    page = report_of(job(tmp_path, METHODS[method]))[1]
    frames, log = looked_at(page, tmp_path, dark=dark)
    assert "CONSOLE" not in log
    assert [frame["width"] for frame in frames] == list(WIDTHS)
    for frame in frames:
        assert frame["scrolls"] == frame["width"]
        assert frame["out"] == []
        assert frame["headings"] == 7
        assert frame["clipped"] == []
        assert len(frame["images"]) >= 9
        assert all(natural > 0 and shown > 250 for natural, shown in frame["images"])
        assert frame["dark"] == (len(frame["images"]) if dark else 0)
        assert (brightness(frame["background"]) < brightness(frame["ink"])) == dark
    assert [frame["columns"] for frame in frames] == [1, 1, 2, 3]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [500, 1280])
def test_a_screenshot_shows_the_pictures(tmp_path: Path, width: int, dark: bool) -> None:  # noqa: FBT001  pytest's call
    """On a picture of the page are the colours of lines, bars, thresholds and texts, on those of the page."""
    from matplotlib.image import imread

    report_of(job(tmp_path))
    shot, height = tmp_path / "page.png", 9000 if width < 600 else 4000
    options = (f"--screenshot={shot}", f"--window-size={width},{height}")
    chromium((tmp_path / "report.html").as_uri(), tmp_path, *options, dark=dark)
    pixels = np.round(255 * imread(shot)[:, :, :3]).astype(int)
    assert pixels.shape == (height, width, 3)
    palette = DARK if dark else LIGHT
    assert (pixels.mean() < 128) == dark
    for colour in (palette.first, palette.second, palette.ink, palette.surface):
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        assert (np.abs(pixels - wanted).max(axis=2) <= 3).sum() > 200, colour


def brightness(colour: str) -> int:
    return sum(int(value) for value in re.findall(r"\d+", colour)[:3])


def test_what_is_too_wide_would_be_found(tmp_path: Path) -> None:
    """A page with a box wider than the screen, and one with a mistake in a script, are told."""
    wide = '<body style="margin: 0"><h2>wide</h2><div class="grid" style="width: 2000px">x</div></body>'
    frames, log = looked_at(f"{wide}<script>throw Error('a mistake')</script>", tmp_path, dark=False)
    assert all(frame["scrolls"] > frame["width"] and frame["out"] == ["DIV"] for frame in frames)
    assert "CONSOLE" in log
    assert "a mistake" in log
