"""A solve started from the components of an earlier basis, continued to the rows of now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.stages.scoring import score_rows
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis

Array = NDArray[Any]


def continues(previous: Basis, looked: Sweep) -> bool:
    """Whether the rows of `previous` can be the first of those that were looked at.

    That they are the same is for the caller to know.
    """
    return (
        previous.accumulated is None
        and previous.rows is not None
        and previous.weights is None
        and looked.weights is None
        and previous.columns == looked.columns
        and previous.n_rows <= looked.n_samples
    )


def continued_block(previous: Basis, looked: Sweep) -> Array:
    """Vectors (n, k) near the leading eigenvectors: those of before, and their values at later rows.

    An eigenvector is a_i = z_i/√μ at the rows it was found on, and nearly so at any other.
    """
    basis, n_before = previous.unrotated(), previous.n_rows
    found = np.empty((looked.n_samples, basis.n_components))
    roots = np.sqrt(basis.eigenvalues)
    found[:n_before] = basis.coefficients.load() * roots
    if n_before < looked.n_samples:
        rows = looked.rows.part(n_before, looked.n_samples)
        found[n_before:] = score_rows(basis, rows).scores / roots
    return np.asarray(found / np.linalg.norm(found, axis=0))
