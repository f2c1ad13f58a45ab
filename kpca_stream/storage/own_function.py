"""What a basis keeps of a kernel of one's own: some of its values, since it may change under its name."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics.kernels import Own
from kpca_stream.storage.frozen import Basis

Array = NDArray[Any]

FACT = "function_values"
N_ROWS = 8
SAME, ROUNDED = 1e-9, 1e-5
"""Of the largest; closer values are one function's, rounded by other processors, in float64 or float32."""


def with_function_values(basis: Basis) -> Basis:
    """The basis with values of its kernel's function in its facts; as it is where the kernel is none."""
    values = _values(basis)
    return basis if values is None else replace(basis, facts={**basis.facts, FACT: values.tolist()})


def changed_function(basis: Basis) -> str | None:
    """A digest of what the kernel's function gives now, where that is not what it gave at the fit, else None.

    A basis that does not tell what it gave is of a changed one.
    """
    values = _values(basis)
    if values is None or _alike(values, basis.facts.get(FACT)):
        return None
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def is_of_other_function(a: Basis, b: Basis) -> bool:
    """Whether the functions of two bases of the same rows gave other values, as far as both tell."""
    one, other = a.facts.get(FACT), b.facts.get(FACT)
    return one is not None and other is not None and not _alike(one, other)


def _alike(values: Any, before: Any) -> bool:
    now, then = (np.asarray([] if each is None else each, dtype=np.float64) for each in (values, before))
    is_single = np.array_equal(then, then.astype(np.float32))
    share = ROUNDED if is_single else SAME
    return now.shape == then.shape and bool(
        (np.abs(now - then) <= share * np.abs(then).max(initial=0.0)).all()
    )


def _values(basis: Basis) -> Array | None:
    """k(x_i, x_j) of some of its rows, evenly chosen, (q, q); None where the kernel is no function."""
    if basis.rows is None or not isinstance(basis.kernel, Own):
        return None
    chosen = np.linspace(0, basis.n_rows - 1, min(N_ROWS, basis.n_rows)).astype(int).tolist()
    X = np.concatenate([basis.rows.part(i, i + 1).load() for i in chosen])
    return basis.kernel.matrix(X, X)
