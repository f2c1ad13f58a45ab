"""How far a command got: a progress bar on a terminal, sparse log lines anywhere else, or nothing."""

from __future__ import annotations

import json
import math
import resource
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

LOG_SHARE = 0.1
LOG_SECONDS = 10.0
LOG_SILENCE = 60.0

Advance = Callable[[int, int], None]


class Reporter(Protocol):
    """Gets told what the pipeline does."""

    def step(self, stage: str) -> Advance:
        """Begin `stage`; the returned function takes the tasks done and their total."""

    def note(self, text: str) -> None:
        """Tell one thing that matters, a line long."""

    def warn(self, text: str) -> None:
        """Tell one thing that may be wrong."""


class _Silent:
    def step(self, stage: str) -> Advance:  # noqa: ARG002  the protocol's signature
        return _ignore

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Say nothing."""


def _ignore(done: int, total: int) -> None:
    """Say nothing."""


def silent() -> Reporter:
    """Tell nothing to nobody: what a library call uses."""
    return _Silent()


@contextmanager
def reporter(
    stream: TextIO, *, quiet: bool = False, width: int | None = None, run: str | None = None
) -> Iterator[Reporter]:
    """A reporter for a command that writes to `stream`; closed (its bar removed) at the end.

    Parameters
    ----------
    stream : text file
        Standard error. A terminal gets a progress bar with the expected time left, anything else
        log lines: of every stage the first and the last, between them one for a tenth of the work,
        but no two within ten seconds and no silence beyond a minute.
    quiet : bool
        Tell nothing.
    width : int, optional
        Columns of the terminal, else found out.
    run : str, optional
        Write JSON lines of this name instead.
    """
    if run is not None:
        yield JsonLines(stream, run, quiet)
    elif quiet:
        yield silent()
    elif stream.isatty():
        with _progress(Console(file=stream, width=width)) as progress:
            yield _Bars(progress)
    else:
        yield Lines(stream)


@dataclass
class Lines:
    """Log lines on a stream that is no terminal."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic

    def step(self, stage: str) -> Advance:
        """Begin `stage`."""
        return _Line(self, stage, self.clock())

    def note(self, text: str) -> None:
        """Write `text` as a line."""
        print(text, file=self.stream, flush=True)

    def warn(self, text: str) -> None:
        """Write `text` as a warning."""
        self.note(f"warning: {text}")

    def advance(self, stage: str, done: int, total: int, elapsed: float) -> None:
        """Write how far a stage got."""
        text = f"{stage}: {done} of {total}, {duration(elapsed)}"
        if 0 < done < total:
            text += f", {duration(elapsed / done * (total - done))} left"
        self.note(text)


def new_run() -> str:
    """A name for one call of a command, by which its log lines are found."""
    return uuid.uuid4().hex[:12]


@dataclass
class JsonLines:
    """The same for machines: one JSON object a line, with the time, the run and what happened.

    Parameters
    ----------
    stream : text file
    run : str
        Its name, in every line.
    quiet : bool
        Tell warnings and errors only.
    """

    stream: TextIO
    run: str
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic

    def step(self, stage: str) -> Advance:
        """Begin `stage`."""
        return _ignore if self.quiet else _Line(self, stage, self.clock())

    def note(self, text: str) -> None:
        """Write one thing that matters."""
        if not self.quiet:
            self.tell("note", text=text)

    def warn(self, text: str) -> None:
        """Write one thing that may be wrong."""
        self.tell("warning", text=text)

    def advance(self, stage: str, done: int, total: int, elapsed: float) -> None:
        """Write how far a stage got: tasks done a second, and the seconds left where that can be told."""
        rate = done / elapsed if elapsed > 0 else None
        left = (total - done) / rate if rate else None
        self.tell(
            "progress", stage=stage, done=done, total=total, seconds=elapsed, rate=rate, seconds_left=left
        )

    def tell(self, event: str, **facts: Any) -> None:
        """Write any event."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(
            json.dumps({"time": now, "run": self.run, "event": event, **facts}), file=self.stream, flush=True
        )


@dataclass
class _Line:
    lines: Lines | JsonLines
    stage: str
    began: float
    last: float = -math.inf
    share: float = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = self.lines.clock()
        share = done / total if total else 1.0
        silence = now - self.last
        due = silence >= LOG_SILENCE or (silence >= LOG_SECONDS and share - self.share >= LOG_SHARE)
        if due or done >= total:
            self.lines.advance(self.stage, done, total, now - self.began)
            self.last, self.share = now, share


def _progress(console: Console) -> Progress:
    return Progress(
        _Stage(table_column=Column()),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        TextColumn("{task.completed:.0f}/{task.total:.0f}", table_column=Column(no_wrap=True)),
        _TimeLeft(table_column=Column(no_wrap=True, width=9)),
        console=console,
        expand=True,
        transient=True,
    )


class _Stage(ProgressColumn):
    """The stage's name: the column that gives way, on one line, where the terminal is narrow."""

    def render(self, task: Task) -> Text:
        """The name, cut where it must be."""
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class _TimeLeft(ProgressColumn):
    """The expected time left, or the time taken."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """A duration of at most nine characters."""
        if task.finished or task.time_remaining is None:
            return Text(duration(task.elapsed or 0.0))
        return Text(f"{duration(task.time_remaining)} left")


@dataclass
class _Bars:
    progress: Progress
    task: TaskID | None = None

    def step(self, stage: str) -> Advance:
        # One bar at a time: stages follow each other, and a column of dead bars tells nothing.
        if self.task is not None:
            self.progress.remove_task(self.task)
        task = self.task = self.progress.add_task(stage, total=1)

        def advance(done: int, total: int) -> None:
            self.progress.update(task, completed=done, total=total)

        return advance

    def warn(self, text: str) -> None:
        self.note(f"warning: {text}")

    def note(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """`seconds` in at most four characters where below 100 hours: ``0.4s``, ``12s``, ``3m``, ``2.5h``."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 99.5:
        return f"{seconds:.0f}s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f}m"
    hours = seconds / 3600
    return f"{hours:.1f}h" if hours < 9.95 else f"{hours:.0f}h"


def size(n_bytes: int) -> str:
    """`n_bytes` in three digits or so: ``0 B``, ``640 KiB``, ``17.7 GiB``."""
    amount = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1023.5:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:,.3g} PiB"


def peak_memory() -> int:
    """Bytes of memory that this process held at its peak.

    Linux's own figure where there is one: that of `resource` outlives an exec, and so may be the parent's.
    """
    try:
        with Path("/proc/self/status").open(encoding="ascii") as file:
            sizes = [line.split()[1] for line in file if line.startswith("VmHWM:")]
    except OSError:
        sizes = []
    return 1024 * (int(sizes[0]) if sizes else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
