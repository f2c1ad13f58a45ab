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
SAME = 1e-9
"""Of the largest; closer values are one function's, rounded by other processors."""


def with_function_values(basis: Basis) -> Basis:
    """The basis with values of its kernel's function in its facts; as it is where the kernel is none."""
    values = _values(basis)
    return basis if values is None else replace(basis, facts={**basis.facts, FACT: values.tolist()})


def changed_function(basis: Basis) -> str | None:
    """A digest of what the kernel's function gives now, where that is not what it gave at the fit, else None.

    A basis that does not tell what it gave is of a changed one.
    """
    values, before = _values(basis), np.asarray(basis.facts.get(FACT, []), dtype=np.float64)
    if values is None:
        return None
    if before.shape == values.shape and np.abs(values - before).max() <= SAME * np.abs(before).max():
        return None
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def _values(basis: Basis) -> Array | None:
    """k(x_i, x_j) of some of its rows, evenly chosen, (q, q); None where the kernel is no function."""
    if basis.rows is None or not isinstance(basis.kernel, Own):
        return None
    chosen = np.linspace(0, basis.n_rows - 1, min(N_ROWS, basis.n_rows)).astype(int).tolist()
    X = np.concatenate([basis.rows.part(i, i + 1).load() for i in chosen])
    return basis.kernel.matrix(X, X)
