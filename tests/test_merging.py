"""Fits of merged duplicates: the same model as of all rows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from jobs import command, configured
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from kpca_stream import KernelPCA, load_basis
from kpca_stream.cli.render import render
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.pipeline import fit_config, plan_config, run_config
from kpca_stream.results import FitSummary
from kpca_stream.telemetry import silent
from kpca_stream.verification import verify_store

Array = NDArray[Any]

SCALARS = ("grand_mean_", "gamma_")
VECTORS = ("eigenvalues_", "explained_variance_", "explained_variance_ratio_", "row_means_")


def copies(n_samples: int = 900, n_distinct: int = 40, dtype: Any = np.float64) -> Array:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_distinct, 3))[rng.integers(0, n_distinct, n_samples)].astype(dtype)


X, X_NEW = copies(), np.random.default_rng(1).standard_normal((30, 3))
WEIGHTS = np.random.default_rng(2).uniform(0.2, 3, len(X))


def assert_same(one: KernelPCA, two: KernelPCA, *, rtol: float = 1e-9) -> None:
    """All attributes, scores, errors and thresholds are equal, the scores relative to the largest."""
    for name in (*SCALARS, *VECTORS):
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(two, name))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(a).max(), err_msg=name)
    positive = one.eigenvalues_ > 0
    assert one.eigenvectors_.shape == two.eigenvectors_.shape
    np.testing.assert_allclose(one.eigenvectors_[:, positive], two.eigenvectors_[:, positive], atol=10 * rtol)
    n_components = two.eigenvectors_.shape[1]
    np.testing.assert_allclose(two.eigenvectors_.T @ two.eigenvectors_, np.eye(n_components), atol=1e-9)
    scores = one.transform(X_NEW)
    np.testing.assert_allclose(scores, two.transform(X_NEW), atol=10 * rtol * np.abs(scores).max())
    errors = one.reconstruction_error(X_NEW)
    np.testing.assert_allclose(
        errors, two.reconstruction_error(X_NEW), rtol=rtol, atol=10 * rtol * np.square(scores).max()
    )
    for name in ("reconstruction_error", "hotelling_t2", "error_quantiles", "t2_quantiles"):
        limits = [getattr(model._model.thresholds, name) for model in (one, two)]
        np.testing.assert_allclose(*limits, rtol=100 * rtol, atol=rtol * np.square(scores).max())


def both(rows: Any, *, weights: Array | None = None, **parameters: Any) -> tuple[KernelPCA, KernelPCA]:
    plain, merged = (
        KernelPCA(**parameters, merge_duplicates=merge).fit(rows, sample_weight=weights)
        for merge in (False, True)
    )
    return plain, merged


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["counts", "weights"])
@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly", "cosine"])
def test_merged_rows_give_the_same_model(kernel: str, eigen_solver: str, weights: Array | None) -> None:
    """Attributes, scores, errors and thresholds are those of all rows, with weights and without."""
    plain, merged = both(X, weights=weights, n_components=2, kernel=kernel, eigen_solver=eigen_solver)
    assert merged._model.n_rows == 40
    assert_same(plain, merged)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_merged_rows_in_lower_precision(dtype: Any, rtol: float) -> None:
    """Float32 and mixed passes agree as far as they go."""
    precision = "float32" if dtype == np.float32 else "mixed"
    plain, merged = both(
        copies(dtype=dtype),
        n_components=3,
        kernel="rbf",
        eigen_solver="lanczos",
        precision=precision,
        tol=1e-9 if precision == "mixed" else 0,
    )
    assert_same(plain, merged, rtol=rtol)


def test_one_row_that_outweighs_many() -> None:
    """In float32 a row of many copies costs no accuracy: the tolerance is kept, without a warning."""
    distinct = np.random.default_rng(0).standard_normal((1500, 4)).astype(np.float32)
    heavy = np.concatenate([distinct, np.repeat(distinct[:1], 1500, axis=0)])
    plain, merged = both(heavy, n_components=5, kernel="rbf", eigen_solver="lanczos", tol=1e-6)
    assert (merged.residual_norms_ <= 1e-6 * merged.eigenvalues_[0]).all()
    np.testing.assert_allclose(plain.eigenvalues_, merged.eigenvalues_, rtol=2e-6)


@pytest.mark.parametrize("n_components", [60, None, 0.9])
def test_components_beyond_the_distinct_rows(n_components: float | None) -> None:
    """There are as many components as of all rows, those of eigenvalue 0 orthogonal to the others."""
    assert_same(*both(X, n_components=n_components, kernel="rbf"), rtol=1e-8)
    assert_same(*both(X, weights=WEIGHTS, n_components=n_components, kernel="rbf"), rtol=1e-8)


def test_training_scores_are_those_of_the_same_rows_as_new_ones() -> None:
    """Every row has its scores, whichever copy it is, and those of weight 0 too."""
    weights = np.where(np.arange(len(X)) % 7 == 0, 0.0, WEIGHTS)
    for given in (None, WEIGHTS, weights):
        model = KernelPCA(3, kernel="rbf", merge_duplicates=True)
        scores = model.fit_transform(X, sample_weight=given)
        np.testing.assert_allclose(scores, model.transform(X), atol=1e-10)


def test_the_order_of_rows_changes_nothing() -> None:
    """Another order of the rows gives the same eigenvalues and, up to signs, each row its scores."""
    order = np.random.default_rng(3).permutation(len(X))
    one, other = (KernelPCA(3, kernel="rbf", merge_duplicates=True) for _ in range(2))
    scores, moved = one.fit_transform(X), other.fit_transform(X[order])
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(np.abs(scores[order]), np.abs(moved), atol=1e-10)


@pytest.mark.parametrize("storage", ["auto", "zarr"])
def test_inputs_and_chunks_change_no_bit(storage: str, tmp_path: Path) -> None:
    """A Dask or Zarr array in any chunks gives the bits of the array in memory."""
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(70, 2))
    expected = KernelPCA(3, kernel="rbf", merge_duplicates=True).fit(X)
    for given in (da.from_array(X, chunks=(131, 2)), array):
        found = KernelPCA(3, kernel="rbf", storage=storage, merge_duplicates=True).fit(given)
        for name in ("eigenvalues_", "eigenvectors_", "row_means_"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_one_duplicate_in_iris() -> None:
    """Iris has one row twice: merged only where that is asked for, to the same model."""
    iris = load_iris().data
    models = {
        merge: KernelPCA(4, kernel="rbf", merge_duplicates=merge).fit(iris) for merge in (False, "auto", True)
    }
    assert {merge: model._model.n_rows for merge, model in models.items()} == {
        False: 150,
        "auto": 150,
        True: 149,
    }
    np.testing.assert_allclose(models[True].eigenvectors_, models[False].eigenvectors_, atol=1e-10)
    np.testing.assert_allclose(models[True].eigenvalues_, models[False].eigenvalues_, rtol=1e-10)
    np.testing.assert_array_equal(models["auto"].eigenvectors_, models[False].eigenvectors_)


def test_rows_that_are_all_the_same() -> None:
    """Then every eigenvalue is 0, as without merging."""
    plain, merged = both(np.ones((50, 3)), n_components=2)
    assert plain.eigenvalues_.tolist() == merged.eigenvalues_.tolist() == [0, 0]


def test_a_precomputed_matrix_is_never_merged() -> None:
    """Equal rows of a given matrix stay apart."""
    K = X[:50] @ X[:50].T
    plain, merged = both(K, n_components=3, kernel="precomputed")
    assert merged._model.n_rows == 50
    np.testing.assert_array_equal(plain.eigenvectors_, merged.eigenvectors_)


def test_a_saved_basis_of_merged_rows(tmp_path: Path) -> None:
    """It holds the distinct rows with their weights, scores as before, and passes verification."""
    model = KernelPCA(3, kernel="rbf", merge_duplicates=True).fit(X)
    model.save(tmp_path / "basis.zarr")
    basis = load_basis(tmp_path / "basis.zarr")
    assert basis.n_rows == 40
    np.testing.assert_allclose(basis.transform(X_NEW), model.transform(X_NEW), atol=1e-14)
    assert verify_store(tmp_path / "basis.zarr", silent()).ok


@pytest.mark.parametrize("value", ["yes", None, 2, "True"])
def test_an_unknown_choice_is_refused(value: Any) -> None:
    """The estimator takes True, False and "auto"."""
    with pytest.raises(ConfigError, match=r"merge_duplicates: got .*, expected one of auto, True, False"):
        KernelPCA(merge_duplicates=value).fit(X)


@pytest.mark.parametrize("weights", [np.ones(3), np.full(900, np.nan), -WEIGHTS])
def test_wrong_weights_are_refused_before_they_are_summed(weights: Array) -> None:
    """Weights of another number of rows, missing or negative ones are refused."""
    with pytest.raises(ConfigError, match=r"sample_weight: got .*, expected 900 finite numbers"):
        KernelPCA(2, merge_duplicates=True).fit(X, sample_weight=weights)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "train.npy", X)
    np.save(tmp_path / "new.npy", X_NEW)
    return tmp_path


def fitted(folder: Path, name: str, changes: dict[str, Any] | None = None) -> FitSummary:
    places = {"gram.path": str(folder / f"{name}.zarr"), "models.path": str(folder / name)}
    return fit_config(configured(folder, {**places, "gram.tile_rows": 16, **(changes or {})}), silent())


@pytest.mark.parametrize("storage", ["zarr", "recompute"])
def test_a_configured_fit_merges_by_itself(folder: Path, storage: str) -> None:
    """By default duplicates are merged where that pays; all that is published is as without."""
    merged = fitted(folder, "merged", {"gram.storage": storage})
    plain = fitted(folder, "plain", {"gram.storage": storage, "data.merge_duplicates": False})
    assert (merged.n_samples, merged.n_distinct) == (900, 40)
    assert (plain.n_samples, plain.n_distinct) == (900, None)
    assert merged.fingerprint == plain.fingerprint
    np.testing.assert_allclose(merged.eigenvalues, plain.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(merged.trace, plain.trace, rtol=1e-12)
    for path in (merged.store, merged.basis):
        report = verify_store(path, silent())
        assert report.ok, report


def test_the_command_tells_the_distinct_rows(folder: Path) -> None:
    """`fit --json` has their number, none where duplicates stay, and refuses an unknown choice by its key."""
    (folder / "c.yaml").write_text(json.dumps(configured(folder).model_dump(mode="json")))
    for merge, n_distinct in (("auto", 40), ("false", None)):
        places = [f"gram.path={merge}.zarr", f"models.path=of-{merge}", f"data.merge_duplicates={merge}"]
        done = command(
            folder, "fit", "c.yaml", "--json", *(part for key in places for part in ("--set", key))
        )
        assert done.returncode == 0, done.stdout
        result = json.loads(done.stdout)["result"]
        assert (result["n_samples"], result["n_distinct"]) == (900, n_distinct)
    refused = command(folder, "fit", "c.yaml", "--set", "data.merge_duplicates=maybe")
    assert refused.returncode == 2
    assert "data.merge_duplicates" in refused.stderr
    assert "expected auto, true or false" in refused.stderr


def test_verification_knows_the_weights(folder: Path) -> None:
    """Means that do not belong to the weights of a merged store are found."""
    store = fitted(folder, "merged").store
    array = zarr.open_group(store, mode="a")["weights"]
    assert isinstance(array, zarr.Array)
    array[0] = 1 + np.asarray(array[0])
    assert not verify_store(store, silent()).ok


def test_the_distinct_rows_are_told(folder: Path) -> None:
    """The table has a number of distinct rows where they were merged, and else has none."""
    for changes, line in (({}, "900 x 3 (40 distinct)"), ({"data.merge_duplicates": False}, "900 x 3")):
        printed = io.StringIO()
        render(fitted(folder, f"told{len(line)}", changes), printed, width=100)
        assert any(found.rstrip().endswith(line) for found in printed.getvalue().splitlines())


def test_the_same_fit_again(folder: Path) -> None:
    """A fit that was published is found again, also where it is asked for by another name."""
    first = fitted(folder, "one")
    for merge in ("auto", True):
        again = fitted(folder, "one", {"data.merge_duplicates": merge})
        assert (again.reused, again.version, again.n_distinct) == (True, first.version, 40)


def test_merged_and_whole_rows_are_never_mixed(folder: Path) -> None:
    """A store of merged rows refuses a fit of all of them, and the other way around, and stays as it is."""
    for name, first, second in (("a", "auto", False), ("b", False, "auto")):
        fitted(folder, name, {"data.merge_duplicates": first})
        with pytest.raises(DataError, match=r"n_distinct: .* there, .* now"):
            fitted(folder, name, {"data.merge_duplicates": second})
        assert verify_store(folder / f"{name}.zarr", silent()).ok


def test_merging_makes_an_impossible_fit_possible(folder: Path) -> None:
    """What the plan of all rows refuses is fitted where few of them are distinct."""
    np.save(folder / "train.npy", copies(20_000))
    limits = {"limits.disk": 3 * 10**6}
    refusal = plan_config(configured(folder, limits), silent()).refusals[0]
    with pytest.raises(ConfigError, match=r"of disk, limits\.disk is"):
        fitted(folder, "plain", {**limits, "data.merge_duplicates": False})
    assert "of disk, limits.disk is" in refusal
    assert fitted(folder, "merged", limits).n_distinct == 40
    assert run_config(configured(folder, limits), silent()).fit.n_distinct == 40


def test_what_merging_cannot_rescue_is_refused(folder: Path) -> None:
    """Where merging is given up the refusal of the plan stands, and no row has been written."""
    np.savetxt(folder / "train.csv", np.random.default_rng(0).standard_normal((3000, 4)), delimiter=",")
    changes = {"limits.disk": 10**6, "data.train.path": str(folder / "train.csv")}
    with pytest.raises(ConfigError, match=r"of disk, limits\.disk is"):
        fitted(folder, "refused", changes)
    assert sorted(path.name for path in (folder / "refused.zarr").iterdir()) == ["lock"]


def test_rows_that_must_be_merged_and_cannot_be(folder: Path) -> None:
    """Asked for merging, too little memory is an error that names it; chosen automatically it is none."""
    distinct = np.random.default_rng(0).standard_normal((3000, 3))
    np.save(folder / "train.npy", distinct)
    limit = {"limits.memory": 200_000, "solver.n_components": 1}
    with pytest.raises(ConfigError, match=r"more than 24.4 KiB, .* limits.memory, .*merge_duplicates: auto"):
        fitted(folder, "true", {**limit, "data.merge_duplicates": True})
    with pytest.raises(ConfigError, match=r"more than 24.4 KiB, .* memory_limit, .*merge_duplicates='auto'"):
        KernelPCA(2, memory_limit=200_000, merge_duplicates=True).fit(distinct)
    with pytest.raises(ConfigError, match=r"needs .* of memory, limits.memory is"):
        fitted(folder, "auto", limit)


def test_fewer_components_than_asked_are_told(folder: Path) -> None:
    """A basis of merged rows has no more components than these allow, which is a warning."""
    np.save(folder / "train.npy", copies(300, 3))
    with pytest.warns(KpcaStreamWarning, match="only 2 of 3 components have a positive eigenvalue"):
        assert len(fitted(folder, "few").eigenvalues) == 2
