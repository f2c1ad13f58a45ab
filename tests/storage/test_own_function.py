"""What a basis keeps of a kernel of one's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.own_function import (
    FACT,
    changed_function,
    is_of_other_function,
    with_function_values,
)
from kpca_stream.storage.source import open_source


def products(X: NDArray[np.float64], Y: NDArray[np.float64]) -> NDArray[np.float64]:
    return X @ Y.T


@pytest.fixture(scope="module")
def basis() -> Basis:
    """Of orthogonal rows, so that all values but k(x, x) are what is left of sums that cancel."""
    X, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))
    settings = FitSettings(kernel=KernelSpec("products", function=products), n_components=2)
    return with_function_values(fit(open_source(40 * X), settings).basis)


def shifted(basis: Basis, by: float) -> Basis:
    """As if the function had given values that differ by so much of the largest."""
    values = np.asarray(basis.facts[FACT])
    return replace(basis, facts={**basis.facts, FACT: (values + by * np.abs(values).max()).tolist()})


def test_rounding_is_no_other_function(basis: Basis) -> None:
    """Values are compared with the largest: small ones that cancel differ from processor to processor."""
    assert changed_function(basis) is None
    assert changed_function(shifted(basis, 1e-14)) is None


def test_float32_is_rounded_to_float32(basis: Basis) -> None:
    """A function of float32 values is compared as finely as these tell."""
    single = np.asarray(basis.facts[FACT], dtype=np.float32).astype(np.float64)
    rounded = replace(basis, facts={**basis.facts, FACT: single.tolist()})
    assert changed_function(rounded) is None
    assert changed_function(shifted(rounded, 1e-3)) is not None


def test_two_bases_tell_whether_their_functions_differ(basis: Basis) -> None:
    """Bases of the same rows whose functions gave other values differ; where one tells none they may not."""
    assert is_of_other_function(basis, shifted(basis, 1e-3))
    assert not is_of_other_function(basis, shifted(basis, 1e-14))
    assert not is_of_other_function(basis, replace(basis, facts={}))


@pytest.mark.parametrize("change", [1e-6, None, [[1.0]]])
def test_other_values_are_another_function(basis: Basis, change: float | list[list[float]] | None) -> None:
    """Values that differ, are missing, or of other rows tell of one, by a digest of what it gives now."""
    other = shifted(basis, change) if isinstance(change, float) else basis
    if not isinstance(change, float):
        facts = {key: value for key, value in basis.facts.items() if key != FACT}
        other = replace(basis, facts=facts if change is None else {**facts, FACT: change})
    assert changed_function(other) == changed_function(shifted(basis, 0.5)) is not None
