"""Kernels against their formulas, and where float32 would lose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.numerics.kernels import (
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    MatrixOperand,
    Own,
    Polynomial,
    Precomputed,
    Preparation,
    Rbf,
    RowPairs,
    Sigmoid,
)
from kpca_stream.numerics.kernels.base import FEW_ROWS
from kpca_stream.numerics.multiply import computed_strips
from kpca_stream.storage.rows import ArrayRows

Array = NDArray[Any]

MAKERS: dict[str, Callable[[Preparation], Kernel]] = {
    "linear": Linear,
    "cosine": Cosine,
    "rbf": lambda p: Rbf(p, 0.3),
    "laplacian": lambda p: Laplacian(p, 0.2),
    "poly": lambda p: Polynomial(p, 0.3, 3, 1.0),
    "sigmoid": lambda p: Sigmoid(p, 0.3, -0.5),
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "linear": {},
    "cosine": {},
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.2},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "sigmoid": {"gamma": 0.3, "coef0": -0.5},
}


def rows(n: int, d: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d)) + 0.5


def tile(kernel: Kernel, X: Array, Y: Array, dtype: Any) -> Array:
    out = np.empty((len(X), len(Y)), dtype=dtype)
    kernel.fill(kernel.operand(X, dtype), kernel.operand(Y, dtype), out)
    return out


def gram(kernel: Kernel, X: Array, dtype: Any) -> Array:
    sides = kernel.operand(X, dtype), kernel.operand(X, dtype)
    return np.concatenate([T.copy() for _, T in computed_strips(kernel, *sides, dtype, diagonal=True)])


def leading(K: Array, count: int) -> Array:
    return reference.solve(K.astype(float), count).eigenvalues


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("moved", [False, True])
def test_kernel_is_its_reduced_form_and_two_offsets(name: str, *, moved: bool) -> None:
    """K = k' + a(x) + a(y) is the formula's value, whatever vector is taken off the rows first."""
    X, Y = rows(9), rows(5, seed=1)
    made = MAKERS[name](Preparation())
    if moved and made.centred:
        made = MAKERS[name](Preparation(np.array([0.3, -2.0, 5.0, 0.1])))
    a, b = (made.offset(made.operand(Z, float)) for Z in (X, Y))
    found = tile(made, X, Y, float) + a[:, None] + b
    np.testing.assert_allclose(
        found, reference.kernel(name, X, Y, **PARAMETERS[name]), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", MAKERS)
def test_diagonal_is_the_formulas(name: str) -> None:
    """The diagonal comes from its own formula, in float64 for tiles of any type."""
    X = rows(9)
    made = MAKERS[name](Preparation())
    for dtype in (np.float32, np.float64):
        A = made.operand(X, dtype)
        diagonal = made.diagonal(A) + 2 * made.offset(A)
        assert diagonal.dtype == np.float64
        expected = np.diagonal(reference.kernel(name, X, X, **PARAMETERS[name]))
        np.testing.assert_allclose(diagonal, expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "cosine"])
def test_similarity_of_a_row_with_itself_is_one(name: str) -> None:
    """Diagonal entries of a float32 tile are exactly 1, not 1 but for rounding."""
    K = gram(MAKERS[name](Preparation()), rows(40, seed=3) * 3, np.float32)
    assert np.array_equal(np.diagonal(K), np.ones(40))


@pytest.mark.parametrize("name", MAKERS)
def test_float32_tile_is_near(name: str) -> None:
    """A float32 tile of ordinary rows has float32's accuracy."""
    X, Y = rows(30).astype(np.float32), rows(20, seed=1).astype(np.float32)
    expected = reference.kernel(name, X, Y, **PARAMETERS[name])
    found = tile(MAKERS[name](Preparation()), X, Y, np.float32)
    assert np.abs(found - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("name", MAKERS)
def test_strip_of_an_operand_gives_these_rows_of_the_tile(name: str) -> None:
    """A strip of one side fills the same rows of the tile."""
    X, Y = rows(30), rows(20, seed=1)
    made = MAKERS[name](Preparation())
    A, B = made.operand(X, float), made.operand(Y, float)
    part = np.empty((7, 20))
    made.fill(A.strip(11, 18), B, part)
    np.testing.assert_allclose(part, tile(made, X, Y, float)[11:18], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", MAKERS)
def test_two_operands_share_no_memory(name: str) -> None:
    """Both sides of a diagonal tile lie in distinct buffers, so that its product takes the usual path."""
    X = rows(6)
    made = MAKERS[name](Preparation())
    A, B = made.operand(X, float), made.operand(X, float)
    assert not np.shares_memory(A.left, B.right)
    assert not np.shares_memory(A.points, B.points)
    assert not np.shares_memory(A.points, X)


def test_integer_rows_are_cast_before_arithmetic() -> None:
    """Unsigned bytes neither wrap around nor overflow."""
    X = np.array([[250, 3], [5, 200], [255, 255]], dtype=np.uint8)
    for name in ("linear", "rbf", "poly"):
        parameters = PARAMETERS[name] | ({"gamma": 1e-4} if name == "rbf" else {})
        made = Rbf(Preparation(), 1e-4) if name == "rbf" else MAKERS[name](Preparation())
        np.testing.assert_allclose(
            tile(made, X, X, float), reference.kernel(name, X, X, **parameters), rtol=1e-12
        )


def test_standardised_rows_have_a_kernel_of_their_own() -> None:
    """With a multiplier the linear kernel is that of the standardised rows, and has no offset."""
    X = rows(8)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    made = Linear(Preparation(X.mean(axis=0), 1 / X.std(axis=0)))
    A = made.operand(X, float)
    np.testing.assert_allclose(tile(made, X, X, float), standardised @ standardised.T, atol=1e-12)
    assert not made.offset(A).any()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_scaling_rows_and_gamma_changes_nothing(seed: int, factor: float) -> None:
    """Rows times b with gamma / b² (laplacian gamma / b) give the same rbf kernel."""
    X = rows(6, seed=seed)
    for kind, power in ((Rbf, 2), (Laplacian, 1)):
        K = tile(kind(Preparation(), 0.4), X, X, float)
        scaled = tile(kind(Preparation(), 0.4 / factor**power), X * factor, X * factor, float)
        np.testing.assert_allclose(scaled, K, rtol=1e-10)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["linear", "cosine", "rbf", "laplacian", "poly"]))
def test_gram_matrix_is_positive_semidefinite(seed: int, name: str) -> None:
    """No eigenvalue of a Gram matrix is negative beyond rounding."""
    made = MAKERS[name](Preparation())
    X = rows(12, 3, seed=seed)
    a = made.offset(made.operand(X, float))
    spectrum = np.linalg.eigvalsh(tile(made, X, X, float) + a[:, None] + a)
    assert spectrum[0] >= -1e-12 * spectrum[-1]


def offset_rows() -> Array:
    noise = np.random.default_rng(9354).standard_normal((40, 3))
    return (4096.0 + 0.05 * noise).astype(np.float32)


def test_rows_far_from_the_origin_keep_their_distances() -> None:
    """Float32 rows at 4096 with a spread of 0.05 give the eigenvalues of direct differences to 1e-5."""
    X = offset_rows()
    K = gram(Rbf(Preparation(X.astype(float).mean(axis=0)), 50.0), X, np.float32)
    assert K[0, 1] == pytest.approx(0.9118063976, rel=1e-5)
    np.testing.assert_allclose(leading(K, 4), [5.306753965, 4.351507579, 3.217743729, 1.555024469], rtol=1e-5)


@pytest.mark.parametrize("spread", [1.0, 30.0, 3000.0])
def test_exponent_is_guarded_where_centring_does_not_help(spread: float) -> None:
    """Of two far clusters of close rows the product is in float64 where float32 would lose the exponent."""
    rng = np.random.default_rng(5)
    X = (spread * rng.choice([-1.0, 1.0], (60, 1)) + 0.3 * rng.standard_normal((60, 3))).astype(np.float32)
    K = tile(Rbf(Preparation(X.astype(float).mean(axis=0)), 0.5), X, X, np.float32)
    assert np.abs(K - reference.kernel("rbf", X, X, gamma=0.5)).max() < 3e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_similarity_exceeds_one(dtype: Any) -> None:
    """Copies of a row have at most the similarity of a row with itself, whatever rounding does."""
    X = np.tile(rows(30, 7, seed=8), (4, 1)) * 2
    assert tile(Rbf(Preparation(), 0.3), X, X, dtype).max() == 1
    assert tile(Rbf(Preparation(), 0.3, 1.0), X, X, dtype).max() == 0


def test_matrix_of_many_rows_is_made_in_parts() -> None:
    """The matrix between more rows than one part holds is that of the formula."""
    X, Y = rows(2 * FEW_ROWS + 9), rows(FEW_ROWS + 3, seed=1)
    for name in ("rbf", "laplacian", "poly"):
        found = MAKERS[name](Preparation()).matrix(X, Y)
        np.testing.assert_allclose(found, reference.kernel(name, X, Y, **PARAMETERS[name]), rtol=1e-11)


def test_memory_of_an_operand_is_counted_once() -> None:
    """An array that serves as several parts of an operand is counted once."""
    X = rows(10)
    assert Linear(Preparation()).operand(X, float).nbytes == 10 * 4 * 8
    assert Linear(Preparation()).operand(X, np.float32).nbytes == 10 * 4 * (8 + 4)
    assert Rbf(Preparation(), 0.1).operand(X, float).nbytes == 10 * 8 * (4 + 6 + 6)


def test_nearly_constant_kernel_keeps_its_signal_in_float32() -> None:
    """With the shift, float32 tiles of K ≈ 1 − 1e-7 give the eigenvalues to 1e-6, without it they do not."""
    X = np.random.default_rng(22956).standard_normal((1500, 4)).astype(np.float32)
    expected = [3.116232089e-05, 2.960877662e-05, 2.867778929e-05]
    preparation = Preparation(X.astype(float).mean(axis=0))
    V = np.linalg.qr(X - X.mean(axis=0, dtype=float))[0]  # spans the eigenvectors: K̃ ≈ 2γ X_c X_cᵀ

    def found(shift: float) -> Array:
        K = gram(Rbf(preparation, 1e-8, shift), X, np.float32).astype(float)
        K -= K.mean(axis=0)
        return np.sort(np.linalg.eigvalsh(V.T @ K @ V))[::-1][:3]

    np.testing.assert_allclose(found(1.0), expected, rtol=1e-6)
    assert abs(found(0.0)[0] / expected[0] - 1) > 1e-3


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_shift_takes_one_from_every_entry(name: str) -> None:
    """The reduced kernel with shift is k − 1 everywhere, on the diagonal too, and the offsets hold the 1."""
    X = rows(8) * 0.01
    made = (Rbf if name == "rbf" else Laplacian)(Preparation(), 0.2, 1.0)
    A = made.operand(X, float)
    np.testing.assert_allclose(
        gram(made, X, float), reference.kernel(name, X, X, gamma=0.2) - 1, rtol=1e-9, atol=1e-18
    )
    assert not made.diagonal(A).any()
    assert np.array_equal(made.offset(A), np.full(8, 0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_kernel_of_centred_rows_loses_no_digits(dtype: Any) -> None:
    """Far from the origin the centred Gram matrix of a linear kernel is as exact as at it."""
    X = rows(30) + 1e6
    K = gram(Linear(Preparation(X.mean(axis=0))), X, dtype).astype(float)
    Xc = X - X.mean(axis=0)
    tolerance = 2e-6 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(
        reference.centred(K), Xc @ Xc.T, atol=tolerance * np.square(Xc).sum(axis=1).max()
    )


def test_zero_row_is_like_nothing_in_cosine() -> None:
    """A zero row has cosine 0 with all rows and with itself, and no warning."""
    X = rows(5)
    X[2] = 0
    K = gram(Cosine(Preparation()), X, np.float32)
    assert not K[2].any()
    assert not K[:, 2].any()
    assert K[1, 1] == 1


def blocks(X: Array, Y: Array) -> Array:
    return X @ Y.T + 1


def pair(x: Array, y: Array) -> float:
    return float(x @ y + 1)


@pytest.mark.parametrize("function", [blocks, RowPairs(pair)])
def test_own_function_is_evaluated(function: Any) -> None:
    """A function of blocks, and one of pairs, fill the tile and the diagonal."""
    X, Y = rows(37), rows(5, seed=1)
    own = Own(Preparation(), function, "mine")
    np.testing.assert_allclose(tile(own, X, Y, float), X @ Y.T + 1, rtol=1e-13)
    np.testing.assert_allclose(own.diagonal(own.operand(X, float)), (X**2).sum(axis=1) + 1, rtol=1e-13)


def test_diagonal_of_an_own_function_is_float64() -> None:
    """Whole numbers, float32 values and an empty block give a float64 diagonal."""
    X = rows(5)
    for function in (lambda X, Y: np.ones((len(X), len(Y)), int), lambda X, Y: (X @ Y.T).astype(np.float32)):
        own = Own(Preparation(), function, "mine")
        assert own.diagonal(own.operand(X, float)).dtype == np.float64
        assert own.diagonal(own.operand(X[:0], float)).shape == (0,)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda X, Y: 1 / 0, r"mine raised ZeroDivisionError on blocks of shapes \(3, 4\) and \(2, 4\)"),
        (
            lambda X, Y: X,
            r"mine returned shape \(3, 4\) of type float64; expected real numbers of shape \(3, 2\)",
        ),
        (lambda X, Y: X @ Y.T + 0j, "mine returned shape .* of type complex128; expected real"),
        (lambda X, Y: X @ Y.T * np.nan, "mine returned NaN or infinity"),
        (lambda X, Y: X @ Y.T + np.inf, "mine returned NaN or infinity"),
        (lambda X, Y: [["a", "b"]] * 3, "expected real numbers"),
    ],
)
def test_own_function_that_returns_nonsense_is_named(function: Any, said: str) -> None:
    """What an own function got wrong is said with its name and the shapes."""
    own = Own(Preparation(), function, "mine")
    with pytest.raises(DataError, match=said):
        tile(own, rows(3), rows(2), float)


def test_pair_function_that_returns_no_number_is_named() -> None:
    """A function of two rows that returns a row is refused."""
    own = Own(Preparation(), RowPairs(lambda x, y: x), "mine")
    with pytest.raises(DataError, match="mine"):
        tile(own, rows(3), rows(2), float)


def test_precomputed_tile_is_symmetrized() -> None:
    """A tile of a given matrix is (K + Kᵀ)/2, its mirror the same to the bit, its diagonal K's own."""
    K = np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32)
    made = Precomputed(Preparation())
    A, B = (MatrixOperand.of(ArrayRows(K[a:b]), a, b) for a, b in ((0, 4), (4, 9)))
    T, mirrored = np.empty((4, 5)), np.empty((5, 4))
    made.fill(A, B, T)
    made.fill(B, A, mirrored)
    whole = (K.astype(float) + K.T) / 2
    assert np.array_equal(T, whole[:4, 4:])
    assert np.array_equal(mirrored, T.T)
    assert np.array_equal(made.diagonal(B), np.diagonal(K)[4:])
    assert made.diagonal(B).dtype == np.float64
    part = np.empty((2, 4))
    made.fill(B.strip(1, 3), A, part)
    assert np.array_equal(part, whole[5:7, :4])


def test_precomputed_rows_against_columns_are_taken_as_they_are() -> None:
    """New rows of a matrix against training columns are read, not averaged."""
    K = np.arange(12.0).reshape(3, 4)
    made = Precomputed(Preparation())
    out = np.empty((3, 2))
    made.fill(MatrixOperand.of(ArrayRows(K), 0, 3), MatrixOperand.of(None, 1, 3), out)
    assert np.array_equal(out, K[:, 1:3])


def test_precomputed_kernel_takes_no_rows() -> None:
    """Operands of rows, and columns used as rows, are errors of the program."""
    made = Precomputed(Preparation())
    with pytest.raises(TypeError, match="operands of a matrix"):
        made.diagonal(made.operand(rows(3), float))
    with pytest.raises(TypeError, match="columns only"):
        made.diagonal(MatrixOperand.of(None, 0, 3))
