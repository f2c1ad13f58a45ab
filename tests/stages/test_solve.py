"""Block Lanczos over the centred operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.eigensolve import Eigenpairs
from kpca_stream.numerics.kernels import Kernel, Preparation, Rbf
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.stages.centering import CentredGram
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.solve import LanczosSettings, solve, wanted_components
from kpca_stream.storage.rows import ArrayRows

Array = NDArray[Any]


@pytest.fixture(autouse=True, scope="module")
def _blas_as_in_a_fit() -> Iterator[None]:
    with single_threaded_blas():
        yield


def rows(n: int = 300, d: int = 4) -> Array:
    return np.random.default_rng(0).standard_normal((n, d))


def of_matrix(K: Array, dtype: Any = np.float64, weights: Array | None = None) -> CentredGram:
    A = K.astype(dtype)

    def multiply(V: Array) -> Array:
        return np.asarray(A @ V.astype(dtype), dtype=np.float64)

    weights = np.ones(len(K)) if weights is None else weights
    return CentredGram(multiply, np.diagonal(K).copy(), weights, epsilon=float(np.finfo(dtype).eps))


def of_rows(kernel: Kernel, X: Array, dtype: Any) -> CentredGram:
    service = Gram(ArrayRows(X), kernel, TileGrid(len(X), 200, 2), np.dtype(dtype), "memory")
    diagonal, _ = service.terms()
    return CentredGram(service.multiply, diagonal, np.ones(len(X)), epsilon=float(np.finfo(dtype).eps))


def asked(n_components: float, **others: Any) -> LanczosSettings:
    values: dict[str, Any] = {
        "max_components": 50,
        "tol": 1e-10,
        "max_passes": 50,
        "max_columns": 400,
        "seed": 0,
    }
    return LanczosSettings(n_components, **(values | others))


def check(pairs: Eigenpairs, K: Array, *, rtol: float, weights: Array | None = None) -> None:
    """Eigenvalues and residuals are those of the dense reference."""
    count = len(pairs.eigenvalues)
    expected = reference.solve(K, count, weights)
    np.testing.assert_allclose(pairs.eigenvalues, expected.eigenvalues, rtol=rtol)
    U = pairs.eigenvectors
    true = np.linalg.norm(reference.centred(K, weights) @ U - U * pairs.eigenvalues, axis=0)
    np.testing.assert_allclose(pairs.residual_norms, true, atol=rtol * pairs.eigenvalues[0])


def gram_matrix() -> Array:
    return reference.kernel("rbf", rows(), rows(), gamma=0.2)


def test_float64_solve_is_the_dense_one() -> None:
    """In float64 throughout, eigenpairs agree with a dense solve to 1e-9."""
    K = gram_matrix()
    A = of_matrix(K)
    pairs = solve(None, A, asked(6, tol=1e-12), lambda: A.trace, 300)
    assert pairs.enough
    check(pairs, K, rtol=1e-9)


def test_float32_solve_reaches_its_tolerance() -> None:
    """In float32 throughout, eigenvalues agree to 1e-6 of the first, in few passes."""
    K = gram_matrix()
    A = of_matrix(K, np.float32)
    pairs = solve(A, None, asked(6, tol=1e-6), lambda: A.trace, 300)
    assert pairs.enough
    assert pairs.n_passes <= 8
    check(pairs, K, rtol=1e-5)


@pytest.mark.parametrize("tol", [1e-6, 1e-11])
def test_mixed_solve_has_float64_accuracy(tol: float) -> None:
    """Float32 passes and a float64 one give eigenvalues to the square of the residual; all are counted."""
    K = gram_matrix()
    coarse, fine = of_matrix(K, np.float32), of_matrix(K)
    pairs = solve(coarse, fine, asked(6, tol=tol), lambda: coarse.trace, 300)
    alone = solve(coarse, None, asked(6, tol=1e-6), lambda: coarse.trace, 300)
    assert pairs.enough
    assert pairs.n_passes > alone.n_passes
    if tol == 1e-6:
        assert pairs.n_passes == alone.n_passes + 1
    check(pairs, K, rtol=1e-10)


def test_mixed_solve_sees_the_low_end() -> None:
    """An indefinite matrix is seen to be one although the float64 pass starts from leading vectors."""
    K = reference.kernel("sigmoid", rows(60), rows(60), gamma=4.0, coef0=0.0)
    lowest = reference.spectrum(K)[-1]
    coarse, fine = of_matrix(K, np.float32), of_matrix(K)
    pairs = solve(coarse, fine, asked(3, tol=1e-6), lambda: coarse.trace, 60)
    assert pairs.smallest == pytest.approx(lowest, rel=0.05)


def test_weighted_solve_is_the_dense_one() -> None:
    """With weights the pairs are those of S H K Hᵀ S."""
    K, weights = gram_matrix(), np.random.default_rng(2).uniform(0.5, 4, 300)
    A = of_matrix(K, weights=weights)
    pairs = solve(None, A, asked(5), lambda: A.trace, 300)
    check(pairs, K, rtol=1e-9, weights=weights)


@pytest.mark.parametrize("part", [0.3, 0.7, 0.9])
def test_share_takes_the_fewest_components(part: float) -> None:
    """A share of the trace is made up by as few components as the true spectrum needs."""
    K = gram_matrix()
    A = of_matrix(K)
    pairs = solve(None, A, asked(part), lambda: A.trace, 300)
    reached = np.cumsum(reference.spectrum(K)) / A.trace
    assert pairs.enough
    assert len(pairs.eigenvalues) == int(np.argmax(reached >= part)) + 1
    assert pairs.eigenvalues.sum() >= part * A.trace * (1 - 1e-12)


def test_share_beyond_the_limit_is_not_enough() -> None:
    """A share that max_components cannot make up ends without being enough."""
    A = of_matrix(gram_matrix())
    pairs = solve(None, A, asked(0.99, max_components=5, max_passes=4), lambda: A.trace, 300)
    assert not pairs.enough


def test_passes_are_limited_over_both_precisions() -> None:
    """Where the float32 passes use up the limit, the float64 step still is made, once."""
    K = gram_matrix()
    coarse, fine = of_matrix(K, np.float32), of_matrix(K)
    pairs = solve(coarse, fine, asked(6, max_passes=2), lambda: coarse.trace, 300)
    assert pairs.n_passes == 3
    assert not pairs.enough


def test_few_columns_give_the_same() -> None:
    """A limit on the basis that forces restarts changes passes, not pairs."""
    K = reference.kernel("laplacian", rows(), rows(), gamma=1.0)
    A = of_matrix(K)
    few = solve(None, A, asked(6, max_columns=1), lambda: A.trace, 300)
    many = solve(None, A, asked(6), lambda: A.trace, 300)
    assert few.n_passes > many.n_passes
    check(few, K, rtol=1e-9)
    np.testing.assert_allclose(few.eigenvalues, many.eigenvalues, rtol=1e-9)


def test_same_seed_same_bits() -> None:
    """The first block follows from the seed alone."""
    A = of_matrix(gram_matrix())
    first, second, other = (solve(None, A, asked(4, seed=s), lambda: A.trace, 300) for s in (7, 7, 8))
    assert np.array_equal(first.eigenvectors, second.eigenvectors)
    assert not np.array_equal(first.eigenvectors, other.eigenvectors)


@settings(max_examples=15)
@given(st.integers(2, 12), st.integers(1, 14))
def test_few_rows(n: int, n_components: int) -> None:
    """For a few rows, all components are found, none of them NaN; the rank is below n."""
    K = reference.kernel("rbf", rows(n), rows(n), gamma=0.2)
    A = of_matrix(K)
    pairs = solve(None, A, asked(n_components), lambda: A.trace, n)
    expected = reference.spectrum(K)
    assert pairs.enough
    assert min(n_components, n - 1) <= len(pairs.eigenvalues) <= n
    np.testing.assert_allclose(pairs.eigenvalues, expected[: len(pairs.eigenvalues)], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 7.0)])
def test_removed_direction_is_no_component(dtype: Any, weights: Array | None) -> None:
    """As many components as rows asked for: n − 1 are found, and none lies along the direction √w."""
    K = reference.kernel("rbf", rows(6), rows(6), gamma=0.2)
    A = of_matrix(K, dtype, weights)
    coarse, fine = (A, None) if dtype == np.float32 else (None, A)
    pairs = solve(coarse, fine, asked(6, tol=1e-6), lambda: A.trace, 6)
    assert len(pairs.eigenvalues) == 5
    assert np.abs(A.root @ pairs.eigenvectors).max() < 1e-6


def test_identical_rows_have_no_variance() -> None:
    """Rows that are all the same give eigenvalues 0 to rounding, and end."""
    A = of_matrix(np.ones((40, 40)), np.float32)
    pairs = solve(A, None, asked(3, tol=1e-6), lambda: A.trace, 40)
    assert pairs.enough
    assert np.abs(pairs.eigenvalues).max() < 1e-4
    assert np.isfinite(pairs.eigenvectors).all()


def test_nearly_constant_kernel_in_float32() -> None:
    """With the shift, float32 tiles of a kernel within 1e-6 of 1 give its eigenvalues to 1e-6."""
    X = np.random.default_rng(22956).standard_normal((1500, 4)).astype(np.float32)
    kernel = Rbf(Preparation(X.astype(float).mean(axis=0)), 1e-8, 1.0)
    A = of_rows(kernel, X, np.float32)
    pairs = solve(A, None, asked(3, tol=1e-6), lambda: A.trace, 1500)
    assert pairs.enough
    assert pairs.n_passes <= 8
    np.testing.assert_allclose(
        pairs.eigenvalues, [3.116232089e-05, 2.960877662e-05, 2.867778929e-05], rtol=1e-6
    )


def test_rows_far_from_the_origin_in_float32() -> None:
    """Float32 rows at 4096 give the eigenvalues to 1e-5 through tiles and passes."""
    noise = np.random.default_rng(9354).standard_normal((40, 3))
    X = (4096.0 + 0.05 * noise).astype(np.float32)
    A = of_rows(Rbf(Preparation(X.astype(float).mean(axis=0)), 50.0), X, np.float32)
    pairs = solve(A, None, asked(4, tol=1e-6), lambda: A.trace, 40)
    expected = [5.306753965, 4.351507579, 3.217743729, 1.555024469]
    np.testing.assert_allclose(pairs.eigenvalues, expected, rtol=1e-5)


def test_solve_needs_an_operator() -> None:
    """No operator at all is an error of the program."""
    with pytest.raises(TypeError, match="needs an operator"):
        solve(None, None, asked(3), lambda: 1.0, 10)


def test_wanted_number_is_at_most_what_there_is() -> None:
    """A number asks for that many, or all where there are fewer; a share for the fewest that make it up."""
    theta = np.array([4.0, 3, 2, 1, -1])
    assert wanted_components(3, 50, lambda: 10.0)(theta) == 3
    assert wanted_components(9, 50, lambda: 10.0)(theta) == 5
    assert wanted_components(0.4, 50, lambda: 10.0)(theta) == 1
    assert wanted_components(0.9, 50, lambda: 10.0)(theta) == 3
    assert wanted_components(0.99, 50, lambda: 10.0)(theta) == 4
    assert wanted_components(0.99, 50, lambda: 20.0)(theta) is None
    assert wanted_components(0.99, 3, lambda: 10.0)(theta) == 3
    assert wanted_components(0.99, 50, lambda: 20.0)(theta) is None
