"""How many generated examples a law is checked on, and which.

Examples are drawn from a fixed seed, so that every run sees the same ones, and nothing is written into the
checkout. With ``KPCA_STREAM_SEED=7`` in the environment others are drawn. Every run prints the seed, and how
many examples it drew; a failure prints the smallest example that was found, and a way to repeat it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

SEED = int(os.environ.get("KPCA_STREAM_SEED", "0"))

drawn_of: Counter[str] = Counter()
"""How many examples were drawn in this run, by the test that states the law."""

few_and_many = pytest.mark.parametrize("n_examples", [12, pytest.param(240, marks=pytest.mark.slow)])
"""Some examples in every run, and twenty times as many in the slow one."""


def for_all(n_examples: int, law: Callable[..., None], *drawn: st.SearchStrategy[Any]) -> None:
    """Check `law` for so many drawn examples."""

    def noted(values: tuple[Any, ...]) -> None:
        drawn_of[law.__qualname__.partition(".")[0]] += 1
        note(f"KPCA_STREAM_SEED={SEED}")
        law(*values)

    checked = settings(max_examples=n_examples, print_blob=True, database=None)(
        given(st.tuples(*drawn))(noted)
    )
    seed(SEED)(checked)()
