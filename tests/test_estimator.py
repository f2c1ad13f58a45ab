"""`KernelPCA` as scikit-learn's users know it: parameters, checks, storage, and what it refuses."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cases
import dask.array as da
import numpy as np
import pytest
from converters import rows
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import kpca_stream
from kpca_stream import KernelPCA, load_basis
from kpca_stream.errors import ConfigError, KpcaStreamWarning

Array = NDArray[Any]


@parametrize_with_checks([KernelPCA(), KernelPCA(2, kernel="rbf")])  # type: ignore[untyped-decorator]
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: KernelPCA, check: Any) -> None:
    """All checks that scikit-learn has for estimators pass."""
    check(estimator)


def test_parameters_survive_cloning() -> None:
    """`get_params`, `set_params` and `clone` see every parameter."""
    parameters: dict[str, Any] = {
        "n_components": 3,
        "kernel": "rbf",
        "gamma": "median",
        "storage": "memory",
        "max_iter": 7,
    }
    model = KernelPCA(**parameters)
    copy = clone(model)
    assert {key: copy.get_params()[key] for key in parameters} == parameters
    assert copy.set_params(gamma=0.5).gamma == 0.5
    assert set(model.get_params()) >= {
        "iterated_power",
        "copy_X",
        "remove_zero_eig",
        "n_jobs",
        "kernel_params",
    }


def test_names_of_outputs() -> None:
    """Output columns are called kernelpca0, …, zero components included, also in a pandas frame."""
    model = KernelPCA(3).set_output(transform="pandas")
    frame = model.fit_transform(rows(n_features=2))
    assert list(frame.columns) == ["kernelpca0", "kernelpca1", "kernelpca2"]
    assert list(model.get_feature_names_out()) == list(frame.columns)


def test_works_in_a_pipeline() -> None:
    """A pipeline fits, transforms and is pickled with it."""
    X = rows()
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf"))
    scores = pipeline.fit_transform(X)
    again = pickle.loads(pickle.dumps(pipeline))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(again.transform(X), pipeline.transform(X))
    np.testing.assert_allclose(again.transform(X), scores, atol=1e-12)


def test_refuses_to_score_before_the_fit() -> None:
    """Scoring, errors and saving need a fit."""
    calls: tuple[Any, ...] = (KernelPCA().transform, KernelPCA().reconstruction_error, KernelPCA().save)
    for call in calls:
        with pytest.raises(NotFittedError):
            call(rows())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbff"}, "unknown kernel, got 'rbff', did you mean 'rbf'"),
        ({"kernel": None}, "kernel: got None, expected a name or a function"),
        ({"kernel": "rbf", "gamma": 0}, "gamma: .*got 0, expected a number > 0"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma: .*got -1.0"),
        ({"kernel": "rbf", "gamma": np.nan}, "gamma: .*got nan"),
        ({"kernel": "laplacian", "gamma": "auto"}, "gamma: .*got 'auto'"),
        ({"kernel": "poly", "gamma": "median"}, "no median rule for the poly kernel"),
        ({"kernel": "poly", "coef0": -1}, "coef0: makes poly indefinite, got -1"),
        ({"kernel": "poly", "degree": 2.5}, "degree: makes poly indefinite, got 2.5"),
        ({"kernel": "poly", "degree": 0}, "degree: makes poly indefinite, got 0"),
        ({"kernel": "no.such.module:kernel"}, "cannot be found"),
        ({"n_components": 0}, "n_components: got 0, expected a whole number ≥ 1, a share"),
        ({"n_components": 1.0}, "n_components: got 1.0"),
        ({"n_components": True}, "n_components: got True"),
        ({"eigen_solver": "nystrm"}, "eigen_solver: got 'nystrm', expected one of auto, dense"),
        ({"precision": "float16"}, "precision: got 'float16', expected one of"),
        ({"storage": "disk"}, "storage: got 'disk', expected one of"),
        ({"tol": -1e-3}, "tol: got -0.001, expected a number ≥ 0"),
        ({"max_iter": 0}, "max_iter: got 0, expected a whole number ≥ 1"),
        ({"max_components": 0}, "max_components: got 0"),
        ({"memory_limit": "4Gb"}, "memory_limit: not a size, got '4Gb'"),
        ({"n_jobs": 0}, "n_jobs: got 0"),
        ({"eigen_solver": "lanczos"}, r"n_components: None \(all\) needs a dense solve"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    """A wrong parameter is named with the value and what was expected; it is a ValueError, too."""
    with pytest.raises(ConfigError, match=message) as caught:
        KernelPCA(**parameters).fit(rows())
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "cosine", "linear"])
def test_a_stored_basis_scores_the_same_bits(tmp_path: Path, name: str) -> None:
    """A basis that was saved and opened gives the scores, errors and facts of the model."""
    X, X_new = rows(), rows(20, seed=1)
    model = KernelPCA(3, kernel=name).fit(X)
    model.save(tmp_path / "b.zarr")
    basis = load_basis(tmp_path / "b.zarr")
    np.testing.assert_array_equal(basis.transform(X_new), model.transform(X_new))
    np.testing.assert_array_equal(basis.reconstruction_error(X_new), model.reconstruction_error(X_new))
    np.testing.assert_array_equal(basis.eigenvalues, model.eigenvalues_)
    np.testing.assert_array_equal(basis.explained_variance_ratio, model.explained_variance_ratio_)
    lazy = basis.transform(da.from_array(X_new, chunks=(6, 4)))
    np.testing.assert_allclose(lazy.compute(), model.transform(X_new), atol=1e-13)


def test_saving_says_what_is_left_out(tmp_path: Path) -> None:
    """A stored basis leaves out eigenvalues 0, with a warning, and nothing is overwritten."""
    model = KernelPCA(4).fit(rows(n_features=2))
    with pytest.warns(KpcaStreamWarning, match=r"only 2 of 4 components have a positive eigenvalue"):
        model.save(tmp_path / "b.zarr")
    assert load_basis(tmp_path / "b.zarr").n_components == 2
    with pytest.raises(ConfigError, match=r"never overwritten"), pytest.warns(KpcaStreamWarning):
        model.save(tmp_path / "b.zarr")


def test_gamma_is_resolved_once(tmp_path: Path) -> None:
    """With γ = None the fit's 1/n_features is stored: the same as that number given, also reloaded."""
    case = cases.default_gamma()
    model = KernelPCA(2, **case.parameters).fit(case.X)
    given = KernelPCA(2, kernel="rbf", gamma=0.25).fit(case.X)
    assert model.gamma_ == 0.25
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    model.save(tmp_path / "b.zarr")
    for other in (given, load_basis(tmp_path / "b.zarr")):
        np.testing.assert_array_equal(other.transform(case.X), model.transform(case.X))


def test_public_names() -> None:
    """The package exports what its documentation names, and nothing else is found."""
    names = {"FittedBasis", "KernelPCA", "block_kernel", "load_basis", "show_versions", "tune"}
    assert set(kpca_stream.__all__) == names
    assert all(getattr(kpca_stream, name).__name__ == name for name in kpca_stream.__all__)
    with pytest.raises(AttributeError, match=r"no attribute 'Nothing'"):
        _ = kpca_stream.Nothing
