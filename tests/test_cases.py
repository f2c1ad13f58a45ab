"""Known faults of other programs as tests: spectra, digits, parameters and scores."""

from __future__ import annotations

import re
from pathlib import Path

import cases
import dask
import numpy as np
import pytest
import reference
import zarr
from casework import Commands, Method, estimator, fitted
from threadpoolctl import threadpool_limits

from kpca_stream import load_basis
from kpca_stream.errors import ConvergenceError, KpcaStreamWarning
from kpca_stream.stages.sweep import sweep
from kpca_stream.storage.source import open_source

solvers = pytest.mark.parametrize("method", ["dense", "lanczos"])


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)


# Spectra that are not positive, not of full rank, or repeated


@solvers
def test_an_indefinite_kernel_is_told_by_all_of_its_spectrum(method: str) -> None:
    """Whatever is asked for, the kernel and the ratio of the whole spectrum are named; no score is NaN."""
    case = cases.indefinite()
    told = rf"kernel sigmoid is not positive .* = {case.known['ratio']}"
    with pytest.raises(ValueError, match=told):
        estimator(case, 5, eigen_solver=method).fit(case.X)
    with pytest.warns(KpcaStreamWarning, match=told):
        model = estimator(case, 3, eigen_solver=method).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-8)
    assert np.isfinite(model.transform(case.X)).all()


def test_an_indefinite_kernel_on_the_command_line(commands: Commands) -> None:
    """A fit is refused with exit 65 and, where told to go on, keeps the three positive components."""
    case = cases.indefinite()
    commands.configure(case, solver={"n_components": 5})
    refused = commands("fit", "c.yaml", code=65)["error"]["message"]
    assert re.search(r"kernel sigmoid .*= 0\.4881", refused)
    found = commands("fit", "c.yaml", "--set", "kernel.on_indefinite=warn")
    np.testing.assert_allclose(found["result"]["eigenvalues"], case.eigenvalues, rtol=1e-8)
    assert [text for text in found["warnings"] if "= 0.4881" in text]


@solvers
def test_components_without_variance_are_zero_for_all_rows(method: str) -> None:
    """One component of three is positive: its scores are exact, the others 0, for old and new rows."""
    case = cases.on_a_line()
    model = estimator(case, 3, eigen_solver=method)
    scores = model.fit_transform(case.X)
    sign = np.sign(scores[2, 0] * case.known["scores"][2])
    np.testing.assert_allclose(model.eigenvalues_, [84 / 9, 0, 0], rtol=1e-10)
    for found in (scores, model.transform(case.X)):
        np.testing.assert_allclose(found[:, 0], sign * case.known["scores"], rtol=1e-10)
    new = model.transform(np.array(case.known["new"]))
    assert new[0, 0] == pytest.approx(sign * case.known["new_score"], rel=1e-10)
    np.testing.assert_array_equal(np.vstack([scores, new])[:, 1:], 0)


def test_components_without_variance_are_not_stored(commands: Commands) -> None:
    """A stored basis holds the one positive component, and the fit says so."""
    case = cases.on_a_line()
    commands.configure(case, solver={"n_components": 3})
    found = commands("fit", "c.yaml")
    assert found["result"]["eigenvalues"] == pytest.approx([84 / 9], rel=1e-10)
    assert [text for text in found["warnings"] if "only 1 of 3 components" in text]
    new = load_basis(found["result"]["basis"]).transform(np.array(case.known["new"]))
    assert abs(new) == pytest.approx(case.known["new_score"], rel=1e-10)


@solvers
@pytest.mark.parametrize("tile_rows", [64, 200])
def test_pairs_of_eigenvalues_are_whole(method: Method, tile_rows: int) -> None:
    """On a ring both copies of an eigenvalue are found, and the vectors span cos(jt) and sin(jt)."""
    case = cases.ring()
    found = fitted(case, method=method, tile_rows=tile_rows)
    np.testing.assert_allclose(found.basis.eigenvalues, case.eigenvalues, rtol=1e-9)
    t, U = case.known["angles"], found.pairs.eigenvectors
    for order, columns in ((1, [0, 1]), (2, [2, 3]), (3, [4])):
        waves = np.column_stack([np.cos(order * t), np.sin(order * t)]) / 10  # unit vectors
        np.testing.assert_allclose(waves @ (waves.T @ U[:, columns]), U[:, columns], atol=1e-8)


@pytest.mark.parametrize("precision", ["float64", "mixed"])
@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos", "arpack", "randomized"])
def test_a_flat_spectrum_is_not_approximated(eigen_solver: str, precision: str) -> None:
    """Every solver: values to 1e-8, true residuals below 1e-8, and scores that transform repeats."""
    case = cases.flat_spectrum()
    model = estimator(case, eigen_solver=eigen_solver, precision=precision, tol=1e-9)
    scores = model.fit_transform(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-8)
    K = reference.centred(reference.kernel("rbf", case.X, case.X, gamma=0.5))
    true = np.linalg.norm(K @ model.eigenvectors_ - model.eigenvectors_ * model.eigenvalues_, axis=0)
    assert (true <= 1e-8 * case.eigenvalues[0]).all()
    assert (model.residual_norms_ <= 1e-8 * case.eigenvalues[0]).all()
    np.testing.assert_allclose(model.transform(case.X), scores, rtol=0, atol=1e-6)


@solvers
def test_a_kernel_that_is_almost_the_identity(method: str) -> None:
    """Unscaled wine is warned of, right to 1e-8, and never given out before it has converged."""
    case = cases.nearly_identity()
    with pytest.warns(KpcaStreamWarning, match="close to the identity"):
        model = estimator(case, eigen_solver=method).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-8)
    with (
        pytest.warns(KpcaStreamWarning, match="close to the identity"),
        pytest.raises(ConvergenceError, match=r"^0 of 5 components converged in 1 pass.*max_iter"),
    ):
        estimator(case, eigen_solver="lanczos", max_iter=1).fit(case.X)


def test_what_helps_a_kernel_that_is_almost_the_identity(commands: Commands) -> None:
    """Standardised columns give the eigenvalues that were meant, and no warning."""
    case = cases.nearly_identity()
    commands.configure(case, X="sklearn:wine", data={"scale": "standard"})
    found = commands("fit", "c.yaml")
    np.testing.assert_allclose(found["result"]["eigenvalues"], case.known["standardised"], rtol=1e-8)
    assert found["warnings"] == []


# Digits that are lost


@pytest.mark.parametrize("tile_rows", [7, 40])
@solvers
def test_distances_far_from_the_origin(method: Method, tile_rows: int) -> None:
    """Float32 rows at 4096 keep their distances: eigenvalues to 1e-5."""
    case = cases.far_from_the_origin()
    found = fitted(case, method=method, tile_rows=tile_rows)
    assert found.plan.precision == "float32"
    np.testing.assert_allclose(found.basis.eigenvalues, case.eigenvalues, rtol=1e-5)


def test_a_stored_tile_far_from_the_origin(commands: Commands) -> None:
    """The kernel value of the first two rows, as it lies in the store, agrees with 50 digits."""
    case = cases.far_from_the_origin()
    commands.configure(case, solver={"tol": 1e-6})
    found = commands("fit", "c.yaml")["result"]
    np.testing.assert_allclose(found["eigenvalues"], case.eigenvalues, rtol=1e-5)
    tiles = zarr.open_group("gram.zarr", mode="r")["tiles"]
    assert isinstance(tiles, zarr.Array)
    assert float(np.asarray(tiles[0, 1])) == pytest.approx(case.known["first_two"], rel=2e-6)


@solvers
def test_entries_that_are_all_near_one(method: Method) -> None:
    """A kernel of ones but for 1e-7 is warned of; right to 1e-6 in float64, and no noise in float32."""
    case = cases.nearly_constant()
    with pytest.warns(KpcaStreamWarning, match="nearly constant"):
        double = fitted(case, X=case.X.astype(float), method=method)
    np.testing.assert_allclose(double.basis.eigenvalues, case.eigenvalues, rtol=1e-6)
    with pytest.warns(KpcaStreamWarning, match="nearly constant"):
        single = fitted(case, method=method)
    assert single.plan.tile_dtype == np.float32
    np.testing.assert_allclose(single.basis.eigenvalues, case.eigenvalues, rtol=1e-4)


def test_means_of_float32_are_summed_in_float64() -> None:
    """A million equal rows in float32 have that row as their mean, and no variance."""
    row = np.array([100.1, -100.1], dtype=np.float32)
    looked = sweep(open_source(np.broadcast_to(row, (1_000_000, 2))), seed=0)
    np.testing.assert_allclose(looked.moments.mean, row.astype(float), rtol=1e-12)
    np.testing.assert_allclose(looked.moments.variance, 0, atol=1e-18)


# Parameters, scores and their shape


def test_gamma_is_fixed_by_the_fit(tmp_path: Path) -> None:
    """None and 1/4 are the same on four columns, also for a single row and after saving."""
    case = cases.default_gamma()
    default, given = (estimator(case, gamma=gamma).fit(case.X) for gamma in (None, case.known["gamma"]))
    assert default.gamma_ == case.known["gamma"]
    np.testing.assert_allclose(default.eigenvalues_, case.eigenvalues, rtol=1e-9)
    np.testing.assert_array_equal(default.eigenvectors_, given.eigenvectors_)
    default.save(tmp_path / "b.zarr")
    stored = load_basis(tmp_path / "b.zarr")
    for X in (case.X, case.X[3:4], case.X[:, :].astype(np.float32)):
        expected = given.transform(X)
        np.testing.assert_array_equal(default.transform(X), expected)
        np.testing.assert_array_equal(stored.transform(X), expected)


def test_ratios_are_of_the_whole_trace(commands: Commands) -> None:
    """Two components of iris explain 0.73 of the variance, not all of it."""
    case = cases.default_gamma()
    model = estimator(case).fit(case.X)
    np.testing.assert_allclose(model.explained_variance_ratio_, case.known["ratios"], rtol=1e-9)
    commands.configure(case, X="sklearn:iris", kernel={"name": "rbf", "gamma": None})
    found = commands("fit", "c.yaml")["result"]
    np.testing.assert_allclose(found["explained_variance_ratio"], case.known["ratios"], rtol=1e-9)
    assert found["trace"] == pytest.approx(case.known["trace"], rel=1e-9)


@solvers
@pytest.mark.parametrize("n_new", [1, 7, 30])
def test_new_rows_are_centred_by_the_training_rows(method: str, n_new: int) -> None:
    """A new row has the same scores alone, among seven, and among as many as were trained on."""
    case = cases.new_rows_of_any_number()
    model = estimator(case, eigen_solver=method).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    scores = model.transform(case.known["new"][:n_new])[:3]
    np.testing.assert_allclose(scores, case.known["first_scores"][: len(scores)], rtol=0, atol=1e-9)


@solvers
def test_scores_are_projections_on_unit_vectors(method: str) -> None:
    """Scores of old and new rows to 1e-9; their squares sum up to the eigenvalues."""
    case = cases.polynomial()
    model = estimator(case, eigen_solver=method)
    scores = model.fit_transform(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose((scores**2).sum(axis=0), case.eigenvalues, rtol=1e-9)
    new = model.transform(np.array(case.known["new"]))[0]
    signs = np.sign(scores[0] * case.known["first_scores"])
    np.testing.assert_allclose(signs * scores[0], case.known["first_scores"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(signs * new, case.known["new_scores"], rtol=0, atol=1e-9)


@solvers
@pytest.mark.parametrize("tile_rows", [7, 16, 60])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_signs_are_the_same_from_call_to_call(method: Method, tile_rows: int, n_threads: int) -> None:
    """Ten calls on one and two threads, in any tiles, give equal signs and scores to 1e-10."""
    case = cases.signs()
    with dask.config.set(scheduler="threads", num_workers=n_threads), threadpool_limits(n_threads):
        found = [fitted(case, method=method, tile_rows=tile_rows) for _ in range(10)]
    for each in found:
        scores = each.pairs.eigenvectors * np.sqrt(each.basis.eigenvalues)
        np.testing.assert_allclose(each.basis.eigenvalues, case.eigenvalues, rtol=1e-9)
        np.testing.assert_allclose(scores[0], case.known["first_scores"], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(each.pairs.eigenvectors, found[0].pairs.eigenvectors)
