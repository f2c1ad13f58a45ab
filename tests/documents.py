"""The fenced blocks of a page, and what the page says of how they are run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUNNABLE = ("sh", "bash", "console", "python", "pycon")
FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (?P<kind>command|not run): (?P<text>[^\n]+) -->\n\Z")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of a page.

    ``name`` is that of ``<!-- command: NAME -->`` above it, ``reason`` that of ``<!-- not run: REASON -->``.
    """

    page: Path
    line: int
    language: str
    text: str
    name: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, found) for found in FENCE.finditer(text)]


def _block(page: Path, text: str, found: re.Match[str]) -> Block:
    mark = MARK.search(text[: found.start()])
    marked = {} if mark is None else {"name" if mark["kind"] == "command" else "reason": mark["text"]}
    line = text.count("\n", 0, found.start()) + 1
    return Block(page=page, line=line, language=found["language"], text=found["text"], **marked)


def dialogue(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, and what is printed after each."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]
