"""Progress: a bar on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from kpca_stream.telemetry import Lines, duration, reporter, silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain(text: str) -> str:
    """What remains of `text` without the terminal's control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def logged(n_tasks: int, seconds_per_task: float) -> list[str]:
    """The lines of a stage of `n_tasks` that take `seconds_per_task` each."""
    stream, clock = io.StringIO(), Clock()
    advance = Lines(stream, clock).step("tiles")
    for done in range(1, n_tasks + 1):
        clock.now += seconds_per_task
        advance(done, n_tasks)
    return stream.getvalue().splitlines()


def test_a_fast_stage_logs_its_first_and_its_last_task() -> None:
    """However many tasks a stage has, two lines do when it is done within ten seconds."""
    assert logged(1000, 0.001) == ["tiles: 1 of 1000, 0.0s, 1.0s left", "tiles: 1000 of 1000, 1.0s"]


def test_a_stage_of_one_task_logs_once() -> None:
    """The first line and the last are one where there is one task."""
    assert logged(1, 2.0) == ["tiles: 1 of 1, 2.0s"]


@pytest.mark.parametrize(("seconds_per_task", "most"), [(0.1, 12), (1.0, 18), (60.0, 1000)])
def test_a_long_stage_logs_sparsely(seconds_per_task: float, most: int) -> None:
    """A line comes at most every ten seconds and at least every minute."""
    lines = logged(1000, seconds_per_task)
    assert 1000 * seconds_per_task / 60 <= len(lines) <= most
    assert len(lines) <= 2 + 1000 * seconds_per_task / 10


def test_the_time_left_is_told() -> None:
    """A quarter done in a minute leaves three."""
    assert logged(4, 60.0)[0] == "tiles: 1 of 4, 60s, 3m left"


def test_an_empty_stage_is_done() -> None:
    """A stage without tasks divides by nothing."""
    stream = io.StringIO()
    Lines(stream, Clock()).step("tiles")(0, 0)
    assert stream.getvalue() == "tiles: 0 of 0, 0.0s\n"


@pytest.mark.parametrize("width", [30, 40, 60, 100])
def test_a_bar_fits_its_terminal(width: int) -> None:
    """No line of the bar is wider than the terminal, and the stage's name can be seen."""
    stream = Terminal()
    with reporter(stream, width=width) as told:
        told.step("tiles")(3, 12345)
        told.step("a stage with rather a long name")(7, 12345)
    lines = re.split(r"[\r\n]", plain(stream.getvalue()))
    assert max(len(line) for line in lines) <= width
    assert any(line.startswith("a s") and "7/12345" in line for line in lines)


def test_a_note_stays_above_the_bar() -> None:
    """A note is written whole, with brackets and all, and the bar is gone at the end."""
    stream = Terminal()
    with reporter(stream, width=60) as told:
        told.step("tiles")(1, 2)
        told.note("warning: [red] 1 row")
    assert "warning: [red] 1 row\n" in plain(stream.getvalue())


def test_no_terminal_gets_lines() -> None:
    """A stream that is no terminal gets no control sequences."""
    stream = io.StringIO()
    with reporter(stream) as told:
        told.step("tiles")(2, 2)
        told.note("done")
    assert stream.getvalue().splitlines() == ["tiles: 2 of 2, 0.0s", "done"]


def test_quiet_says_nothing() -> None:
    """A quiet reporter writes nothing anywhere, nor does a silent one."""
    stream = Terminal()
    with reporter(stream, quiet=True) as told:
        told.step("tiles")(1, 2)
        told.note("x")
    silent().step("tiles")(1, 1)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (99.6, "2m"),
        (5969, "99m"),
        (5971, "1.7h"),
        (356400, "99h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    """A duration has two digits and a unit."""
    assert duration(seconds) == text
