"""Hard cases from public trackers, solved by landmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from casework import Commands, estimator, fitted

from kpca_stream.approximation import NystromSettings
from kpca_stream.errors import DataError
from tests.landmark_jobs import Run, runner

METHODS = ("kmeans", "rpcholesky", "uniform")


def settings(n_landmarks: int, method: Any = "uniform") -> dict[str, Any]:
    return {"method": "nystrom", "nystrom": NystromSettings(n_landmarks=n_landmarks, method=method)}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)


@pytest.mark.parametrize("merge", ["auto", False])
@pytest.mark.parametrize("method", METHODS)
def test_more_landmarks_than_distinct_rows(method: str, merge: Any) -> None:
    """Fifty landmarks of five distinct rows give the four positive eigenvalues exactly, and finite scores."""
    case = cases.repeated_rows()
    basis = fitted(case, merge_duplicates=merge, **settings(50, method)).basis
    np.testing.assert_allclose(basis.eigenvalues, case.eigenvalues, rtol=1e-8)
    model = estimator(case, eigen_solver="nystrom", n_landmarks=50).fit(case.X)
    assert np.isfinite(model.transform(case.X)).all()


def test_landmarks_given_many_times_over() -> None:
    """Copies among landmarks of one's own change nothing."""
    case = cases.repeated_rows()
    given = np.repeat(np.unique(case.X, axis=0), 3, axis=0)
    landmarks = NystromSettings(given=given)
    basis = fitted(case, method="nystrom", nystrom=landmarks).basis
    np.testing.assert_allclose(basis.eigenvalues, case.eigenvalues, rtol=1e-8)


def test_rows_far_from_the_origin_by_landmarks() -> None:
    """float32 rows around 4096 that differ by 0.05 keep five digits with every row a landmark."""
    case = cases.far_from_the_origin()
    basis = fitted(case, **settings(len(case.X))).basis
    np.testing.assert_allclose(basis.eigenvalues, case.eigenvalues, rtol=1e-5)


def test_a_flat_spectrum_is_bracketed() -> None:
    """Where landmarks leave much, eigenvalues are too low by no more than is certified, and that is told."""
    case = cases.flat_spectrum()
    with pytest.warns(match="landmarks would bring it below 5 %"):
        found = fitted(case, **settings(60))
    lower, bound = found.basis.eigenvalues, found.certificates[0].bound
    assert (lower < case.eigenvalues).all()
    assert (case.eigenvalues < lower + bound).all()
    exact = fitted(case, **settings(len(case.X))).basis
    np.testing.assert_allclose(exact.eigenvalues, case.eigenvalues, rtol=1e-8)


def test_a_given_matrix_by_landmarks() -> None:
    """All positions as landmarks give the exact answer; matrices that are not square are refused by shape."""
    case = cases.precomputed()
    basis = fitted(case, **settings(len(case.X))).basis
    np.testing.assert_allclose(basis.eigenvalues, case.eigenvalues, rtol=1e-9)
    for shape in ((5, 4), (100, 7)):
        with pytest.raises(DataError, match=rf"\({shape[0]}, {shape[1]}\)"):
            fitted(case, X=np.ones(shape), **settings(3))


def test_bad_values_are_found_before_landmarks_are_chosen(commands: Commands) -> None:
    """Three rows that are not finite are counted and the first is named, and nothing is published."""
    case = cases.not_finite()
    commands.configure(case, solver={"method": "nystrom"}, nystrom={"landmarks": 597, "method": "uniform"})
    message = commands("fit", "c.yaml", code=65)["error"]["message"]
    assert "3 rows" in message
    assert "row 17" in message
    assert not Path("gram.zarr/landmarks.npy").exists()
    found = commands("fit", "c.yaml", "--set", "data.on_missing=drop")["result"]
    assert (found["n_samples"], found["n_dropped"]) == (597, 3)
    np.testing.assert_allclose(found["eigenvalues"], case.eigenvalues, rtol=1e-8)


@pytest.mark.parametrize("n_samples", cases.TOO_MANY_ROWS)
def test_too_many_rows_for_all_pairs_are_few_for_landmarks(n_samples: int, commands: Commands) -> None:
    """Where the hours of an exact fit are refused, the refusal names landmarks, and these are within them."""
    case = cases.flat_spectrum()
    limits = {"memory": "2GiB", "core_hours": 0.02}
    commands.configure(case, X="none.npy", limits=limits, gram={"storage": "recompute"})
    arguments = ["plan", "c.yaml", "--shape", f"{n_samples}x50"]
    message = commands(*arguments, code=2)["error"]["message"]
    assert "limits.core_hours is 0.02" in message
    assert "solver.method: nystrom" in message
    plan = commands(*arguments, "--set", "solver.method=nystrom")["result"]
    assert plan["evaluations"] == 1000 * n_samples
    assert plan["memory_total"] < 2 * 2**30


def test_the_recipe_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`configs/nystrom.yaml` fits, publishes and scores in an empty folder."""
    monkeypatch.chdir(tmp_path)
    run: Run = runner(capsys)
    recipe = str(Path(__file__).parents[1] / "configs" / "nystrom.yaml")
    result = run("run", recipe)["result"]
    assert result["fit"]["method"] == "nystrom"
    assert result["fit"]["landmarks"]["residual_trace_share"] < 0.05
    assert result["score"]["n_rows"] == 360
