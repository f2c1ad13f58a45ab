"""Scores of the rows that a basis was fitted on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.stages.scoring.block import score_rows
from kpca_stream.storage.basis import Basis

Array = NDArray[Any]


def training_scores(basis: Basis) -> Iterator[tuple[Array, Array]]:
    """Blocks of training scores (b, n_components), and the weights (b,) of their rows.

    Of an exact basis z_i = μ α_i/w_i of all rows; of landmarks the scores of the training rows that it keeps
    as a sample, if any.
    """
    if basis.accumulated is None:
        for _, _, coefficients, weights in basis.blocks():
            yield np.asarray(coefficients * basis.eigenvalues / weights[:, None]), weights
        return
    kept = basis.accumulated
    if kept.sample.shape[0] and basis.rows is not None:
        yield score_rows(basis.in_memory(), kept.sample).scores, kept.sample_weights
