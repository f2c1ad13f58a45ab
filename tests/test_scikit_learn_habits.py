"""`KernelPCA` where scikit-learn's users put it: searches, pipelines, frames, sparse and labelled rows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn
from converters import as_frame, rows
from memory import peak_above_imports
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import make_circles
from sklearn.decomposition import KernelPCA as Reference
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from kpca_stream import KernelPCA, load_basis
from kpca_stream.errors import DataError

Array = NDArray[Any]

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def counts(n_samples: int = 120, n_features: int = 9) -> Array:
    """Rows mostly of zeros."""
    X = np.maximum(rows(n_samples, n_features) - 0.5, 0)
    X[0] = 0
    return X


def test_a_grid_search_finds_the_rings() -> None:
    """A search over γ in a pipeline finds one with which a straight cut tells two rings apart."""
    X, ring = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    pipeline = make_pipeline(KernelPCA(2, kernel="rbf"), LogisticRegression())
    search = GridSearchCV(pipeline, {"kernelpca__gamma": [0.01, 2.0], "kernelpca__alpha": [1.0]}, cv=3)
    search.fit(X, ring)
    assert search.best_params_["kernelpca__gamma"] == 2.0
    assert search.best_score_ == 1


def test_a_search_by_pre_images() -> None:
    """A search can be scored by how well rows come back, through `inverse_transform`."""
    X, _ = make_circles(120, factor=0.3, noise=0.05, random_state=0)

    def closeness(model: Any, X: Array, _: Any = None) -> float:
        return -float(((model.inverse_transform(model.transform(X)) - X) ** 2).sum(axis=1).mean())

    model = KernelPCA(4, kernel="rbf", fit_inverse_transform=True, alpha=0.01)
    search = GridSearchCV(model, {"gamma": [0.001, 2.0]}, scoring=closeness, cv=3).fit(X)
    assert search.best_params_ == {"gamma": 2.0}


@pytest.mark.parametrize("transform", ["pandas", "default"])
def test_outputs_as_they_are_set(transform: str) -> None:
    """`set_output`, on the estimator or for all, gives frames with the index of those that came."""
    frame = pd.DataFrame(rows(30), columns=list("abcd"), index=np.arange(30) + 7)
    model = KernelPCA(2, kernel="rbf").fit(frame)
    with sklearn.config_context(transform_output=transform):
        found = model.transform(frame)
    assert isinstance(found, pd.DataFrame) == (transform == "pandas")
    if isinstance(found, pd.DataFrame):
        assert list(found.index) == list(frame.index)
        assert list(found.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(np.asarray(found), model.transform(frame))


def test_features_are_checked_by_name_and_number(tmp_path: Path) -> None:
    """Other names, another order and another number of columns are refused; an array without names warns."""
    frame = as_frame(rows(), tmp_path)
    model = KernelPCA(2, kernel="rbf").fit(frame)
    assert model.n_features_in_ == 4
    for other in (frame[["b", "a", "c", "d"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match=r"(?i)feature names"):
            model.transform(other)
    nameless = KernelPCA(2).fit(rows())
    with pytest.raises(ValueError, match="3 features, but KernelPCA is expecting 4"):
        nameless.transform(rows(n_features=3))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(frame.to_numpy())


@pytest.mark.parametrize("container", ["array", "matrix"])
@pytest.mark.parametrize("format_", FORMATS)
def test_sparse_rows_are_the_dense_ones(format_: str, container: str) -> None:
    """Every sparse format is fitted and scored to the bits of the dense rows, and is not changed."""
    X, X_new = counts(80), counts(30)  # of more rows dia would have too many diagonals
    make = getattr(sparse, f"csr_{container}")
    given = make(X).asformat(format_)
    model = KernelPCA(3, kernel="rbf").fit(given)
    expected = KernelPCA(3, kernel="rbf").fit(X)
    np.testing.assert_array_equal(model.eigenvectors_, expected.eigenvectors_)
    found = make(X_new).asformat(format_)
    np.testing.assert_array_equal(model.transform(found), expected.transform(X_new))
    np.testing.assert_array_equal(model.reconstruction_error(found), expected.reconstruction_error(X_new))
    np.testing.assert_array_equal(given.toarray(), X)


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid", "cosine"])
@pytest.mark.filterwarnings("ignore:kernel sigmoid")
def test_sparse_rows_as_scikit_learn_takes_them(name: str) -> None:
    """Every kernel gives scikit-learn's eigenvalues for sparse rows."""
    X = sparse.csr_array(counts())
    ours = KernelPCA(3, kernel=name, gamma=0.05).fit(X)
    theirs = Reference(3, kernel=name, gamma=0.05).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize(
    "parameters", [{"eigen_solver": "nystrom"}, {"storage": "zarr"}, {"kernel": "laplacian"}]
)
def test_sparse_rows_by_every_way(tmp_path: Path, parameters: dict[str, Any]) -> None:
    """Sparse rows are approximated, stored and saved like dense ones, in single precision where they are."""
    X = sparse.csr_array(counts().astype(np.float32))
    parameters = {"n_components": 2, "kernel": "rbf", "gamma": 0.1, "n_landmarks": 110} | parameters
    model, expected = (KernelPCA(**parameters).fit(x) for x in (X, X.toarray()))
    scores = model.transform(X)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected.transform(X.toarray()), atol=1e-6)
    model.save(tmp_path / "basis.zarr")
    np.testing.assert_allclose(load_basis(tmp_path / "basis.zarr").transform(X), scores, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(again.transform(X), scores)


def test_a_sparse_matrix_of_similarities() -> None:
    """A precomputed kernel may be sparse."""
    X = counts()
    K = X @ X.T
    expected = KernelPCA(2, kernel="precomputed").fit(K)
    model = KernelPCA(2, kernel="precomputed").fit(sparse.csr_array(K))
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(
        model.transform(sparse.csr_array(K[:9])), expected.transform(K[:9]), atol=1e-12
    )


def test_a_sparse_model_does_not_follow_its_rows() -> None:
    """What happens to sparse rows after a fit changes no score; missing values are named by their place."""
    X = sparse.csr_array(counts())
    model = KernelPCA(2, kernel="rbf").fit(X)
    scores = model.transform(X)
    before = X.copy()
    X.data[:] = 0
    np.testing.assert_array_equal(model.transform(before), scores)
    before.data[before.indptr[5]] = np.nan
    with pytest.raises(DataError, match=r"X, row 5, column '\d': got nan"):
        model.transform(before)
    with pytest.raises(DataError, match="the first is X, row 5, column"):
        KernelPCA(2).fit(before)


SPARSE_FIT = """
import numpy as np
from scipy import sparse
from kpca_stream import KernelPCA

def work(n_samples):
    rng = np.random.default_rng(0)
    topics = sparse.random_array((8, 500), density=0.01, rng=rng, format="csr")
    which = rng.integers(0, 8, n_samples)
    chosen = sparse.csr_array((np.ones(n_samples), (np.arange(n_samples), which)), shape=(n_samples, 8))
    X = chosen @ topics
    X.data += 0.1 * rng.standard_normal(X.nnz)
    model = KernelPCA(3, kernel="rbf", gamma=0.05, eigen_solver="nystrom", n_landmarks=50, n_jobs=2)
    model.fit(X).transform(X)

def warm_up(n_samples):
    work(100)
"""


@pytest.mark.slow
def test_sparse_rows_are_never_dense_as_a_whole() -> None:
    """Rows that dense would take 2.4 GB are fitted and scored in a third of it."""
    assert peak_above_imports(SPARSE_FIT, 600_000) < 600_000 * 500 * 8 / 3


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos", "nystrom"])
def test_a_share_grows_the_basis_until_it_is_certified(eigen_solver: str) -> None:
    """A share of 0.95 takes as many components as certify it, far more than a solve begins with."""
    X = rows(300, 6)
    parameters: dict[str, Any] = {"kernel": "rbf", "gamma": 0.1, "eigen_solver": eigen_solver}
    model = KernelPCA(0.95, n_landmarks=300, landmarks="uniform", **parameters).fit(X)
    exact = Reference(None, kernel="rbf", gamma=0.1).fit(X).eigenvalues_
    needed = int(np.argmax(np.cumsum(exact) >= 0.95 * exact.sum())) + 1
    assert needed > 30
    assert len(model.eigenvalues_) == needed
    assert model.transform(X).shape == (300, needed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_rows_is_kept(dtype: Any) -> None:
    """Scores of float32 rows are float32, by every way to them; those of float64 stay float64."""
    X = rows().astype(dtype)
    for solver in ("dense", "lanczos", "nystrom"):
        model = KernelPCA(2, kernel="rbf", gamma=0.05, eigen_solver=solver, n_landmarks=100)
        assert model.fit_transform(X).dtype == dtype
        assert model.transform(X).dtype == dtype


def test_a_notebook_shows_it() -> None:
    """The HTML form names the estimator and the parameters that were set, fitted or not."""
    model = KernelPCA(2, kernel="rbf", gamma="median")
    for text in (estimator_html_repr(model), model.fit(rows())._repr_html_()):
        assert "KernelPCA" in text
        assert "median" in text
    assert repr(model) == "KernelPCA(gamma='median', kernel='rbf', n_components=2)"


def test_xarray_gives_its_values() -> None:
    """A DataArray is fitted and scored like what it holds, with the names of its columns."""
    xarray = pytest.importorskip("xarray")
    X = rows()
    plain = xarray.DataArray(X, dims=("sample", "feature"))
    named = plain.assign_coords(feature=list("abcd"))
    expected = KernelPCA(2, kernel="rbf").fit(X)
    for given in (plain, named):
        model = KernelPCA(2, kernel="rbf").fit(given)
        np.testing.assert_array_equal(model.transform(given), expected.transform(X))
        np.testing.assert_array_equal(model.reconstruction_error(given), expected.reconstruction_error(X))
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]


def test_a_chunked_xarray_stays_lazy(tmp_path: Path) -> None:
    """A chunked DataArray is never loaded as a whole, and gives lazy scores; a Dataset is refused by name."""
    xarray = pytest.importorskip("xarray")
    X = rows()
    lazy = xarray.DataArray(da.from_array(X, chunks=(40, 4)), dims=("sample", "feature"))
    model = KernelPCA(2, kernel="rbf").fit(lazy)
    scores = model.transform(lazy)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), model.transform(X), atol=1e-13)
    model.save(tmp_path / "basis.zarr")
    again = load_basis(tmp_path / "basis.zarr").transform(lazy)
    np.testing.assert_allclose(again.compute(), model.transform(X), atol=1e-13)
    with pytest.raises(DataError, match=r"got an xarray.Dataset, expected a DataArray; use to_dataarray"):
        KernelPCA(2).fit(lazy.to_dataset(name="x"))
