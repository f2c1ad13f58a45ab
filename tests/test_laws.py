"""Laws that hold for every data set, through `KernelPCA` and through `fitting.fit`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import dask.array as da
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from kpca_stream import KernelPCA
from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.stages.centering import centre
from kpca_stream.stages.scoring import Scores, score_block
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]

PARAMETERS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "rbf": {"gamma": 0.15},
    "laplacian": {"gamma": 0.1},
    "cosine": {},
}
kernels = pytest.mark.parametrize("name", PARAMETERS)
solvers = pytest.mark.parametrize("method", ["dense", "lanczos"])


def rows(n_samples: int = 60, n_features: int = 4, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((n_samples, n_features)) + 0.4


def model(name: str, n_components: float | None = 3, **more: Any) -> KernelPCA:
    return KernelPCA(n_components, kernel=name, **{**PARAMETERS[name], **more})


def fitted(X: Array, name: str = "rbf", weights: Array | None = None, **more: Any) -> Fit:
    spec = KernelSpec(name, **PARAMETERS[name])
    return fit(open_source(X), FitSettings(kernel=spec, **{"n_components": 3, **more}), weights=weights)


def scored(found: Fit, X: Array) -> Scores:
    return score_block(found.basis, ArrayRows(X))


def assert_same_up_to_signs(found: Array, expected: Array, *, relative: float) -> None:
    signs = np.sign((found * expected).sum(axis=0))
    largest = np.abs(expected).max()
    np.testing.assert_allclose(found * signs, expected, rtol=0, atol=relative * largest)


# What kernel PCA is


@solvers
def test_the_linear_kernel_is_ordinary_pca(method: str) -> None:
    """Scores, variances, ratios and residuals are those of principal component analysis."""
    X, X_new = rows(80, 6), rows(10, 6, seed=2)
    ours = KernelPCA(3, eigen_solver=method).fit(X)
    pca = PCA(3, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.explained_variance_, pca.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(ours.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-10)
    assert_same_up_to_signs(ours.transform(X_new), pca.transform(X_new), relative=1e-10)
    residual = X_new - pca.inverse_transform(pca.transform(X_new))
    np.testing.assert_allclose(ours.reconstruction_error(X_new), (residual**2).sum(axis=1), rtol=1e-9)


@kernels
@solvers
def test_everything_follows_the_definitions(name: str, method: str) -> None:
    """Eigenvalues, means, trace, scores and errors are those of formulas written out in float64."""
    X, X_new = rows(), rows(15, seed=2)
    ours = model(name, eigen_solver=method).fit(X)
    K, k_new = (reference.kernel(name, A, X, **PARAMETERS[name]) for A in (X, X_new))
    k_self = np.diagonal(reference.kernel(name, X_new, X_new, **PARAMETERS[name]))
    truth = reference.solve(K, 3)
    np.testing.assert_allclose(ours.eigenvalues_, truth.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(ours.row_means_, truth.row_means, rtol=1e-12)
    assert ours.grand_mean_ == pytest.approx(truth.grand_mean, rel=1e-12)
    np.testing.assert_allclose(ours.explained_variance_ratio_, truth.eigenvalues / truth.trace, rtol=1e-10)
    assert_same_up_to_signs(ours.transform(X_new), reference.new_scores(truth, k_new), relative=1e-9)
    error = reference.reconstruction_error(truth, k_new, k_self)
    np.testing.assert_allclose(ours.reconstruction_error(X_new), error, rtol=1e-8)


@kernels
@solvers
def test_training_rows_score_as_they_were_trained(name: str, method: str) -> None:
    """`fit_transform(X)` and `fit(X).transform(X)` are the same."""
    X = rows()
    ours = model(name, eigen_solver=method)
    scores = ours.fit_transform(X)
    np.testing.assert_allclose(ours.transform(X), scores, rtol=0, atol=1e-11 * np.abs(scores).max())


@kernels
@solvers
def test_score_columns(name: str, method: str) -> None:
    """Columns of training scores have mean 0, are orthogonal, and have variance μ/(n − 1)."""
    ours = model(name, eigen_solver=method)
    scores = ours.fit_transform(rows())
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12 * np.abs(scores).max())
    products = scores.T @ scores
    np.testing.assert_allclose(products, np.diag(ours.eigenvalues_), atol=1e-11 * products.max())
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), ours.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(ours.eigenvectors_, axis=0), 1, rtol=1e-12)


@kernels
@pytest.mark.parametrize("n_components", [1, 4])
def test_squared_residuals_add_up(name: str, n_components: int) -> None:
    """Σ e(x_i) = tr K̃ − Σ μ_j, so that the ratios and the errors tell the same."""
    X = rows()
    ours = model(name, n_components).fit(X)
    trace = np.trace(reference.centred(reference.kernel(name, X, X, **PARAMETERS[name])))
    error = ours.reconstruction_error(X)
    assert error.sum() == pytest.approx(trace - ours.eigenvalues_.sum(), rel=1e-10)
    assert error.sum() == pytest.approx(trace * (1 - ours.explained_variance_ratio_.sum()), rel=1e-10)


@kernels
def test_all_components_keep_everything(name: str) -> None:
    """With all of them training residuals are 0 and ‖z_i − z_j‖² = K_ii + K_jj − 2K_ij."""
    X = rows(30)
    ours = model(name, None)
    scores = ours.fit_transform(X)
    K = reference.kernel(name, X, X, **PARAMETERS[name])
    d = np.diagonal(K)
    scale = d.max()
    np.testing.assert_allclose(ours.reconstruction_error(X), 0, atol=1e-11 * scale)
    distances = reference.squared_distances(scores, scores)
    np.testing.assert_allclose(distances, d[:, None] + d - 2 * K, atol=1e-10 * scale)
    assert ours.explained_variance_ratio_.sum() == pytest.approx(1, rel=1e-10)


@kernels
@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
def test_rank_is_below_the_number_of_rows(name: str, eigen_solver: str) -> None:
    """At most n − 1 of n eigenvalues are positive, whatever is asked for; the rest are exactly 0."""
    X = rows(8, 12)
    ours = model(name, 20, eigen_solver=eigen_solver)
    scores = ours.fit_transform(X)
    assert ours.eigenvalues_.shape == (8,)
    assert (ours.eigenvalues_[:7] > 0).all()
    assert ours.eigenvalues_[7] == 0
    np.testing.assert_array_equal(scores[:, 7], 0)
    np.testing.assert_allclose(ours.eigenvectors_.T @ ours.eigenvectors_, np.eye(8), atol=1e-10)


@kernels
def test_error_shrinks_with_every_component(name: str) -> None:
    """A larger model is never farther from a row, and no distance is negative."""
    X, X_new = rows(), 2 * rows(20, seed=3)
    errors = [model(name, k).fit(X).reconstruction_error(X_new) for k in (1, 2, 5)]
    assert (errors[-1] >= 0).all()
    assert all((b <= a + 1e-12).all() for a, b in pairwise(errors))


def test_centring_leaves_rows_that_sum_to_zero() -> None:
    """Rows and columns of K̃ sum to zero, even where K is large and nearly constant."""
    K = 1e6 + reference.kernel("rbf", rows(), rows(), gamma=0.1)
    centred = centre(K, np.ones(60))
    assert np.abs(centred.sum(axis=0)).max() < 1e-9
    assert np.abs(centred.sum(axis=1)).max() < 1e-9


# What changes nothing


@pytest.mark.parametrize(("name", "power"), [("rbf", 2), ("laplacian", 1), ("poly", 2), ("sigmoid", 2)])
@pytest.mark.filterwarnings("ignore:kernel sigmoid is not positive")
def test_scaling_the_data_is_scaling_gamma(name: str, power: int) -> None:
    """X·b with γ/b² (laplacian: γ/b) gives the same model."""
    X, b = rows(), 37.0
    one = KernelPCA(2, kernel=name, gamma=0.02).fit(X)
    other = KernelPCA(2, kernel=name, gamma=0.02 / b**power).fit(b * X)
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-9)
    assert_same_up_to_signs(other.transform(b * X), one.transform(X), relative=1e-9)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian"])
def test_moving_the_data_changes_nothing(name: str) -> None:
    """The same vector added to all rows leaves eigenvalues, scores and errors as they are."""
    X = rows()
    shift = np.array([1e3, -2e3, 500.0, 0.0])
    one, other = model(name).fit(X), model(name).fit(X + shift)
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-9)
    assert_same_up_to_signs(other.transform(X + shift), one.transform(X), relative=1e-9)
    np.testing.assert_allclose(
        other.reconstruction_error(X + shift), one.reconstruction_error(X), rtol=1e-8, atol=1e-10
    )


@kernels
@solvers
def test_order_of_rows_changes_nothing(name: str, method: str) -> None:
    """Permuted rows give the same eigenvalues and scores to 1e-10, up to signs."""
    X, X_new = rows(200), rows(10, seed=5)
    order = np.random.default_rng(0).permutation(200)
    one, other = (model(name, eigen_solver=method).fit(A) for A in (X, X[order]))
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-10)
    assert_same_up_to_signs(other.transform(X_new), one.transform(X_new), relative=1e-10)
    np.testing.assert_allclose(other.row_means_, one.row_means_[order], rtol=1e-10)


@kernels
@solvers
@pytest.mark.parametrize("tile_rows", [7, 64, 199])
def test_tile_size_changes_nothing(name: str, method: Literal["dense", "lanczos"], tile_rows: int) -> None:
    """Any tiles, ragged or not, give the same to 1e-10."""
    X, X_new = rows(200), rows(10, seed=5)
    one = fitted(X, name, method=method)
    other = fitted(X, name, method=method, tile_rows=tile_rows)
    np.testing.assert_allclose(other.basis.eigenvalues, one.basis.eigenvalues, rtol=1e-10)
    assert_same_up_to_signs(scored(other, X_new).scores, scored(one, X_new).scores, relative=1e-10)


@pytest.mark.parametrize("storage", ["memory", "zarr", "recompute"])
def test_storage_changes_no_bit(storage: str) -> None:
    """Tiles from memory, from disk, or computed again for each pass give equal bits."""
    X = rows(150)
    one = KernelPCA(3, kernel="rbf", eigen_solver="lanczos").fit(X)
    other = KernelPCA(3, kernel="rbf", eigen_solver="lanczos", storage=storage).fit(X)
    np.testing.assert_array_equal(other.eigenvectors_, one.eigenvectors_)
    np.testing.assert_array_equal(other.transform(X[:9]), one.transform(X[:9]))


@pytest.mark.parametrize("gamma", [0.3, "scale", "median", None])
@pytest.mark.parametrize("chunks", [(1, 4), (77, 3), ((0, 100, 0, 20, 80), 4), (200, 1)])
def test_chunks_change_no_bit(gamma: Any, chunks: Any) -> None:
    """A Dask array gives the same γ and the same model for any chunks."""
    X = rows(200)
    one = KernelPCA(3, kernel="rbf", gamma=gamma).fit(X)
    other = KernelPCA(3, kernel="rbf", gamma=gamma).fit(da.from_array(X, chunks=chunks))
    assert other.gamma_ == one.gamma_
    np.testing.assert_array_equal(other.eigenvectors_, one.eigenvectors_)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@kernels
def test_a_score_does_not_depend_on_its_part(name: str, precision: str, tolerance: float) -> None:
    """A row scored alone, in a part, or with all others differs by rounding only."""
    X, X_new = rows(150), rows(600, seed=4)
    ours = model(name, precision=precision).fit(X)
    whole = ours.transform(X_new)
    limit = tolerance * np.abs(whole).max(axis=0)
    for part in (slice(3, 4), slice(10, 17), slice(100, 513), slice(599, 600)):
        assert (np.abs(ours.transform(X_new[part]) - whole[part]) <= limit).all()


@kernels
@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_a_weight_is_a_number_of_copies(name: str, method: Literal["dense", "lanczos"]) -> None:
    """Weighted rows give what repeated rows give: scores, errors, T², thresholds, means and variances."""
    X, X_new = rows(40), rows(10, seed=2)
    weights = np.random.default_rng(3).integers(1, 4, 40)
    copies = np.repeat(np.arange(40), weights)
    one = fitted(X[copies], name, method=method)
    other = fitted(X, name, weights.astype(float), method=method)
    np.testing.assert_allclose(other.basis.eigenvalues, one.basis.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(other.basis.explained_variance, one.basis.explained_variance, rtol=1e-10)
    np.testing.assert_allclose(other.basis.row_means[np.repeat(np.arange(40), weights)], one.basis.row_means)
    assert other.basis.trace == pytest.approx(one.basis.trace, rel=1e-10)
    a, b = scored(other, X_new), scored(one, X_new)
    assert_same_up_to_signs(a.scores, b.scores, relative=1e-10)
    errors = np.asarray(a.reconstruction_error), np.asarray(b.reconstruction_error)
    np.testing.assert_allclose(*errors, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.hotelling_t2, b.hotelling_t2, rtol=1e-9)
    for limit in ("reconstruction_error", "hotelling_t2", "error_quantiles", "t2_quantiles"):
        found, expected = (getattr(f.basis.thresholds, limit) for f in (other, one))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_a_weighted_training_score_is_that_of_one_copy() -> None:
    """`fit_transform` with weights gives z = √μ a/√w, as `transform` does, also for rows of weight 0."""
    X = rows(40)
    weights = np.r_[np.zeros(5), np.linspace(0.2, 3, 35)]
    ours = model("rbf")
    scores = ours.fit_transform(X, sample_weight=weights)
    assert scores.shape == (40, 3)
    np.testing.assert_allclose(scores, ours.transform(X), atol=1e-12)
    left = model("rbf").fit(X[5:], sample_weight=weights[5:])
    np.testing.assert_allclose(ours.eigenvalues_, left.eigenvalues_, rtol=1e-12)
    z = left.fit_transform(X[5:], sample_weight=weights[5:])
    np.testing.assert_allclose(z, left.transform(X[5:]), atol=1e-12)


# Limits of γ


@pytest.mark.parametrize("gamma", [1e-4, 1e-6])
def test_small_gamma_is_pca(gamma: float) -> None:
    """As γ → 0, μ → 2γ times the eigenvalues of the linear kernel, with an error that is of order γ."""
    X = rows(100)
    linear = KernelPCA(3).fit(X)
    ours = KernelPCA(3, kernel="rbf", gamma=gamma).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, 2 * gamma * linear.eigenvalues_, rtol=40 * gamma)
    assert_same_up_to_signs(ours.transform(X) / np.sqrt(2 * gamma), linear.transform(X), relative=100 * gamma)


def test_large_gamma_is_the_identity() -> None:
    """As γ → ∞, K → I: all n − 1 eigenvalues are 1, and it is warned."""
    with pytest.warns(KpcaStreamWarning, match="close to the identity"):
        ours = KernelPCA(None, kernel="rbf", gamma=1e6).fit(rows(30))
    np.testing.assert_allclose(ours.eigenvalues_, np.ones(29), rtol=1e-12)


# Signs


def first_large(scores: Array, tie: float) -> Array:
    """The first score of each column that is within `tie` of the largest in size."""
    large = np.abs(scores) >= (1 - tie) * np.abs(scores).max(axis=0)
    return np.asarray(scores[large.argmax(axis=0), np.arange(scores.shape[1])])


@pytest.mark.parametrize(("dtype", "tie"), [(np.float64, 1e-6), (np.float32, 1e-3)])
@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
@kernels
def test_the_first_large_score_is_positive(name: str, eigen_solver: str, dtype: Any, tie: float) -> None:
    """The first training score that is (nearly) as large as the largest is positive, in each component."""
    X = rows(100).astype(dtype)
    scores = model(name, 4, eigen_solver=eigen_solver).fit_transform(X)
    assert (first_large(scores, tie) > 0).all()


@pytest.mark.parametrize("flip", [1.0, -1.0])
@pytest.mark.parametrize(("dtype", "off"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("first", [0, 2])
def test_near_ties_are_decided_by_position(first: int, dtype: Any, off: float, flip: float) -> None:
    """Of two scores of nearly the same size and opposite signs the first is positive, whichever is larger."""
    x = np.array([0.0, 0.1, 0.0, -0.1, 0.0])
    x[first] = flip
    x[4] = -flip * (1 + off)
    scores = KernelPCA(1).fit_transform(x[:, None].astype(dtype))
    assert scores[first, 0] > 0
    assert scores[4, 0] < 0


@pytest.mark.parametrize("seed", range(3))
def test_signs_do_not_depend_on_the_solver(seed: int) -> None:
    """Dense and Lanczos, whatever its first block, give the same signs."""
    X = rows(120, seed=seed)
    dense = KernelPCA(4, kernel="rbf", eigen_solver="dense").fit_transform(X)
    lanczos = KernelPCA(4, kernel="rbf", eigen_solver="lanczos", random_state=seed).fit_transform(X)
    np.testing.assert_allclose(lanczos, dense, atol=1e-8)


# On generated rows


matrices = st.tuples(st.integers(2, 12), st.integers(1, 4), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))


@settings(max_examples=40)
@given(matrices, st.sampled_from(["linear", "rbf", "laplacian", "cosine"]), st.integers(1, 15))
@pytest.mark.filterwarnings("ignore:.*(close to the identity|nearly constant)")
def test_no_rows_break_the_sums(shape: tuple[int, int, int, float], name: str, n_components: int) -> None:
    """For any rows all is finite, Σ μ + Σ e = tr K̃, and transform(X) gives the training scores."""
    n_samples, n_features, seed, scale = shape
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n_samples, n_features)).round(1)  # rounding makes some rows the same
    ours = KernelPCA(n_components, kernel=name)
    scores = ours.fit_transform(X)
    assert scores.shape == (n_samples, min(n_components, n_samples))
    assert np.isfinite(scores).all()
    gamma: dict[str, Any] = {"gamma": 1 / n_features} if name in ("rbf", "laplacian") else {}
    trace = np.trace(reference.centred(reference.kernel(name, X, X, **gamma)))
    tolerance = 1e-10 * (trace + 1)
    total = ours.eigenvalues_.sum() + ours.reconstruction_error(X).sum()
    assert abs(total - trace) <= n_samples * tolerance
    largest = np.abs(scores).max(axis=0)
    np.testing.assert_array_less(np.abs(ours.transform(X) - scores), 1e-7 * largest.max() + 1e-12)
