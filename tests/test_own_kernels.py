"""Kernels that the user brings: matrices of values, and functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converters import as_dask, as_fortran, as_zarr, rows
from numpy.typing import NDArray

from kpca_stream import KernelPCA, block_kernel, load_basis
from kpca_stream.errors import ConfigError, DataError

Array = NDArray[Any]


def one_row_kernel(x: Array, y: Array) -> float:
    return float((1 + x @ y) ** 2)


@block_kernel
def two_block_kernel(X: Array, Y: Array) -> Array:
    return np.asarray((1 + X @ Y.T) ** 2)


def gram(X: Array, Y: Array) -> Array:
    return np.asarray((1 + X @ Y.T) ** 2)


@pytest.mark.parametrize("convert", [as_fortran, as_zarr, as_dask])
def test_precomputed_values_stand_for_rows(tmp_path: Path, convert: Any) -> None:
    """Training takes n × n, scoring new × n; with k(x, x) there is an error, the same as from rows."""
    X, X_new = rows(), rows(20, seed=1)
    expected = KernelPCA(3, kernel="poly", degree=2, gamma=1.0).fit(X)
    model = KernelPCA(3, kernel="precomputed").fit(convert(gram(X, X), tmp_path))
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    k_new, diagonal = convert(gram(X_new, X), tmp_path / "new"), np.diagonal(gram(X_new, X_new))
    np.testing.assert_allclose(np.asarray(model.transform(k_new)), expected.transform(X_new), atol=1e-9)
    error = np.asarray(model.reconstruction_error(k_new, diagonal=diagonal))
    np.testing.assert_allclose(error, expected.reconstruction_error(X_new), rtol=1e-8, atol=1e-8)
    with pytest.raises(DataError, match=r"diagonal: a precomputed kernel needs it"):
        model.reconstruction_error(k_new)
    with pytest.raises(DataError, match=r"diagonal: got shape \(19,\), expected 20"):
        model.reconstruction_error(k_new, diagonal=diagonal[1:])


def test_only_precomputed_kernels_take_a_diagonal() -> None:
    """Where the kernel is known, so is k(x, x)."""
    with pytest.raises(ConfigError, match=r"diagonal: only for a precomputed kernel"):
        KernelPCA(2).fit(rows()).reconstruction_error(rows(), diagonal=np.ones(150))


def test_precomputed_novelty_is_that_of_t2_alone(tmp_path: Path) -> None:
    """Without k(x, x) there is no error, and novelty rests on T²."""
    X = rows()
    KernelPCA(3, kernel="precomputed").fit(gram(X, X)).save(tmp_path / "b.zarr")
    basis = load_basis(tmp_path / "b.zarr")
    found = basis.score(gram(3 * X, X))
    assert found.reconstruction_error is None
    np.testing.assert_array_equal(found.novelty, found.hotelling_t2 > basis.thresholds.hotelling_t2)
    assert 0 < found.novelty.sum() < 150


def test_precomputed_matrices_are_checked() -> None:
    """What is not square or not symmetric is refused with its shape or its largest asymmetry."""
    X = rows(5, 2, seed=14240)
    K = gram(X, X)
    with pytest.raises(DataError, match=r"shape \(5, 4\); expected a square matrix"):
        KernelPCA(2, kernel="precomputed").fit(K[:, :4])
    with pytest.raises(DataError, match=r"shape \(100, 7\); expected a square matrix"):
        KernelPCA(2, kernel="precomputed").fit(rows(100, 7))
    bad = K.copy()
    bad[3, 1] += 1e-3
    with pytest.raises(DataError, match=r"not symmetric: \|K\[1,3\] − K\[3,1\]\| is 0.001"):
        KernelPCA(2, kernel="precomputed").fit(bad)
    model = KernelPCA(2, kernel="precomputed").fit(K)
    with pytest.raises(ValueError, match=r"4 features.* 5"):
        model.transform(np.ones((3, 4)))


def test_tiny_asymmetry_is_averaged() -> None:
    """A matrix that is symmetric to 1e-10 is fitted as (K + Kᵀ)/2."""
    X = rows(30)
    K = gram(X, X)
    noise = 1e-12 * np.abs(K).max() * np.random.default_rng(0).standard_normal(K.shape)
    model = KernelPCA(3, kernel="precomputed").fit(K + noise)
    averaged = KernelPCA(3, kernel="precomputed").fit(K + (noise + noise.T) / 2)
    np.testing.assert_allclose(model.eigenvalues_, averaged.eigenvalues_, rtol=1e-14)


def test_precomputed_rows_of_weight_zero() -> None:
    """Rows of weight 0 are left out with their columns, also of what is scored later."""
    X, X_new, weights = rows(40), rows(7, seed=1), np.r_[np.zeros(5), np.ones(35)]
    model = KernelPCA(3, kernel="precomputed").fit(gram(X, X), sample_weight=weights)
    expected = KernelPCA(3, kernel="precomputed").fit(gram(X[5:], X[5:]))
    np.testing.assert_allclose(model.transform(gram(X_new, X)), expected.transform(gram(X_new, X[5:])))


@pytest.mark.parametrize("kernel", [one_row_kernel, two_block_kernel, f"{__name__}:two_block_kernel"])
def test_own_kernels_take_rows_or_blocks(tmp_path: Path, kernel: Any) -> None:
    """A function of two rows, of two blocks, or its name give the same, before and after storage."""
    X = rows(60)
    expected = KernelPCA(3, kernel="poly", degree=2, gamma=1.0).fit(X)
    model = KernelPCA(3, kernel=kernel).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    model.save(tmp_path / "b.zarr")
    loaded = load_basis(tmp_path / "b.zarr")
    np.testing.assert_allclose(loaded.transform(X), model.transform(X), atol=1e-12)
    np.testing.assert_allclose(loaded.reconstruction_error(X), expected.reconstruction_error(X), atol=1e-9)


def test_kernel_params_are_passed_on_to_blocks() -> None:
    """`kernel_params` reach a marked function as keyword arguments."""

    @block_kernel
    def scaled(X: Array, Y: Array, *, factor: float) -> Array:
        return factor * X @ Y.T

    X = rows(60)
    model = KernelPCA(2, kernel=scaled, kernel_params={"factor": 3.0}).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, 3 * KernelPCA(2).fit(X).eigenvalues_, rtol=1e-12)


def test_a_kernel_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    """A lambda fits and scores, but a basis with it would not open again."""
    model = KernelPCA(2, kernel=lambda x, y: float(x @ y)).fit(rows(30))
    with pytest.raises(DataError, match=r"cannot be found again by name"):
        model.save(tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, y: x, "(returned shape|raised)"),
        (lambda x, y: float("nan"), "returned NaN or infinity"),
        (lambda x, y: 1 / 0, "raised ZeroDivisionError"),
        (lambda x, y: "a", "(raised ValueError|.*of type)"),
        (block_kernel(lambda X, Y: np.ones(3)), r"returned shape \(3,\)"),
        (block_kernel(lambda X, Y: 1j * (X @ Y.T)), ".*of type complex128"),
    ],
)
def test_own_kernels_that_fail_are_named(kernel: Any, message: str) -> None:
    """Wrong shapes, types, values and errors of a user's function are told as such."""
    with pytest.raises(DataError, match=rf"kernel <lambda> {message}"):
        KernelPCA(2, kernel=kernel).fit(rows(20))
