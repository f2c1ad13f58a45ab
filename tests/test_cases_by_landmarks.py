"""Known faults of other programs as tests: the same rows, approximated by landmarks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cases
import dask.array as da
import numpy as np
import pytest
from casework import Commands, estimator
from numpy.typing import NDArray

from kpca_stream import KernelPCA, load_basis
from kpca_stream.errors import KpcaStreamWarning

Array = NDArray[Any]

by_any = pytest.mark.parametrize("landmarks", ["kmeans", "rpcholesky", "uniform"])


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)


def spanned(case: cases.Case, **more: Any) -> KernelPCA:
    """A model that approximates nothing: every row is a landmark."""
    return estimator(case, eigen_solver="nystrom", **{"landmarks": case.X, **more})


@by_any
@pytest.mark.parametrize("n_landmarks", [5, 50])
def test_more_landmarks_than_distinct_rows(landmarks: str, n_landmarks: int) -> None:
    """Five distinct rows of 500 have four positive components, exact to 1e-8, and finite scores."""
    case = cases.repeated_rows()
    model = estimator(case, eigen_solver="nystrom", n_landmarks=n_landmarks, landmarks=landmarks).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-8)
    assert np.isfinite(model.transform(case.X)).all()
    assert np.isfinite(model.reconstruction_error(case.X + 0.1)).all()
    with pytest.warns(KpcaStreamWarning, match="only 4 of 6 components have a positive eigenvalue"):
        estimator(case, 6, eigen_solver="nystrom", n_landmarks=n_landmarks, landmarks=landmarks).fit(case.X)


@pytest.mark.parametrize("merge", ["true", "false"])
def test_repeated_rows_on_the_command_line(merge: str, commands: Commands) -> None:
    """Merged or not, repeated rows come to the same four eigenvalues, and the basis verifies."""
    case = cases.repeated_rows()
    commands.configure(case, solver={"method": "nystrom"}, nystrom={"landmarks": 50})
    fit = commands("fit", "c.yaml", "--set", f"data.merge_duplicates={merge}")["result"]
    np.testing.assert_allclose(fit["eigenvalues"], case.eigenvalues, rtol=1e-8)
    assert (fit["landmarks"]["n_landmarks"], fit["n_distinct"]) == (5, 5 if merge == "true" else None)
    commands("verify", fit["basis"])


def test_an_indefinite_kernel_is_told_by_the_drawn_rows(commands: Commands) -> None:
    """The kernel is named as by an exact fit; going on, at most three components are kept, none NaN."""
    case = cases.indefinite()
    commands.configure(case, solver={"method": "nystrom", "n_components": 5})
    refused = commands("fit", "c.yaml", code=65)["error"]["message"]
    assert re.search(r"kernel sigmoid is not positive", refused)
    found = commands("fit", "c.yaml", "--set", "kernel.on_indefinite=warn")
    assert 1 <= len(found["result"]["eigenvalues"]) <= 3
    assert np.isfinite(found["result"]["eigenvalues"]).all()
    assert [text for text in found["warnings"] if "kernel sigmoid is not positive" in text]


def test_distances_far_from_the_origin() -> None:
    """Float32 rows at 4096 keep their distances to landmarks: eigenvalues to 1e-5."""
    case = cases.far_from_the_origin()
    np.testing.assert_allclose(spanned(case).fit(case.X).eigenvalues_, case.eigenvalues, rtol=1e-5)


def test_entries_that_are_all_near_one() -> None:
    """Rows that the kernel hardly tells apart are warned of, and right to 1e-6 in float64."""
    case = cases.nearly_constant()
    model = estimator(case, eigen_solver="nystrom", precision="float64", n_landmarks=40)
    with pytest.warns(KpcaStreamWarning, match="nearly constant"):
        model.fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-6)


def test_gamma_is_fixed_by_the_fit(tmp_path: Path) -> None:
    """None and 1/4 are the same on four columns, also after saving and for rows that are added."""
    case = cases.default_gamma()
    new = case.X[:3] + 0.1
    models = [spanned(case, gamma=gamma).fit(case.X) for gamma in (None, 0.25)]
    models[0].save(tmp_path / "basis.zarr")
    for model in models:
        assert model.gamma_ == 0.25
        np.testing.assert_allclose(model.eigenvalues_[:2], case.eigenvalues[:2], rtol=1e-8)
    scores = [model.transform(new) for model in (*models, load_basis(tmp_path / "basis.zarr"))]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    assert models[0].partial_fit(new).gamma_ == 0.25


@pytest.mark.parametrize("n_new", [1, 7, 30])
def test_new_rows_are_centred_by_the_training_rows(n_new: int) -> None:
    """A new row has the same scores alone, among seven, and among as many as were trained on."""
    case = cases.new_rows_of_any_number()
    scores = spanned(case).fit(case.X).transform(case.known["new"][:n_new])
    expected = np.array(case.known["first_scores"])[:n_new]
    np.testing.assert_allclose(np.abs(scores[:3]), np.abs(expected), atol=1e-9)


def test_scores_are_projections_on_unit_vectors() -> None:
    """Scores of old and new rows to 1e-9; their squares sum up to the eigenvalues."""
    case = cases.polynomial()
    model = spanned(case).fit(case.X)
    scores = model.transform(case.X)
    np.testing.assert_allclose((scores**2).sum(axis=0), case.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(np.abs(scores[0]), np.abs(case.known["first_scores"]), atol=1e-9)
    new = model.transform(np.array(case.known["new"]))[0]
    np.testing.assert_allclose(np.abs(new), np.abs(case.known["new_scores"]), atol=1e-9)


def test_ratios_are_of_the_whole_trace() -> None:
    """By ten landmarks iris explains less than with all of its rows, never all of what is kept."""
    case = cases.default_gamma()
    exact = KernelPCA(2, kernel="rbf", gamma=0.25).fit(case.X).explained_variance_ratio_
    few = estimator(case, 2, eigen_solver="nystrom", n_landmarks=10).fit(case.X).explained_variance_ratio_
    every = spanned(case, n_components=2).fit(case.X).explained_variance_ratio_
    np.testing.assert_allclose(every, exact, rtol=1e-7)
    assert 0.5 < few.sum() < exact.sum() < 0.74


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_signs_are_the_same_from_call_to_call(n_jobs: int) -> None:
    """Ten calls on one and two threads give equal scores to the bit."""
    case = cases.signs()
    first = estimator(case, eigen_solver="nystrom", n_landmarks=40).fit(case.X).transform(case.X)
    for _ in range(10):
        model = estimator(case, eigen_solver="nystrom", n_landmarks=40, n_jobs=n_jobs)
        np.testing.assert_array_equal(model.fit(case.X).transform(case.X), first)


@pytest.mark.filterwarnings("ignore:residual trace:kpca_stream.errors.KpcaStreamWarning")
@by_any
def test_a_flat_spectrum_is_told_how_far_it_is_off(landmarks: str) -> None:
    """Where an approximation is far off its brackets say so: exact eigenvalues lie in them."""
    case = cases.flat_spectrum()
    model = estimator(case, eigen_solver="nystrom", n_landmarks=150, landmarks=landmarks).fit(case.X)
    low, high = model.eigenvalue_bounds_.T
    assert (low <= case.eigenvalues).all()
    assert (case.eigenvalues <= high).all()
    scores = model.transform(case.X)
    np.testing.assert_allclose((scores**2).sum(axis=0), model.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("n_samples", list(cases.TOO_MANY_ROWS))
def test_landmarks_are_the_way_out_of_limits(n_samples: int, commands: Commands) -> None:
    """What is too much for an exact fit is planned by landmarks within 2 GiB, and the refusal says so."""
    commands.configure(cases.flat_spectrum(), limits={"memory": "2GiB", "core_hours": 0.05})
    shape = ("plan", "c.yaml", "--shape", f"{n_samples}x8", "--set", "solver.tol=1e-6")
    refused = commands(*shape, "--set", "gram.storage=memory", code=2)["error"]["message"]
    assert "approximation by 1,000 landmarks" in refused
    assert "set solver.allow_approximate: true or solver.method: nystrom" in refused
    planned = commands(*shape, "--set", "solver.allow_approximate=true", "--set", "gram.storage=memory")
    assert planned["result"]["method"] == "nystrom"
    assert planned["result"]["memory_total"] < 2 * 2**30


def test_a_precomputed_kernel_scores_rows_of_it() -> None:
    """Scores to 1e-9 from rows of kernel values, which must be as many as were trained on."""
    case = cases.precomputed()
    model = estimator(case, 2, eigen_solver="nystrom", landmarks=np.arange(5)).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    scores = model.transform(np.ones((3, 5)))
    np.testing.assert_allclose(np.abs(scores), np.abs([case.known["constant_row_scores"]] * 3), atol=1e-9)
    with pytest.raises(ValueError, match=r"4 .*5"):
        model.transform(np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"100, 7"):
        estimator(case, 2, eigen_solver="nystrom", n_landmarks=5).fit(case.known["rows_not_kernel"])


def test_a_constant_column_changes_nothing(commands: Commands) -> None:
    """Standardised it is 0: the eigenvalues are those of the other columns alone."""
    case = cases.constant_column()
    found = []
    for name, X in (("with", case.X), ("without", case.X[:, :3])):
        settings = {"method": "nystrom", "precision": "float64"}
        commands.configure(
            case, X, data={"scale": "standard"}, solver=settings, gram={"path": name}, name=name
        )
        found.append(commands("fit", "c.yaml")["result"]["eigenvalues"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)
    np.testing.assert_allclose(spanned(case).fit(case.X).eigenvalues_, case.eigenvalues, rtol=1e-8)


def test_values_that_are_not_finite_are_dropped_or_named(commands: Commands) -> None:
    """Three bad rows are counted and the first is named; without them the other 597 are fitted."""
    case = cases.not_finite()
    commands.configure(case, solver={"method": "nystrom"}, nystrom={"method": "uniform"})
    assert "row 17" in commands("fit", "c.yaml", code=65)["error"]["message"]
    fit = commands("fit", "c.yaml", "--set", "data.on_missing=drop")["result"]
    assert (fit["n_samples"], fit["n_dropped"]) == (597, 3)
    assert fit["landmarks"]["n_landmarks"] == 597
    np.testing.assert_allclose(fit["eigenvalues"], case.eigenvalues, rtol=1e-8)


def test_picked_rows_in_any_chunks() -> None:
    """Chunks of uneven size, also of rows that are added, give the eigenvalues of the rows as they are."""
    case, X, keep = cases.filtered()
    lazy = da.from_array(X, chunks=(100, 3))[keep].compute_chunk_sizes()
    np.testing.assert_allclose(spanned(case).fit(lazy).eigenvalues_, case.eigenvalues, rtol=1e-8)
    added = spanned(case)
    for block in (lazy[:250], lazy[250:]):
        added.partial_fit(block)
    np.testing.assert_allclose(added.eigenvalues_, case.eigenvalues, rtol=1e-8)
