"""How far a pass got."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

COMMIT_SECONDS = 60.0


@dataclass
class Commit:
    """Remembers how far a pass got.

    Parameters
    ----------
    save : callable
        Called with the number of tasks folded so far; must persist the accumulator with it.
    first : int
        Number of tasks that a restored accumulator already holds.
    seconds : float
        Least time between two calls of `save`.
    """

    save: Callable[[int], None]
    first: int = 0
    seconds: float = COMMIT_SECONDS
    _last: float = field(default_factory=time.monotonic, repr=False)

    def after(self, n_folded: int) -> None:
        """Save if the last time is long enough ago."""
        if time.monotonic() - self._last >= self.seconds:
            self.save(n_folded)
            self._last = time.monotonic()
