"""From what was asked for to a kernel with all its numbers."""

from __future__ import annotations

import os.path
import warnings
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.numerics.kernels import Kernel, Laplacian, Own, Preparation, Rbf, RowPairs
from kpca_stream.numerics.moments import Moments
from kpca_stream.numerics.resolve import KernelSpec, block_kernel, find_name, make_kernel, resolve_kernel

Array = NDArray[Any]


def rows(n: int = 60, d: int = 4) -> Array:
    return np.random.default_rng(0).standard_normal((n, d)) * [1.0, 2.0, 0.5, 3.0][:d] + 10


def resolved(X: Array, *, scale: bool = False, **asked: Any) -> Any:
    return resolve_kernel(KernelSpec(**asked), Moments.of(X), X, scale=scale)


def pair(x: Array, y: Array) -> float:
    return float(x @ y)


@block_kernel
def blocks(X: Array, Y: Array) -> Array:
    return X @ Y.T


def matrix(kernel: Kernel, X: Array) -> Array:
    a = kernel.offset(kernel.operand(X, float))
    return kernel.matrix(X, X) + a[:, None] + a


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "polynomial", "sigmoid"])
def test_gamma_none_is_one_over_features(name: str) -> None:
    """Without gamma it is 1/n_features, resolved to a number."""
    assert resolved(rows(), name=name).gamma == 0.25


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly"])
def test_gamma_scale_is_of_all_values(name: str) -> None:
    """The rule "scale" is 1/(n_features · variance of all values)."""
    X = rows()
    assert resolved(X, name=name, gamma="scale").gamma == pytest.approx(1 / (4 * X.var()))


def test_gamma_scale_of_standardised_rows() -> None:
    """Of standardised rows the variance is 1 but for constant columns, which count as 0."""
    X = rows()
    X[:, 1] = 7
    Z = np.delete((X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1), 1, axis=1)
    expected = 1 / (4 * np.concatenate([Z, np.zeros((60, 1))], axis=1).var())
    assert resolved(X, name="rbf", gamma="scale", scale=True).gamma == pytest.approx(expected)


def test_gamma_median_is_of_pairwise_distances() -> None:
    """The rule "median" is 1/(2·median²) of Euclidean, for laplacian 1/median of L1 distances."""
    X = rows(25)
    i, j = np.triu_indices(25, 1)
    euclidean = np.median(np.linalg.norm(X[i] - X[j], axis=1))
    city = np.median(np.abs(X[i] - X[j]).sum(axis=1))
    assert resolved(X, name="rbf", gamma="median").gamma == pytest.approx(1 / (2 * euclidean**2))
    assert resolved(X, name="laplacian", gamma="median").gamma == pytest.approx(1 / city)


def test_gamma_as_a_number_is_taken() -> None:
    """A number stays what it is."""
    assert resolved(rows(), name="rbf", gamma=0.125).gamma == 0.125


@pytest.mark.parametrize("X", [np.ones((5, 3)), np.ones((1, 3)), np.repeat(np.eye(2), [9, 1], axis=0)])
def test_gamma_median_of_equal_rows_is_refused(X: Array) -> None:
    """A median distance of 0, or of no pair, gives no gamma."""
    with pytest.raises(
        ConfigError, match=r'gamma: "median" needs rows that differ, got a median distance of 0 over'
    ):
        resolved(X, name="rbf", gamma="median")


def test_gamma_scale_of_constant_values_is_refused() -> None:
    """Values that do not vary give no gamma."""
    with pytest.raises(ConfigError, match=r'gamma: "scale" needs values that vary, got variance 0'):
        resolved(np.ones((5, 3)), name="rbf", gamma="scale")


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "rbf", "gamma": 0},
        {"name": "rbf", "gamma": -1.0},
        {"name": "rbf", "gamma": float("nan")},
        {"name": "poly", "gamma": "median"},
        {"name": "poly", "degree": 2.5},
        {"name": "poly", "degree": 0},
        {"name": "poly", "coef0": -1.0},
        {"name": "rfb"},
    ],
)
def test_parameters_that_spoil_a_kernel_are_refused(asked: dict[str, Any]) -> None:
    """Parameters that make a kernel indefinite or empty are an error of the configuration."""
    with pytest.raises(ConfigError, match=r"^kernel (gamma|degree|coef0|name): "):
        KernelSpec(**asked)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly", "sigmoid", "cosine"])
@pytest.mark.parametrize("scale", [False, True])
def test_resolved_kernel_is_the_formula(name: str, *, scale: bool) -> None:
    """The kernel and its offsets give the formula's values of the rows, standardised where asked."""
    X = rows()
    seen = (X - X.mean(axis=0)) / X.std(axis=0) if scale else X
    parameters: dict[str, Any] = {} if name in ("linear", "cosine") else {"gamma": 0.05}
    expected = reference.kernel(name, seen, seen, **parameters)
    found = matrix(resolved(X, name=name, scale=scale, **parameters), X)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_constant_column_becomes_zero_when_scaled() -> None:
    """A column that never varies does not count, at training and for new rows."""
    X = rows()
    X[:, 1] = 0.1
    kernel = resolved(X, name="linear", scale=True)
    new = X[:3].copy()
    new[:, 1] = 99
    np.testing.assert_allclose(kernel.matrix(new, X), kernel.matrix(X[:3], X), atol=1e-12)


def test_kernel_near_the_identity_is_warned_of() -> None:
    """Where most entries are nearly 0 the warning names the gamma and one that would help."""
    X = rows()
    median = resolved(X, name="rbf", gamma="median").gamma
    with pytest.warns(
        KpcaStreamWarning, match=rf"rbf with gamma=100: K is close to the identity.*{median:.3g} \(median\)"
    ):
        resolved(X, name="rbf", gamma=100.0)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_nearly_constant_kernel_is_warned_of(name: str) -> None:
    """Where every entry is nearly 1 the warning says so, and exp − 1 is used."""
    with pytest.warns(KpcaStreamWarning, match=f"{name} with gamma=1e-10: K is nearly constant.*median"):
        kernel = resolved(rows(), name=name, gamma=1e-10)
    assert kernel.shift == 1


def test_equal_rows_are_warned_of_without_advice() -> None:
    """Rows that are all the same make K constant, and no gamma would help."""
    with pytest.warns(KpcaStreamWarning, match="no gamma would help"):
        resolved(np.ones((5, 3)), name="rbf", gamma=1.0)


@pytest.mark.parametrize("kind", [Rbf, Laplacian])
def test_shift_is_used_where_all_entries_are_large(kind: type[Rbf | Laplacian]) -> None:
    """Entries all above 0.9 are shifted without a warning, ordinary ones are not."""
    X = rows()
    largest = -np.log(reference.kernel(kind.name, X, X, gamma=0.01).min()) / 0.01  # distance
    assert resolved(X, name=kind.name, gamma=0.05 / largest).shift == 1
    assert resolved(X, name=kind.name, gamma=0.2 / largest).shift == 0


def test_single_row_resolves() -> None:
    """One row has no pairs to look at, and no warning."""
    assert resolved(rows(1), name="rbf").shift == 0


def test_function_of_rows_and_of_blocks() -> None:
    """A callable takes two rows, a marked one two blocks; both give the same kernel."""
    X = rows(7)
    by_pairs, by_blocks = (resolved(X, name="mine", function=f) for f in (pair, blocks))
    assert isinstance(by_pairs.function, RowPairs)
    assert by_blocks.function is blocks
    np.testing.assert_allclose(by_pairs.matrix(X, X), X @ X.T, rtol=1e-13)
    np.testing.assert_allclose(by_blocks.matrix(X, X), X @ X.T, rtol=1e-13)


def test_function_is_found_by_name() -> None:
    """A name ``package.module:function`` is a function of two blocks."""
    X = rows(7)
    kernel = resolved(X, name="sklearn.metrics.pairwise:linear_kernel")
    assert kernel.label == "sklearn.metrics.pairwise:linear_kernel"
    np.testing.assert_allclose(kernel.matrix(X, X), X @ X.T, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_package:f", "cannot be found"),
        ("math:no_such_function", "cannot be found"),
        ("math:pi", "is a float; expected a function"),
    ],
)
def test_function_that_is_not_there_is_refused(name: str, said: str) -> None:
    """A name that leads to nothing, or to no function, is an error that names it."""
    with pytest.raises(ConfigError, match=f"{name}.*{said}"):
        resolved(rows(), name=name)


def test_stored_function_is_found_again() -> None:
    """The name of a function at the top of a module leads back to it."""
    functions: tuple[Any, ...] = (os.path.join, RowPairs(os.path.join))  # type: ignore[arg-type]
    for function in functions:
        name = find_name(Own(Preparation(), function, "mine"))
        assert name == "posixpath:join"
        assert make_kernel(KernelSpec(name), Preparation(), gamma=0).function is os.path.join  # type: ignore[attr-defined]


def test_function_without_a_name_cannot_be_stored() -> None:
    """A lambda, a local function, one of the main program and a callable object are refused."""

    def local(X: Array, Y: Array) -> Array:
        return X @ Y.T

    class Thing:
        def __call__(self, X: Array, Y: Array) -> Array:
            return X @ Y.T

    main = block_kernel(lambda X, Y: X @ Y.T)
    main.__module__, main.__qualname__ = "__main__", "main"
    for function in (lambda X, Y: X @ Y.T, local, Thing(), main):
        with pytest.raises(DataError, match="kernel mine cannot be found again by name"):
            find_name(Own(Preparation(), function, "mine"))


def test_kernels_without_gamma_ignore_it() -> None:
    """A gamma that a kernel does not have is not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("linear", "cosine", "precomputed"):
            assert not hasattr(resolved(rows(), name=name, gamma=-1.0), "gamma")
