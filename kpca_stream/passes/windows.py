"""Which calls of a pass run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

from kpca_stream.passes.calls import is_lazy
from kpca_stream.passes.commit import Commit
from kpca_stream.passes.schedulers import is_clients, n_workers

WINDOW_SECONDS = 0.5
"""Graphs that take less are made larger: every one costs the caller a few milliseconds."""
WINDOW_BYTES = 32 * 2**20
"""Of results alive, beyond which graphs are not made larger."""
LANES_OF_CLIENTS = 4
"""Half as wide as two are, so that as many results are alive: where tasks take 0.5 to 2 s, workers that wait
for a graph to end cost 7 % with two of them and 0.5 % with four."""
MOST_ALIVE = 32
"""Tasks, unless twice the workers are more: graphs stay small."""


class Windows:
    """The ranges of calls that run together: two of as many as there are workers, or four of half as many.

    There are more of smaller ones where fewer may be alive; they grow while they are short and small, none
    beyond the time after which it shall be committed.
    """

    def __init__(self, commit: Commit | None, n_calls: int, at_once: int | None) -> None:
        self.next, self.n_calls = commit.first if commit else 0, n_calls
        self.seconds = min(WINDOW_SECONDS, commit.seconds) if commit else WINDOW_SECONDS
        alive = usual = 2 * n_workers()
        most = max(MOST_ALIVE, usual)
        if at_once is not None:
            alive, most = (max(1, min(number, at_once)) for number in (usual, most))
        if is_clients():
            self.n_lanes = min(LANES_OF_CLIENTS, alive)
        else:
            self.n_lanes = 2 if alive == usual else alive
        if n_calls - self.next <= 1:
            self.n_lanes = 1
        self.width, self.widest = max(1, alive // self.n_lanes), max(1, most // self.n_lanes)

    @property
    def remain(self) -> bool:
        """Whether there are calls that have not been taken."""
        return self.next < self.n_calls

    def take(self) -> range:
        """The next ones."""
        window = range(self.next, min(self.next + self.width, self.n_calls))
        self.next = window.stop
        return window

    def widen(self, seconds: float, results: Sequence[Any]) -> None:
        """Take the next window wider, if one was short, and twice as many of its results are small."""
        if seconds < self.seconds and 2 * self.n_lanes * _size(results) < WINDOW_BYTES:
            self.width = min(2 * self.width, self.widest)


def _size(value: Any) -> int:
    """Bytes of the arrays in results, as deep as tuples, lists and plain objects go; none of a handle."""
    if is_lazy(value):
        return 0
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    inner = value if isinstance(value, tuple | list) else vars(value).values() if is_dataclass(value) else ()
    return sum(map(_size, inner))
