"""A solve started from the components of an earlier basis, continued to the rows of now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.numerics import tall
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


def continued_block(previous: Basis, looked: Sweep, near: Array | None) -> Array:
    """Vectors (n, ≥ k) near the leading eigenvectors: those of before, and their values at later rows.

    An eigenvector is a_i = z_i/√μ at the rows it was found on, and nearly so at any other. What `near`
    (n, w), vectors from landmarks, holds beside these fills the block up: components of before tell nothing
    of those after them, without which a solve converges slowly.
    """
    basis, n_before = previous.unrotated(), previous.n_rows
    found = np.empty((looked.n_samples, basis.n_components))
    roots = np.sqrt(basis.eigenvalues)
    found[:n_before] = basis.coefficients.load() * roots
    if n_before < looked.n_samples:
        rows = looked.rows.part(n_before, looked.n_samples)
        found[n_before:] = score_rows(basis, rows).scores / roots
    found /= np.linalg.norm(found, axis=0)
    if near is None:
        return found
    rest = np.array(near, dtype=np.float64)
    tall.project_out([np.linalg.qr(found)[0]], rest)
    return np.column_stack([found, tall.orthonormal(rest, 0.0)])
