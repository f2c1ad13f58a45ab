"""What `KernelPCA` takes as rows, what it refuses, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cases
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from converters import as_dask, as_fortran, as_frame, as_list, as_zarr, rows
from numpy.typing import NDArray

from kpca_stream import KernelPCA, load_basis
from kpca_stream.errors import ConfigError, DataError

Array = NDArray[Any]


@pytest.mark.parametrize("convert", [as_list, as_frame, as_fortran, as_zarr, as_dask])
def test_every_input_gives_the_same_bits(tmp_path: Path, convert: Any) -> None:
    """Lists, frames, Zarr and Dask arrays are fitted and scored like the NumPy array that they hold."""
    X, X_new = rows(), rows(20, seed=1)
    expected = KernelPCA(3, kernel="rbf").fit(X)
    model = KernelPCA(3, kernel="rbf").fit(convert(X, tmp_path))
    np.testing.assert_array_equal(model.eigenvectors_, expected.eigenvectors_)
    given = convert(X_new, tmp_path / "new")
    np.testing.assert_allclose(np.asarray(model.transform(given)), expected.transform(X_new), atol=1e-13)
    error = np.asarray(model.reconstruction_error(given))
    np.testing.assert_allclose(error, expected.reconstruction_error(X_new), atol=1e-13)


@pytest.mark.parametrize("convert", [as_list, as_fortran, as_zarr, as_dask])
@pytest.mark.parametrize("dtype", [np.int16, np.uint8, bool])
def test_integers_are_cast_before_any_arithmetic(tmp_path: Path, convert: Any, dtype: Any) -> None:
    """Small integers neither wrap around nor lose precision: the model is that of float64 rows."""
    X = (100 * np.abs(rows())).astype(dtype)
    expected = KernelPCA(3, kernel="poly").fit(X.astype(float))
    model = KernelPCA(3, kernel="poly").fit(convert(X, tmp_path))
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-13)
    scores = np.asarray(model.transform(convert(X, tmp_path / "new")))
    np.testing.assert_allclose(scores, expected.transform(X.astype(float)), rtol=1e-9, atol=1e-9)


def test_dask_in_lazy_dask_out() -> None:
    """Scores and errors of a Dask array are computed when they are asked for, chunk by chunk."""
    X = rows()
    model = KernelPCA(3, kernel="rbf").fit(X)
    given = da.from_array(X, chunks=((50, 0, 99, 1), 2))
    for found, n_columns in ((model.transform(given), (3,)), (model.reconstruction_error(given), ())):
        assert isinstance(found, da.Array)
        assert found.chunks[0] == (50, 0, 99, 1)
        assert found.compute().shape == (150, *n_columns)
    np.testing.assert_allclose(model.transform(given).compute(), model.transform(X), atol=1e-13)


def test_dask_in_lazy_scores_out(tmp_path: Path) -> None:
    """All that is known of the rows of a Dask array is lazy, and that of the same rows in memory."""
    X = rows()
    KernelPCA(3, kernel="rbf").fit(X).save(tmp_path / "basis.zarr")
    basis = load_basis(tmp_path / "basis.zarr")
    lazy = basis.score(da.from_array(X, chunks=((50, 0, 99, 1), 2)))
    for found, expected in zip(lazy, basis.score(X), strict=True):
        assert isinstance(found, da.Array)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-9, atol=1e-13)


def test_frame_in_frame_out(tmp_path: Path) -> None:
    """The scores of a data frame are one with its index, with the columns of scores on disk."""
    X = rows()
    KernelPCA(3, kernel="rbf").fit(X).save(tmp_path / "basis.zarr")
    basis = load_basis(tmp_path / "basis.zarr")
    given = pd.DataFrame(X[:9], index=list("abcdefghi"))
    found = basis.frame(given)
    assert list(found.index) == list("abcdefghi")
    assert list(found.columns) == [
        "kpca_0",
        "kpca_1",
        "kpca_2",
        "reconstruction_error",
        "hotelling_t2",
        "novelty",
    ]
    np.testing.assert_array_equal(found["kpca_1"], basis.transform(X[:9])[:, 1])
    assert found["novelty"].dtype == bool
    assert list(basis.frame(X[:9]).index) == list(range(9))


def test_uneven_empty_and_unknown_chunks() -> None:
    """A filtered Dask array, of unknown length, is fitted and scored as the rows that it holds."""
    case, X, keep = cases.filtered()
    given = da.from_array(X, chunks=(100, 2))[da.from_array(keep, chunks=100)]
    assert np.isnan(given.shape[0])
    model = KernelPCA(3, **case.parameters).fit(given)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    expected = KernelPCA(3, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(model.transform(given).compute(), expected.transform(case.X), atol=1e-12)


def test_zero_components_of_lazy_scores() -> None:
    """A lazy result has a column for every component, those of eigenvalue 0 included."""
    X = rows(40, 2)
    model = KernelPCA(4).fit(X)
    scores = model.transform(da.from_array(X, chunks=(7, 2)))
    assert scores.shape == (40, 4)
    np.testing.assert_array_equal(scores.compute()[:, 2:], 0)


def test_frames_are_matched_by_name(tmp_path: Path) -> None:
    """A stored basis finds a frame's columns by name, in any order, among others; a missing one is named."""
    X = rows()
    frame = as_frame(X, tmp_path)
    model = KernelPCA(2, kernel="rbf").fit(frame)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match=r"(?i)feature names"):
        model.transform(frame[["b", "a", "c", "d"]])
    model.save(tmp_path / "basis.zarr")
    basis = load_basis(tmp_path / "basis.zarr")
    assert basis.columns == ("a", "b", "c", "d")
    shuffled = frame[["d", "b", "a", "c"]].assign(other="text")
    np.testing.assert_array_equal(basis.transform(shuffled), model.transform(frame))
    with pytest.raises(DataError, match=r"X: got no column 'c'"):
        basis.transform(frame.drop(columns="c"))


def test_x_is_never_changed_and_never_followed() -> None:
    """Neither fit nor scoring writes to X, and what happens to X later changes no score."""
    X = rows()
    before = X.copy()
    model = KernelPCA(2, kernel="rbf", copy_X=False)
    scores = model.fit_transform(X)
    model.transform(X)
    np.testing.assert_array_equal(X, before)
    X[:] = 0
    np.testing.assert_allclose(model.transform(before), scores, atol=1e-12)
    np.testing.assert_array_equal(model.X_fit_, before)
    X.flags.writeable = False
    KernelPCA(2).fit(X[:, :1] + before)


@pytest.mark.parametrize("landmarks", ["kmeans", "rpcholesky", "uniform", slice(0, 30)])
def test_an_approximation_does_not_follow_x(landmarks: Any) -> None:
    """What happens to X after a fit by landmarks, chosen or views of X, changes no score and no later sum."""
    X, more = rows(), rows()[:50] + 1
    before = X.copy()
    chosen = X[landmarks] if isinstance(landmarks, slice) else landmarks
    model, other = (
        KernelPCA(2, kernel="rbf", gamma=0.02, eigen_solver="nystrom", landmarks=chosen, n_landmarks=30)
        for _ in range(2)
    )
    scores = model.fit(X).transform(before)
    other.fit(X).partial_fit(more)
    X[:] = 0
    np.testing.assert_array_equal(model.transform(before), scores)
    model.partial_fit(more)
    np.testing.assert_array_equal(model.eigenvalues_, other.eigenvalues_)
    np.testing.assert_array_equal(model.transform(before), other.transform(before))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_output_has_the_precision_of_the_input(dtype: Any) -> None:
    """Float32 rows are fitted in float32 and give float32 scores; float64 rows float64 ones."""
    X = rows().astype(dtype)
    model = KernelPCA(2, kernel="rbf")
    assert model.fit_transform(X).dtype == dtype
    assert model.transform(X).dtype == dtype
    assert model.transform(da.from_array(X, chunks=50)).dtype == dtype
    assert model.eigenvalues_.dtype == np.float64


def with_value(X: Array, value: float) -> Array:
    X = X.copy()
    X[17, 2] = value
    return X


@pytest.mark.parametrize("convert", [as_list, as_fortran, as_zarr, as_dask])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_are_found(tmp_path: Path, convert: Any, value: float) -> None:
    """NaN and infinity are refused by row and column, at the fit and at scoring."""
    bad = convert(with_value(rows(), value), tmp_path)
    with pytest.raises(DataError, match=r"1 row has missing or infinite values; .*row 17, column '2'"):
        KernelPCA(2).fit(bad)
    model = KernelPCA(2).fit(rows())
    with pytest.raises(DataError, match=rf"row 17, column '2': got {value}"):
        np.asarray(model.transform(bad))


@pytest.mark.parametrize("bad", [np.zeros(5), np.zeros((2, 2, 2)), [["a", "b"]], np.eye(3) * 1j])
def test_what_is_no_matrix_of_numbers_is_refused(bad: Any) -> None:
    """Text, complex and wrongly shaped input are refused."""
    with pytest.raises((ValueError, TypeError)):
        KernelPCA(2).fit(bad)


@pytest.mark.parametrize("bad", [zarr.ones(shape=(5,)), da.ones(5), da.ones((2, 2, 2))])
def test_arrays_of_other_dimensions_are_refused(bad: Any) -> None:
    """A Zarr or Dask array has rows and columns."""
    with pytest.raises(DataError, match=r"dimensions, expected 2"):
        KernelPCA(2).fit(bad)


@pytest.mark.parametrize("convert", [np.asarray, lambda X: da.from_array(X, chunks=2)])
def test_other_numbers_of_columns_are_refused(convert: Any) -> None:
    """Rows with other columns than those of the fit are not scored."""
    model = KernelPCA(2).fit(rows())
    with pytest.raises(ValueError, match=r"3 (features|columns)"):
        model.transform(convert(rows(10, 3)))


def test_one_row_is_refused() -> None:
    """A single row has no variance."""
    for one in (np.ones((1, 3)), da.ones((1, 3))):
        with pytest.raises(ValueError, match=r"(?i)(minimum of 2|at least 2)"):
            KernelPCA(1).fit(one)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(149), r"got shape \(149,\)"),
        (np.ones((150, 1)), r"got shape \(150, 1\)"),
        (np.r_[-1.0, np.ones(149)], "values from -1"),
        (np.r_[-1.0, 0.0, np.ones(148)], r"got shape \(150,\) .* expected 150 finite numbers ≥ 0"),
        (np.r_[np.nan, np.ones(149)], "finite numbers"),
        (np.zeros(150), "got zeros only"),
        (np.full(150, 1 / 150), "got a sum of 1, expected more than 1"),
    ],
)
def test_wrong_weights_are_refused(weights: Array, message: str) -> None:
    """Weights are finite, not negative, one for each row, and count copies."""
    with pytest.raises(ConfigError, match=rf"sample_weight: .*{message}"):
        KernelPCA(2).fit(rows(), sample_weight=weights)


@pytest.mark.parametrize("convert", [as_zarr, as_dask])
def test_rows_of_weight_zero_are_left_out_of_any_input(tmp_path: Path, convert: Any) -> None:
    """Zero weights leave rows out of Zarr and Dask arrays, too."""
    X, weights = rows(), np.r_[np.zeros(50), np.ones(100)]
    model = KernelPCA(2, kernel="rbf").fit(convert(X, tmp_path), sample_weight=weights)
    expected = KernelPCA(2, kernel="rbf").fit(X[50:])
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(model.transform(X)), expected.transform(X), atol=1e-11)
