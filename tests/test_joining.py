"""What may be added to the sums of an approximate fit, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import configured

from kpca_stream import KernelPCA
from kpca_stream.cli.render import render
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.pipeline import fit_config, merge_bases
from kpca_stream.results import FitSummary
from kpca_stream.storage.basis import open_basis
from kpca_stream.telemetry import silent

pytestmark = pytest.mark.filterwarnings("ignore:residual trace:kpca_stream.errors.KpcaStreamWarning")

X = np.random.default_rng(4).standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5]


def fitted(folder: Path, name: str, rows: str, **changes: Any) -> FitSummary:
    """A fit by 40 landmarks of some of the rows, with a store and a model of its own."""
    np.save(folder / "train.npy", X)
    settings = {
        "name": name,
        "data.train": {"path": str(folder / "train.npy"), "rows": rows},
        "solver.method": "nystrom",
        "nystrom": {"landmarks": 40},
        "gram": {"path": str(folder / f"{name}.zarr")},
        "score": None,
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return fit_config(configured(folder, settings), silent())


def joined(folder: Path, first: FitSummary, name: str, rows: str, **changes: Any) -> FitSummary:
    return fitted(folder, name, rows, nystrom={"landmarks": {"basis": first.basis}}, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kernel": {"name": "rbf", "gamma": 0.1}},
            r"got rbf, expected .* poly with gamma 0.1, degree 2",
        ),
        ({"kernel": {"name": "poly", "gamma": 0.1, "degree": 3}}, r"degree 3.*expected .*degree 2"),
        ({"kernel": {"name": "poly", "gamma": 0.1, "degree": 2, "coef0": 0.5}}, r"coef0 0.5.*coef0 1"),
        ({"data.scale": "standard"}, r"data.scale: got standard, expected none"),
    ],
)
def test_landmarks_come_with_their_kernel(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A kernel or a scale other than that of the landmarks taken is refused with both."""
    kernel = {"name": "poly", "gamma": 0.1, "degree": 2}
    first = fitted(tmp_path, "first", "0:200", kernel=kernel)
    with pytest.raises(ConfigError, match=message):
        joined(tmp_path, first, "second", "200:", **{"kernel": kernel, **changes})


def test_a_scale_is_taken_with_the_landmarks(tmp_path: Path) -> None:
    """Rows are standardised as those of the first basis were, and both merge."""
    first = fitted(tmp_path, "first", "0:200", data__scale="standard")
    second = joined(tmp_path, first, "second", "200:", data__scale="standard", kernel__gamma="median")
    assert second.gamma == first.gamma == 0.05
    merge_bases([Path(first.basis), Path(second.basis)], tmp_path / "m.zarr")
    assert open_basis(tmp_path / "m.zarr").total_weight == len(X)


def test_functions_of_ones_own_are_joined_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A basis of a function found by its name lends its landmarks, and merges; for another it does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lent.py").write_text("def dot(X, Y):\n    return X @ Y.T\n\n\nother = dot\n")
    kernel = {"name": "lent:dot", "gamma": None}
    first = fitted(tmp_path, "first", "0:200", kernel=kernel)
    second = joined(tmp_path, first, "second", "200:", kernel=kernel)
    merge_bases([Path(first.basis), Path(second.basis)], tmp_path / "m.zarr")
    linear = np.linalg.eigvalsh((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))[::-1][:3]
    np.testing.assert_allclose(open_basis(tmp_path / "m.zarr").eigenvalues, linear, rtol=1e-9)
    with pytest.raises(ConfigError, match=r"got lent:other, expected that of .*, lent:dot, since"):
        joined(tmp_path, first, "third", "200:", kernel={"name": "lent:other", "gamma": None})


def test_other_landmarks_make_another_version(tmp_path: Path) -> None:
    """The same fit is found again; other landmarks, bounds or pools are fitted in the same store."""
    versions = [fitted(tmp_path, "first", ":").version for _ in range(2)]
    assert versions == [1, 1]
    for number, nystrom in enumerate(
        ({"landmarks": 30}, {"landmarks": 40, "method": "uniform"}, {"landmarks": 40, "bound": "sampled"}), 2
    ):
        found = fitted(tmp_path, "first", ":", nystrom=nystrom)
        assert (found.version, found.reused) == (number, False)


@pytest.mark.parametrize("width", [40, 50, 80])
def test_numbers_are_whole_in_any_window(width: int, tmp_path: Path) -> None:
    """Columns that a window has no room for are left out; eigenvalues and their bounds are not cut."""
    fit = fitted(tmp_path, "first", ":")
    stream = io.StringIO()
    render(fit, stream, width=width)
    lines = stream.getvalue().splitlines()
    table = lines[next(i for i, line in enumerate(lines) if "eigenvalue " in line) :][:4]
    assert "…" not in "".join(table)
    assert f"{fit.eigenvalues[0]:.6g}" in table[1]
    assert table[0].split()[-1] == "most"
    assert ("cumulative" in table[0]) == (width == 80)


def model(n_components: int = 3, **changes: Any) -> KernelPCA:
    return KernelPCA(
        n_components,
        **{"kernel": "rbf", "gamma": 0.1, "eigen_solver": "nystrom", "n_landmarks": 40, **changes},
    )


@pytest.mark.parametrize(
    "change", [{"gamma": 0.2}, {"kernel": "laplacian"}, {"n_landmarks": 50}, {"landmarks": "uniform"}]
)
def test_sums_keep_their_kernel_and_landmarks(change: dict[str, Any]) -> None:
    """A parameter that the sums depend on is refused where it was changed since they began."""
    found = model().partial_fit(X[:200]).set_params(**change)
    with pytest.raises(ConfigError, match=f"partial_fit: got {next(iter(change))}=.*, expected"):
        found.partial_fit(X[200:])
    found.fit(X).partial_fit(X[:5])


def test_the_number_of_components_may_change() -> None:
    """Sums serve any number of components; fewer than asked for are told."""
    Z = X[:40]
    found = model(landmarks=Z).partial_fit(X[:200]).set_params(n_components=5).partial_fit(X[200:])
    expected = model(5, landmarks=Z).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    with pytest.warns(KpcaStreamWarning, match="only 40 of 60 components have a positive eigenvalue"):
        assert model(60, landmarks=Z).fit_transform(X).shape == (300, 40)


def test_models_without_sums_take_no_rows() -> None:
    """An exact model, and one of a given matrix, are told to be fitted anew."""
    exact = KernelPCA(3, kernel="rbf").fit(X).set_params(eigen_solver="nystrom", n_landmarks=40)
    with pytest.raises(DataError, match="the model is of method dense and keeps no sums"):
        exact.partial_fit(X)
    given = model(kernel="precomputed", gamma=None).fit(X @ X.T)
    with pytest.raises(
        DataError, match="keeps no sums to add to, expected nystrom and a kernel between rows"
    ):
        given.partial_fit(X @ X.T)


def test_refused_rows_change_nothing() -> None:
    """Rows with a missing value, and wrong weights, leave the model as it was."""
    found = model().fit(X)
    before = found.eigenvalues_
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(DataError, match="row 3, column '2'"):
        found.partial_fit(bad)
    with pytest.raises(ConfigError, match="sample_weight"):
        found.partial_fit(X, sample_weight=-np.ones(len(X)))
    np.testing.assert_array_equal(found.eigenvalues_, before)


def test_landmarks_that_no_longer_fit_are_told() -> None:
    """Where rows of another kind are added, a warning says how much of the trace is left."""
    far = X + 9.0
    found = model().partial_fit(X)
    with pytest.warns(KpcaStreamWarning, match=r"residual trace is \d+ %: these landmarks do not stand for"):
        found.partial_fit(far)
