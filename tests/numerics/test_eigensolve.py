"""Eigensolves of operators with prescribed spectra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.eigensolve import (
    Criteria,
    Eigenpairs,
    _Krylov,
    block_lanczos,
    block_width,
    dense,
)

Array = NDArray[Any]


@pytest.fixture(autouse=True, scope="module")
def _blas_as_in_a_fit() -> Iterator[None]:
    with single_threaded_blas():
        yield


@dataclass
class Prescribed:
    """Q diag(spectrum) Qᵀ with a random orthogonal Q, in a given precision."""

    spectrum: Array
    dtype: Any = np.float64
    seed: int = 0
    n_products: int = 0

    def __post_init__(self) -> None:
        n = len(self.spectrum)
        self.Q = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((n, n)))[0]
        self.exact = self.Q * self.spectrum @ self.Q.T
        self.A = ((self.exact + self.exact.T) / 2).astype(self.dtype)

    @property
    def rounding(self) -> float:
        epsilon = float(np.finfo(self.dtype).eps)
        return 4 * epsilon * float(np.sqrt(len(self.A)) * np.abs(self.A).max())

    def __call__(self, V: Array) -> Array:
        self.n_products += 1
        return np.asarray(self.A @ V.astype(self.dtype), dtype=np.float64)

    def largest(self, count: int) -> Array:
        return np.sort(self.spectrum)[::-1][:count]


def lanczos(operator: Prescribed, count: int, **options: Any) -> Eigenpairs:
    n, width = len(operator.A), options.pop("width", max(2 * count, 4))
    start = np.random.default_rng(1).standard_normal((n, min(width, n)))
    defaults: dict[str, Any] = {
        "wanted": lambda theta: min(count, len(theta)),
        "tol": 1e-10,
        "max_passes": 60,
        "max_columns": 10 * n,
        "dtype": operator.dtype,
    }
    return block_lanczos(operator, options.pop("start", start), **(defaults | options))


def assert_is_solution(pairs: Eigenpairs, operator: Prescribed, count: int, tol: float) -> None:
    """Right values, orthonormal vectors, small residuals, and these are the ones that were reported."""
    scale = float(np.abs(operator.spectrum).max()) or 1.0
    assert pairs.enough
    assert pairs.n_converged == count == len(pairs.eigenvalues)
    np.testing.assert_allclose(pairs.eigenvalues, operator.largest(count), atol=tol * scale)
    U = pairs.eigenvectors
    np.testing.assert_allclose(U.T @ U, np.eye(count), atol=10 * tol)
    true = np.linalg.norm(operator.exact @ U - U * pairs.eigenvalues, axis=0)
    assert (true <= 10 * tol * scale).all()
    np.testing.assert_allclose(pairs.residual_norms, true, atol=tol * scale)


def spectra() -> dict[str, Array]:
    n = 120
    rest = 0.9 ** np.arange(n)
    repeated, cluster, deficient, indefinite = rest.copy(), rest.copy(), np.zeros(n), rest.copy()
    repeated[2:7] = repeated[2]  # cut by 4 components
    cluster[:6] = 1 - 1e-7 * np.arange(6)
    deficient[:3] = [5.0, 2.0, 1.0]
    indefinite[-1] = -0.8
    return {
        "fast decay": 0.5 ** np.arange(n),
        "slow decay": 1 / (1 + np.arange(n)),
        "repeated, cut": repeated,
        "cluster": cluster,
        "rank 3": deficient,
        "indefinite": indefinite,
        "identity": np.ones(n),
        "all negative": -rest,
        "tiny": 1e-30 * rest,
        "huge": 1e30 * rest,
    }


@pytest.mark.parametrize("name", spectra())
def test_prescribed_spectrum_is_found(name: str) -> None:
    """Four leading pairs of any spectrum are right to the tolerance."""
    operator = Prescribed(spectra()[name])
    pairs = lanczos(operator, 4)
    assert pairs.n_passes == operator.n_products
    assert_is_solution(pairs, operator, 4, 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_eigenvalue_is_found_whole(dtype: Any) -> None:
    """An eigenvalue of multiplicity five gives five pairs that span its eigenspace."""
    spectrum = np.concatenate([[3.0], np.full(5, 2.0), 0.5 ** np.arange(60)])
    operator = Prescribed(spectrum, dtype)
    tol = 1e-5 if dtype == np.float32 else 1e-9
    pairs = lanczos(operator, 6, tol=tol / 10)
    assert_is_solution(pairs, operator, 6, tol)
    space = operator.Q[:, :6]
    assert np.linalg.norm(pairs.eigenvectors - space @ (space.T @ pairs.eigenvectors)) < 10 * tol


@pytest.mark.parametrize(
    "name", ["fast decay", "slow decay", "repeated, cut", "rank 3", "identity", "indefinite"]
)
def test_float32_basis_and_products_reach_float32(name: str) -> None:
    """With a float32 operator and basis the pairs are right to float32, and the solve knows when to stop."""
    operator = Prescribed(spectra()[name], np.float32)
    pairs = lanczos(operator, 4, tol=1e-6)
    assert pairs.n_passes < 40
    assert_is_solution(pairs, operator, 4, 1e-5)


@pytest.mark.parametrize("max_columns", [24, 400])
def test_rounded_basis_costs_the_small_problem_nothing(max_columns: int) -> None:
    """Vectors from a float32 basis are orthonormal to float64, with and without restarts."""
    operator = Prescribed(spectra()["slow decay"], np.float32)
    pairs = lanczos(operator, 4, tol=1e-6, max_columns=max_columns)
    U = pairs.eigenvectors
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-13)


def test_small_directions_of_a_block_are_cleaned() -> None:
    """Directions that were tiny beside the basis are orthogonal to it once they have unit length."""
    rng = np.random.default_rng(3)
    krylov = _Krylov(np.dtype(np.float64))
    basis = np.linalg.qr(rng.standard_normal((80, 5)))[0]
    krylov.append(basis, basis)
    new = rng.standard_normal((80, 3)) * [1.0, 1e-6, 1e-8] @ rng.standard_normal((3, 3))
    product = basis @ rng.standard_normal((5, 3)) + new
    block = krylov.next_block(product, 0.0)
    assert block.shape == (80, 3)
    assert np.abs(basis.T @ block).max() < 1e-14
    np.testing.assert_allclose(block.T @ block, np.eye(3), atol=1e-14)


def test_tolerance_below_rounding_stops_at_rounding() -> None:
    """A tolerance that no product can give ends at the rounding, and says what that is."""
    operator = Prescribed(spectra()["slow decay"], np.float32)
    pairs = lanczos(operator, 4, tol=1e-14)
    assert pairs.enough
    assert pairs.n_passes < 40
    assert 1e-8 < pairs.attainable < 1e-5
    assert (pairs.residual_norms <= pairs.attainable * pairs.eigenvalues[0] * 1.001).all()


@pytest.mark.parametrize("name", ["slow decay", "repeated, cut", "cluster", "indefinite"])
@pytest.mark.parametrize("max_columns", [24, 32, 50])
def test_thick_restart_changes_nothing_but_passes(name: str, max_columns: int) -> None:
    """A basis held to a few columns gives the same pairs as one that never restarts."""
    operator = Prescribed(spectra()[name])
    pairs = lanczos(operator, 4, max_columns=max_columns)
    free = lanczos(Prescribed(spectra()[name]), 4)
    assert_is_solution(pairs, operator, 4, 1e-9)
    np.testing.assert_allclose(pairs.eigenvalues, free.eigenvalues, rtol=1e-9)
    assert pairs.n_passes >= free.n_passes


@pytest.mark.parametrize(
    ("name", "smallest"), [("indefinite", -0.8), ("all negative", -1.0), ("fast decay", 0.0)]
)
def test_low_end_is_seen(name: str, smallest: float) -> None:
    """The lowest estimate is at or above the lowest eigenvalue, and near it where it stands out."""
    pairs = lanczos(Prescribed(spectra()[name]), 4)
    assert pairs.smallest >= spectra()[name].min() - 1e-12
    assert pairs.smallest == pytest.approx(smallest, abs=1e-3)


def test_low_end_is_remembered_over_restarts() -> None:
    """A restart keeps the leading vectors only, and still the lowest estimate seen."""
    pairs = lanczos(Prescribed(spectra()["indefinite"]), 4, max_columns=24)
    assert pairs.smallest == pytest.approx(-0.8, abs=1e-2)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tiny_matrices(n: int) -> None:
    """All eigenvalues of a matrix of a few rows, more asked for than there are."""
    operator = Prescribed(np.arange(n, 0, -1.0))
    assert_is_solution(lanczos(operator, 7), operator, n, 1e-12)


def test_zero_operator_has_zero_eigenvalues() -> None:
    """An operator that is zero converges at once with eigenvalues 0 and nothing that is NaN."""
    pairs = lanczos(Prescribed(np.zeros(30)), 3)
    assert (pairs.n_passes, pairs.enough, pairs.attainable) == (1, True, 0.0)
    assert np.array_equal(pairs.eigenvalues, np.zeros(3))
    assert np.isfinite(pairs.eigenvectors).all()
    assert pairs.smallest == 0


def test_rank_deficient_operator_ends_with_zeros() -> None:
    """More components than the rank: the rest are 0 to rounding, and few passes are enough."""
    operator = Prescribed(spectra()["rank 3"])
    pairs = lanczos(operator, 8)
    assert_is_solution(pairs, operator, 8, 1e-12)
    assert pairs.n_passes <= 3


def test_dependent_start_columns_are_left_out() -> None:
    """A start block whose columns are copies of two works as those two."""
    operator = Prescribed(spectra()["fast decay"])
    two = np.random.default_rng(2).standard_normal((120, 2))
    start = two @ np.array([[1.0, 0, 1, 2], [0, 1, 1, 1e-3]])
    pairs = lanczos(operator, 4, start=start)
    assert_is_solution(pairs, operator, 4, 1e-9)


def test_good_start_needs_one_pass() -> None:
    """From the vectors of a solve another one converges with its first product."""
    operator = Prescribed(spectra()["slow decay"])
    found = lanczos(operator, 4)
    again = lanczos(operator, 4, start=found.ritz_block, tol=1e-8)
    assert again.n_passes == 1
    assert_is_solution(again, operator, 4, 1e-8)


def test_passes_alone_are_no_convergence() -> None:
    """One pass finds estimates and says that none has converged."""
    operator = Prescribed(spectra()["slow decay"])
    pairs = lanczos(operator, 4, max_passes=1)
    assert (pairs.n_passes, pairs.n_converged, pairs.enough) == (1, 0, False)
    assert len(pairs.eigenvalues) == len(pairs.residual_norms) == 4
    true = np.linalg.norm(operator.A @ pairs.eigenvectors - pairs.eigenvectors * pairs.eigenvalues, axis=0)
    np.testing.assert_allclose(pairs.residual_norms, true, rtol=1e-10)


@pytest.mark.parametrize("max_passes", range(2, 8))
def test_unfinished_solve_is_consistent_wherever_it_ends(max_passes: int) -> None:
    """Ended before, at or after a restart, values, vectors and residuals belong together."""
    operator = Prescribed(spectra()["slow decay"])
    pairs = lanczos(operator, 6, width=8, max_columns=20, max_passes=max_passes, tol=1e-13)
    assert not pairs.enough
    assert pairs.n_converged < 6
    U = pairs.eigenvectors
    true = np.linalg.norm(operator.A @ U - U * pairs.eigenvalues, axis=0)
    np.testing.assert_allclose(pairs.residual_norms, true, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12)


def test_more_wanted_than_columns_allow_is_not_enough() -> None:
    """Where the columns cannot hold what is wanted, what there is comes back, consistent and not enough."""
    operator = Prescribed(np.arange(100.0))
    for max_passes in range(2, 7):
        pairs = lanczos(operator, 20, width=4, max_columns=16, max_passes=max_passes, wanted=lambda _: 20)
        assert not pairs.enough
        assert len(pairs.eigenvalues) == len(pairs.residual_norms) == pairs.eigenvectors.shape[1]


def share(part: float, trace: float) -> Callable[[Array], int | None]:
    def fewest(theta: Array) -> int | None:
        reached = np.cumsum(theta) >= part * trace
        return int(np.argmax(reached)) + 1 if reached.any() else None

    return fewest


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_share_is_met_by_the_fewest(part: float) -> None:
    """A number of pairs that follows from the estimates is the one of the true spectrum."""
    operator = Prescribed(0.9 ** np.arange(120))
    trace = operator.spectrum.sum()
    pairs = lanczos(operator, 4, wanted=share(part, trace))
    expected = int(np.argmax(np.cumsum(operator.spectrum) >= part * trace)) + 1
    assert_is_solution(pairs, operator, expected, 1e-9)


def test_share_that_is_never_told_is_not_enough() -> None:
    """Where the number wanted cannot be told, the solve ends with what there is, and not enough."""
    pairs = lanczos(Prescribed(spectra()["rank 3"]), 2, wanted=lambda _: None)
    assert not pairs.enough
    np.testing.assert_allclose(pairs.eigenvalues[:3], [5, 2, 1], atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_share_of_an_often_repeated_eigenvalue(dtype: Any) -> None:
    """More copies of one eigenvalue than the block is wide are found, as many as make up the share."""
    spectrum = np.concatenate([[2.0], np.ones(40), np.zeros(59)])
    operator = Prescribed(spectrum, dtype)
    pairs = lanczos(operator, 2, wanted=share(0.7, 42.0), tol=1e-5)
    assert_is_solution(pairs, operator, 29, 1e-4)
    assert pairs.n_passes <= 16  # two for each block of fresh directions


def test_exhausted_space_ends_a_share() -> None:
    """Where nothing is left that is not zero a share that cannot be met ends, also in a small space."""
    for spectrum in (spectra()["rank 3"], np.ones(9), np.zeros(20)):
        pairs = lanczos(Prescribed(spectrum), 2, wanted=lambda _: None)
        assert pairs.n_passes <= 4
        assert not pairs.enough
        assert np.isfinite(pairs.eigenvalues).all()


def test_all_wanted_vectors_start_another_solve() -> None:
    """A share that needs more vectors than the block was wide hands all of them on: one pass is enough."""
    operator = Prescribed(0.9 ** np.arange(120))
    wanted = share(0.9, operator.spectrum.sum())
    pairs = lanczos(operator, 4, wanted=wanted)
    assert len(pairs.eigenvalues) > 8
    assert lanczos(operator, 4, wanted=wanted, start=pairs.ritz_block, tol=1e-8).n_passes == 1


def test_stagnation_ends_a_coarse_solve() -> None:
    """Where products are noisier than the operator says, a solve that may stop does, before its last pass."""

    @dataclass
    class Noisy(Prescribed):
        @property
        def rounding(self) -> float:
            return 0.0

        def __call__(self, V: Array) -> Array:
            noise = np.random.default_rng(self.n_products).standard_normal(V.shape)
            return super().__call__(V) + 1e-4 * noise

    options: dict[str, Any] = {"tol": 1e-9, "max_passes": 40, "max_columns": 24}
    stopped = lanczos(Noisy(spectra()["slow decay"]), 4, criteria=Criteria(stop_stagnant=True), **options)
    assert stopped.n_passes < 30
    assert not stopped.enough
    np.testing.assert_allclose(stopped.eigenvalues, 1 / (1 + np.arange(4)), atol=1e-2)


@settings(max_examples=25)
@given(
    st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 5), st.sampled_from([np.float32, np.float64])
)
def test_any_small_operator(seed: int, n: int, count: int, dtype: Any) -> None:
    """For random spectra of either sign the reported pairs are pairs of the matrix, largest first."""
    rng = np.random.default_rng(seed)
    operator = Prescribed(rng.standard_normal(n) ** 3, dtype, seed)
    pairs = lanczos(operator, count, tol=1e-6)
    assert_is_solution(pairs, operator, min(count, n), 1e-4 if dtype == np.float32 else 2e-6)


def test_dense_finds_all_and_the_low_end() -> None:
    """LAPACK's pairs are those of the spectrum; the lowest eigenvalue is exact."""
    operator = Prescribed(spectra()["indefinite"])
    pairs = dense(operator.A, wanted=lambda _: 5)
    assert_is_solution(pairs, operator, 5, 1e-13)
    assert pairs.smallest == pytest.approx(-0.8, abs=1e-12)
    assert pairs.n_passes == 1


def test_dense_gives_no_more_than_there_is() -> None:
    """More asked for than rows gives all; a number that cannot be told gives all and is not enough."""
    operator = Prescribed(np.array([3.0, 2.0, 1.0]))
    assert len(dense(operator.A, wanted=lambda _: 9).eigenvalues) == 3
    untold = dense(operator.A, wanted=lambda _: None)
    assert (len(untold.eigenvalues), untold.enough) == (3, False)


@pytest.mark.parametrize(
    ("n_components", "n_samples", "expected"),
    [(1, 1000, 8), (10, 1000, 20), (32, 1000, 64), (100, 1000, 132), (10, 15, 15), (1, 3, 3)],
)
def test_block_width(n_components: int, n_samples: int, expected: int) -> None:
    """Twice the components, at least 8, at most 32 more than them and no more than the rows."""
    assert block_width(n_components, n_samples) == expected


def test_value_error_asks_for_more_than_residuals() -> None:
    """Eigenvalues are exact to what is asked of them, where residuals alone would stop before."""
    operator = Prescribed(0.8 ** np.arange(60.0))
    loose = lanczos(operator, 4, tol=1e-2, width=6)
    exact = lanczos(operator, 4, tol=1e-2, width=6, criteria=Criteria(value_error=1e-10))
    assert exact.n_passes > loose.n_passes
    assert np.abs(loose.eigenvalues - operator.largest(4)).max() > 1e-10
    np.testing.assert_allclose(exact.eigenvalues, operator.largest(4), atol=1e-10)


def test_random_directions_find_what_a_start_lacks() -> None:
    """A start without one of the leading eigenvectors ends with it, if it holds a random column."""
    operator = Prescribed(np.r_[9.0, 8, 7, 6, np.linspace(1, 0.5, 36)])
    vectors = np.linalg.eigh(operator.exact)[1][:, ::-1]
    random = np.random.default_rng(0).standard_normal((40, 1))
    start = np.column_stack([vectors[:, [0, 2, 3]], random])
    found = lanczos(operator, 4, start=start, criteria=Criteria(min_passes=2))
    np.testing.assert_allclose(found.eigenvalues, [9, 8, 7, 6], rtol=1e-9)
