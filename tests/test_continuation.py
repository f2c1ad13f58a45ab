"""The block that a solve starts from where an earlier basis is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.continuation import continued_block, continues
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.stages.sweep import sweep
from kpca_stream.storage.source import open_source

Array = NDArray[Any]

KERNEL = KernelSpec("rbf", gamma=0.02)


def rows(n_rows: int) -> Array:
    rng, mixing = np.random.default_rng(0), np.random.default_rng(99).standard_normal((3, 6))
    return np.asarray(rng.standard_normal((n_rows, 3)) @ mixing + 0.1 * rng.standard_normal((n_rows, 6)))


def settings(**more: Any) -> FitSettings:
    return FitSettings(
        **{"kernel": KERNEL, "n_components": 4, "method": "lanczos", "precision": "float64", **more}
    )


def test_same_rows_give_the_eigenvectors() -> None:
    """Continued to no further rows, the block holds the eigenvectors themselves."""
    source = open_source(rows(600))
    found = fit(source, settings())
    block = continued_block(found.basis, sweep(source, seed=0), None)
    assert found.pairs is not None
    np.testing.assert_allclose(block, found.pairs.eigenvectors, atol=1e-12)


def test_further_rows_are_near_the_eigenvectors() -> None:
    """Continued to a tenth more rows, each column is within a few degrees of the span of the true ones."""
    X = rows(660)
    before = fit(open_source(X[:600]), settings())
    now = fit(open_source(X), settings())
    block = continued_block(before.basis, sweep(open_source(X), seed=0), None)
    assert now.pairs is not None
    inside = np.linalg.norm(now.pairs.eigenvectors.T @ block, axis=0)
    assert inside.min() > np.cos(np.radians(5))


def test_what_landmarks_hold_besides_is_taken_too() -> None:
    """Vectors nearby fill the block up, as far as they are not in it already, orthonormal."""
    source = open_source(rows(600))
    looked, basis = sweep(source, seed=0), fit(source, settings()).basis
    alone = continued_block(basis, looked, None)
    near = np.column_stack([alone[:, :2], np.random.default_rng(1).standard_normal((600, 3))])
    block = continued_block(basis, looked, near)
    assert block.shape == (600, 4 + 3)
    np.testing.assert_allclose(block.T @ block, np.eye(7), atol=1e-10)
    np.testing.assert_array_equal(block[:, :4], alone)


@pytest.mark.parametrize("what", ["nystrom", "merged", "fewer", "columns"])
def test_other_rows_are_not_continued(what: str) -> None:
    """A basis of landmarks, of merged rows, of more rows, or of other columns is nothing to go on from."""
    X = rows(600)
    looked = sweep(open_source(X), seed=0)
    basis = fit(open_source(X[:500]), settings()).basis
    assert continues(basis, looked)
    if what == "nystrom":
        basis = fit(open_source(X), settings(method="nystrom")).basis
    elif what == "merged":
        basis = fit(open_source(np.vstack([X[:200], X[:200]])), settings(merge_duplicates=True)).basis
    elif what == "fewer":
        looked = sweep(open_source(X[:400]), seed=0)
    else:
        basis = replace(basis, columns=tuple("abcdef"))
    assert not continues(basis, looked)
