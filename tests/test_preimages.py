"""Pre-images of `KernelPCA` and of a stored basis: scikit-learn's numbers, landmarks, errors, refusals."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from converters import as_dask, as_zarr, rows
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import NotFittedError

from kpca_stream import FittedBasis, KernelPCA, load_basis
from kpca_stream.cluster import connect
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.preimages import (
    TrainingScores,
    fixed_point_pre_images,
    learn_ridge,
    ridge_pre_images,
)
from kpca_stream.storage.rows import ArrayRows

Array = NDArray[Any]

KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"gamma": 0.2, "degree": 2},
    "rbf": {"gamma": 0.3},
    "cosine": {},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
}


def two_rows(x: Array, y: Array) -> float:
    return float(np.exp(-np.abs(x - y).sum()))


def fitted(X: Array, **parameters: Any) -> KernelPCA:
    """Rbf with three components, unless told otherwise."""
    return KernelPCA(**({"n_components": 3, "kernel": "rbf", "gamma": 0.3} | parameters)).fit(X)


@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.parametrize("name", [*KERNELS, "a function"])
@pytest.mark.filterwarnings("ignore:kernel sigmoid")
def test_the_same_numbers_as_scikit_learn(name: str, alpha: float) -> None:
    """Rows that come back, and the coefficients, are scikit-learn's."""
    X, X_new = rows(120), rows(30, seed=1)
    kernel: Any = two_rows if name == "a function" else name
    parameters = {"kernel": kernel, "alpha": alpha, "fit_inverse_transform": True, **KERNELS.get(name, {})}
    ours, theirs = KernelPCA(4, **parameters).fit(X), Reference(4, **parameters).fit(X)
    signs = np.sign((ours.X_transformed_fit_ * theirs.X_transformed_fit_).sum(axis=0))
    np.testing.assert_allclose(ours.X_transformed_fit_ * signs, theirs.X_transformed_fit_, atol=1e-9)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-7)
    expected = theirs.inverse_transform(theirs.transform(X_new))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X_new)), expected, atol=1e-7)


def test_the_worked_example() -> None:
    """Two rings, γ = 5, alpha 0.1, two components: rows come back at a mean squared distance of 0.277."""
    X, _ = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    model = fitted(X, n_components=2, gamma=5, alpha=0.1, fit_inverse_transform=True)
    back = model.inverse_transform(model.transform(X))
    assert round(float(((back - X) ** 2).sum(axis=1).mean()), 3) == 0.277


def test_zero_components_change_nothing() -> None:
    """Scores of components of eigenvalue 0 are zeros, and lead back to the same rows."""
    X = rows(60, 2)
    parameters: dict[str, Any] = {"kernel": "linear", "gamma": None, "fit_inverse_transform": True}
    few, more = fitted(X, n_components=2, **parameters), fitted(X, n_components=4, **parameters)
    assert more.X_transformed_fit_.shape == (60, 4)
    back = more.inverse_transform(more.transform(X))
    np.testing.assert_allclose(back, few.inverse_transform(few.transform(X)), atol=1e-12)
    found = more.pre_images(more.transform(X))
    np.testing.assert_allclose(found.rows, back, atol=1e-12)


def test_weights_count_copies() -> None:
    """A row of weight 2 leads back as two copies of it do."""
    X = rows(40)
    copies = np.random.default_rng(0).integers(1, 4, 40)
    weighted = KernelPCA(3, kernel="rbf", gamma=0.3, fit_inverse_transform=True)
    weighted.fit(X, sample_weight=copies)
    repeated = fitted(np.repeat(X, copies, axis=0), fit_inverse_transform=True)
    found = weighted.inverse_transform(weighted.transform(X))
    np.testing.assert_allclose(found, repeated.inverse_transform(repeated.transform(X)), atol=1e-8)


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos", "nystrom"])
@pytest.mark.parametrize("storage", ["memory", "zarr"])
def test_every_solver_and_storage_leads_back(eigen_solver: str, storage: str) -> None:
    """However a basis was found, its scores lead back to rows near those that they come from."""
    X = rows(200, 2)
    model = fitted(
        X,
        n_components=12,
        eigen_solver=eigen_solver,
        storage=storage,
        n_landmarks=60,
        alpha=1e-4,
        fit_inverse_transform=True,
    )
    back = model.inverse_transform(model.transform(X))
    assert ((back - X) ** 2).sum(axis=1).mean() < 0.01 * (X**2).sum(axis=1).mean()


@pytest.mark.parametrize("merge_duplicates", [False, True])
def test_merged_rows_lead_back(*, merge_duplicates: bool) -> None:
    """Copies of rows that were merged count in the ridge as they do unmerged."""
    X = np.repeat(rows(50), 2, axis=0)
    model = fitted(X, merge_duplicates=merge_duplicates, fit_inverse_transform=True)
    assert model.X_transformed_fit_.shape == (100, 3)
    expected = Reference(3, kernel="rbf", gamma=0.3, fit_inverse_transform=True).fit(X)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)),
        expected.inverse_transform(expected.transform(X)),
        atol=1e-8,
    )


def test_single_precision_stays() -> None:
    """Float32 rows lead back to float32 rows, close to those of float64."""
    X = rows(100).astype(np.float32)
    model = fitted(X, fit_inverse_transform=True)
    back = model.inverse_transform(model.transform(X))
    assert back.dtype == np.float32
    assert model.pre_images(model.transform(X)).rows.shape == X.shape
    double = fitted(X.astype(float), fit_inverse_transform=True)
    np.testing.assert_allclose(back, double.inverse_transform(double.transform(X.astype(float))), atol=1e-4)


def test_lazy_scores_lead_back_lazily() -> None:
    """A Dask array of scores gives a lazy one of rows, chunk by chunk."""
    X = rows(100)
    model = fitted(X, fit_inverse_transform=True)
    lazy = model.inverse_transform(model.transform(da.from_array(X, chunks=((30, 0, 70), 2))))
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.chunks[0]) == ((100, 4), (30, 0, 70))
    np.testing.assert_allclose(lazy.compute(), model.inverse_transform(model.transform(X)), atol=1e-10)


@pytest.mark.parametrize("convert", [as_zarr, as_dask])
def test_beyond_five_thousand_rows_landmarks_lead_back(tmp_path: Path, convert: Any) -> None:
    """Of many rows, on disk or lazy, as many as asked are landmarks; these lead back nearly as all would."""
    X = rows(5200, 3)
    parameters: dict[str, Any] = {
        "eigen_solver": "nystrom",
        "n_landmarks": 150,
        "alpha": 0.1,
        "fit_inverse_transform": True,
    }
    model = fitted(convert(X, tmp_path), **parameters)
    assert model.X_transformed_fit_.shape == (150, 3)
    assert model.dual_coef_.shape == (150, 3)
    Z = model.transform(X)
    exact = learn_ridge(model._model, X[:4000], alpha=0.1)
    spread = float((X**2).sum(axis=1).mean())
    found = model.inverse_transform(Z)
    assert ((found - X) ** 2).sum(axis=1).mean() < 1.02 * ((exact(Z) - X) ** 2).sum(axis=1).mean()
    assert ((found - exact(Z)) ** 2).sum(axis=1).mean() < 0.01 * spread


def test_all_landmarks_are_all_rows() -> None:
    """A ridge on landmarks that are all rows, in one pass over them, is the exact one."""
    X = rows(300)
    model = fitted(X)._model
    exact = learn_ridge(model, X, alpha=0.1)
    found = learn_ridge(model, X, alpha=0.1, n_landmarks=300, exact=False)
    Z = model.transform(X)
    np.testing.assert_allclose(found(Z), exact(Z), atol=1e-6)


def test_given_scores_are_those_that_are_computed() -> None:
    """Training scores at hand, and those computed as rows are read, lead back the same way."""
    X = rows(300)
    model = fitted(X)._model
    given = TrainingScores(ArrayRows(X), model.transform(X))
    for exact in (True, False):
        a, b = (learn_ridge(model, rows_, n_landmarks=40, exact=exact) for rows_ in (X, given))
        np.testing.assert_allclose(a.dual, b.dual, rtol=1e-6, atol=1e-9)


@pytest.mark.cluster
def test_processes_give_the_same_bits(tmp_path: Path) -> None:
    """A ridge on landmarks and fixed points are the same on two processes as on threads."""
    X = rows(9000, 3)
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(1000, 3), dtype=X.dtype)
    array[:] = X
    model = fitted(X[:400])._model
    Z = model.transform(X[:1500])
    found = []
    for kind in ("threads", "local"):
        with connect(kind, n_workers=2):  # type: ignore[arg-type]
            found.append((learn_ridge(model, array, n_landmarks=60), fixed_point_pre_images(model, Z)))
    (ridge, fixed), (other_ridge, other_fixed) = found
    np.testing.assert_array_equal(ridge.dual, other_ridge.dual)
    np.testing.assert_array_equal(fixed.rows, other_fixed.rows)


def explicit_errors(X: Array, Z: Array, found: Array, model: KernelPCA) -> Array:
    """‖φ(x̂) − (φ̄ + Σ_j z_j v_j)‖² by all inner products of training rows."""

    def k(A: Array, B: Array) -> Array:
        return np.asarray(np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=-1)))

    alpha = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    share = Z @ alpha.T + 1 / len(X)
    return np.asarray(1 - 2 * (share * k(found, X)).sum(axis=1) + ((share @ k(X, X)) * share).sum(axis=1))


@pytest.mark.parametrize("method", ["ridge", "fixed_point"])
def test_errors_are_distances_in_feature_space(method: Any) -> None:
    """What is told of each pre-image is its squared distance in feature space to what scores stand for."""
    X, X_new = rows(90), rows(25, seed=1)
    model = fitted(X, fit_inverse_transform=True)
    Z = model.transform(X_new)
    found = model.pre_images(Z, method=method)
    np.testing.assert_allclose(found.feature_error, explicit_errors(X, Z, found.rows, model), atol=1e-12)


def test_the_fixed_point_is_the_nearest() -> None:
    """No ridge, no training row, and no row beside it is nearer in feature space than a fixed point."""
    X, X_new = rows(90), rows(25, seed=1)
    model = fitted(X, fit_inverse_transform=True)
    Z = model.transform(X_new)
    found = model.pre_images(Z)
    assert found.converged.all()
    assert (found.feature_error <= model.pre_images(Z, method="ridge").feature_error + 1e-12).all()
    for x in X:
        at_x = explicit_errors(X, Z, np.repeat(x[None], 25, axis=0), model)
        assert (found.feature_error <= at_x + 1e-12).all()
    beside = found.rows + 1e-3 * np.random.default_rng(0).standard_normal(found.rows.shape)
    assert (explicit_errors(X, Z, beside, model) > found.feature_error).all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"eigen_solver": "nystrom", "n_landmarks": 60},
        {"merge_duplicates": True},
        {"gamma": 1e-9},
        {"gamma": "median"},
    ],
    ids=str,
)
def test_the_fixed_point_is_nearest_by_every_basis(parameters: dict[str, Any]) -> None:
    """With landmarks, merged rows, and a kernel that is nearly constant, no row beside it is nearer."""
    X = np.repeat(rows(90, 3), 2, axis=0) * [3.0, 2.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KpcaStreamWarning)
        model = fitted(X, n_components=2, **({"gamma": 0.05} | parameters))
    Z = model.transform(rows(10, 3, seed=1) * [3.0, 2.0, 1.0])
    found = model.pre_images(Z)
    assert found.converged.all()
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1, 1.0):
        beside = found.rows + size * rng.standard_normal(found.rows.shape)
        distance = ((model.transform(beside) - Z) ** 2).sum(axis=1) + model.reconstruction_error(beside)
        assert (distance >= found.feature_error * (1 - 1e-9)).all()


def test_a_nearly_constant_kernel_leads_back_as_pca() -> None:
    """For small γ fixed points are the projections of ordinary principal component analysis."""
    X = rows(90, 4) * [3.0, 2.0, 1.0, 0.5] + 10
    model = fitted(X, n_components=2, gamma=1e-7)
    plain = PCA(2).fit(X)
    found = model.pre_images(model.transform(X[:20]))
    expected = plain.inverse_transform(plain.transform(X[:20]))
    np.testing.assert_allclose(found.rows, expected, atol=1e-4)


def test_all_components_lead_back_to_the_rows() -> None:
    """With all components a training row's scores stand for its own image, and the fixed point finds it."""
    X = 2 * rows(40, 2)
    model = fitted(X, n_components=None, gamma=1.0)
    found = model.pre_images(model.transform(X))
    np.testing.assert_allclose(found.rows, X, atol=1e-4)
    np.testing.assert_allclose(found.feature_error, 0, atol=1e-9)


def test_an_early_end_is_told() -> None:
    """Where iterations do not suffice the best that was found is given, marked, with a warning."""
    model = fitted(rows(90))
    Z = model.transform(rows(5, seed=1))
    with pytest.warns(KpcaStreamWarning, match=r"5 of 5 pre-images did not come to rest"):
        found = fixed_point_pre_images(model._model, Z, max_iter=1)
    assert not found.converged.any()
    assert (found.feature_error > model.pre_images(Z).feature_error).all()


def test_scores_of_no_row_lead_to_a_row_nearby() -> None:
    """Scores far from those of any row lead to the best there is, no worse than a row."""
    X = 3 * rows(30, 2)
    model = fitted(X, n_components=2, gamma=0.1)
    Z = np.array([[50.0, 0.0], [-50.0, 1e6], [-0.9, -0.9]])
    found = model.pre_images(Z)
    assert found.converged.all()
    beyond = model.reconstruction_error(X) + ((model.transform(X) - Z[:, None]) ** 2).sum(axis=2)
    assert (found.feature_error <= beyond.min(axis=1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("eigen_solver", ["lanczos", "nystrom"])
def test_a_stored_basis_leads_back(tmp_path: Path, eigen_solver: str) -> None:
    """A basis that was loaded gives the pre-images of the model, by either way, with columns of any scale."""
    X = rows(150) * [1.0, 2.0, 0.5, 1.0] + 100
    model = fitted(X, eigen_solver=eigen_solver, n_landmarks=100, fit_inverse_transform=True)
    model.save(tmp_path / "basis.zarr")
    basis = load_basis(tmp_path / "basis.zarr")
    assert isinstance(basis, FittedBasis)
    Z = basis.transform(X[:20])
    ridge = learn_ridge(basis, X)
    np.testing.assert_allclose(ridge_pre_images(basis, ridge, Z).rows, model.inverse_transform(Z), atol=1e-8)
    found = fixed_point_pre_images(basis, Z, ridge=ridge)
    np.testing.assert_allclose(found.rows, model.pre_images(Z).rows, atol=1e-6)


def test_clones_and_pickles_lead_back() -> None:
    """A clone knows the parameters, a pickle what was learned; a fit without them forgets it."""
    X = rows(80)
    model = fitted(X, alpha=0.3, fit_inverse_transform=True)
    Z = model.transform(X)
    assert clone(model).get_params()["alpha"] == 0.3
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(again.inverse_transform(Z), model.inverse_transform(Z))
    model.set_params(fit_inverse_transform=False).fit(X)
    assert not hasattr(model, "dual_coef_")
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        model.inverse_transform(Z)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "precomputed"}, "Cannot fit_inverse_transform with a precomputed kernel"),
        ({"alpha": -1.0}, "alpha: got -1.0, expected a number ≥ 0"),
        ({"alpha": "much"}, "alpha: got 'much'"),
        ({"kernel": "linear", "gamma": None, "alpha": 0.0}, "alpha: got 0, .* raise it"),
    ],
)
def test_what_cannot_lead_back_is_refused(parameters: dict[str, Any], message: str) -> None:
    """A kernel without rows, and a regression without a solution, are refused by name."""
    with pytest.raises(ConfigError, match=message):
        fitted(rows(60, 60)[:, :60], fit_inverse_transform=True, **parameters)


def test_rows_that_cannot_be_learned_from_are_refused() -> None:
    """Sparse rows, and rows that were added later, are refused where they shall lead back."""
    with pytest.raises(ConfigError, match="fit_inverse_transform: got sparse rows"):
        fitted(csr_array(rows()), fit_inverse_transform=True)
    model = KernelPCA(2, kernel="rbf", eigen_solver="nystrom", n_landmarks=20, fit_inverse_transform=True)
    with pytest.raises(ConfigError, match="partial_fit: got fit_inverse_transform=True"):
        model.partial_fit(rows())


def test_wrong_scores_are_refused() -> None:
    """Scores of another width or not finite, an unknown way, and a fixed point of poly are refused."""
    model = fitted(rows(), fit_inverse_transform=True)
    for Z in (np.zeros((2, 5)), np.zeros(3), np.full((1, 3), np.nan)):
        with pytest.raises(DataError, match=r"Z: got shape .* expected finite scores"):
            model.inverse_transform(Z)
    with pytest.raises(ConfigError, match="method: got 'newton'"):
        model.pre_images(np.zeros((1, 3)), method="newton")  # type: ignore[arg-type]
    other = fitted(rows(), kernel="poly")
    with pytest.raises(ConfigError, match="got the kernel poly, expected rbf"):
        other.pre_images(np.zeros((1, 3)), method="fixed_point")


def test_rounding_is_told() -> None:
    """An alpha so small that the matrix is singular to rounding gives a warning that says so."""
    with pytest.warns(KpcaStreamWarning, match="singular to rounding .* a larger alpha"):
        fitted(np.linspace(-1, 1, 20)[:, None], n_components=2, alpha=1e-15, fit_inverse_transform=True)
