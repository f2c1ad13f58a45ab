"""What all results are printed in: titles, names with values below them, tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Fact = tuple[str, str]


def section(console: Console, title: str, facts: Sequence[Fact]) -> None:
    """Names and what is to be said of each, below a title."""
    heading(console, title)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=14)
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(*fact)
    indented(console, table)


def titled(console: Console, title: str, table: Table) -> None:
    """A table below a title."""
    heading(console, title)
    indented(console, table)


def indented(console: Console, table: Table) -> None:
    """A table as far from the edge as all that lies below a title."""
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def heading(console: Console, title: str) -> None:
    """A title, a line apart from what was before."""
    console.print(Text(f"\n{title}", style="bold", overflow="fold"))


def next_command(console: Console, *words: str) -> None:
    """What to call next, as a shell takes it."""
    heading(console, "Next")
    # Not wrapped: it is there to be copied.
    console.print(f"  {shlex.join(words)}", soft_wrap=True)


def count(number: int, one: str, many: str) -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else many}"
