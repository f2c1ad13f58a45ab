"""A new basis laid over an old one, so that scores stay comparable across re-fits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.numerics.alignment import CLOSE, Alignment, How, align
from kpca_stream.numerics.kernels import Linear, Precomputed
from kpca_stream.numerics.kernels.likeness import same_features
from kpca_stream.stages.scoring import score_rows
from kpca_stream.storage.frozen import Basis
from kpca_stream.storage.rows import ArrayRows, Rows

Array = NDArray[np.float64]

MOST_VALUES = 2**28
"""Kernel values that exact angles may take: a second or so."""
SAMPLE_ROWS = 2000


def compared(
    old: Basis,
    new: Basis,
    sample: Rows,
    *,
    how: How = "rotation",
    close: float = CLOSE,
    most_values: int = MOST_VALUES,
) -> Alignment:
    """How `new` is to be laid over `old`, by the scores of a fixed sample of rows.

    Parameters
    ----------
    old, new : Basis
    sample : Rows
        Rows (n_rows, d) of the columns of both; at best the same ones at each re-fit.
    how, close
        As for `align`.
    most_values : int
        Angles are exact where they take no more kernel values, else estimated from the scores; so they are
        between kernels of other numbers, where they say how much of the new scores the old ones tell.

    Returns
    -------
    Alignment
        Its `eigenvalue_changes` are those of the explained variances.

    Raises
    ------
    DataError
        If the bases are not of the same columns.
    """
    if old.columns != new.columns:
        raise DataError(
            f"bases to compare: got {len(old.columns)} and {len(new.columns)} columns or other names, "
            "expected the same; fit all columns anew under another name of the model"
        )
    with single_threaded_blas():
        old_scores, new_scores = (score_rows(basis, sample).scores for basis in (old, new))
        variances = old.explained_variance, new.explained_variance
        cross = cross_products(old, new, most_values=most_values)
        return align(old_scores, new_scores, *variances, how=how, close=close, cross=cross)


def aligned(basis: Basis, alignment: Alignment) -> Basis:
    """The basis with its components laid over those it was compared with.

    Directions stay orthonormal and span the same space: e(x) and, by `Basis.hotelling_t2`, T² are what they
    were, and so are thresholds. Eigenvalues stay in their order.
    """
    identity = np.array_equal(alignment.transform, np.eye(basis.n_components))
    return basis if identity else basis.rotated(alignment.transform)


def sample_of(basis: Basis, n_rows: int = SAMPLE_ROWS) -> Rows:
    """Some of the rows that a basis was fitted on, evenly chosen, the same at each call.

    Raises
    ------
    DataError
        If it keeps none: that of a precomputed kernel.
    """
    rows = basis.rows if basis.accumulated is None else basis.accumulated.sample
    if rows is None:
        raise DataError("a basis of a precomputed kernel keeps no rows to compare by; give some")
    n_kept = rows.shape[0]
    chosen = np.unique(np.linspace(0, n_kept - 1, min(n_rows, n_kept)).astype(int))
    step = basis.chunk_rows
    blocks = [
        rows.part(start, min(start + step, n_kept)).load()[
            chosen[(chosen >= start) & (chosen < start + step)] - start
        ]
        for start in range(0, n_kept, step)
    ]
    return ArrayRows(np.concatenate(blocks))


def cross_products(old: Basis, new: Basis, *, most_values: int = MOST_VALUES) -> Array | None:
    """⟨v_i, w_j⟩ = α_iᵀ K(old rows, new rows) β_j of the directions of two bases, (k_old, k_new).

    None where they lie in different feature spaces, or this takes more than `most_values` kernel values.
    """
    if old.n_rows * new.n_rows > most_values or not same_features(old.kernel, new.kernel):
        return None
    if isinstance(old.kernel, Precomputed):
        return None
    cross = np.zeros((old.n_components, new.n_components))
    for _, X, alpha, _ in old.blocks():
        for _, Y, beta, _ in new.blocks():
            if X is not None and Y is not None:
                cross += alpha.T @ _similarities(old, new, X.load(), Y.load()) @ beta
    return cross


def _similarities(old: Basis, new: Basis, X: Array, Y: Array) -> Array:
    """K (n_x, n_y) up to what coefficients cancel; linear directions are each about their own means."""
    if not isinstance(old.kernel, Linear):
        return old.kernel.matrix(X, Y)
    K: Array = old.kernel.preparation(X) @ new.kernel.preparation(Y).T
    return K
