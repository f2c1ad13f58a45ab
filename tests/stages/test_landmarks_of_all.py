"""Randomly pivoted Cholesky on all rows, out of core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from distributed import Client
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.kernels import Kernel, Laplacian, Linear, Own, Precomputed, Preparation, Rbf
from kpca_stream.numerics.pivots import Wanted
from kpca_stream.numerics.pool import rpcholesky
from kpca_stream.stages import landmarks as stage
from kpca_stream.stages.landmarks import Keeping, Landmarks, rpcholesky_of_all
from kpca_stream.storage.checkpoint import Checkpoints
from kpca_stream.storage.rows import ArrayRows, Rows, ZarrRows

Array = NDArray[Any]

KERNEL = Rbf(Preparation(), 0.3)
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)


def rows(n_samples: int = 700, n_features: int = 4) -> Array:
    return np.random.default_rng(0).standard_normal((n_samples, n_features))


def chosen_of(
    X: Array | Rows,
    n_landmarks: int = 60,
    *,
    kernel: Kernel = KERNEL,
    weights: Array | None = None,
    residual: float | None = None,
    dtype: np.dtype[Any] = DOUBLE,
    seed: int = 1,
) -> Landmarks:
    of_rows = ArrayRows(X) if isinstance(X, np.ndarray) else X
    weights = np.ones(of_rows.shape[0]) if weights is None else weights
    wanted = Wanted(n_landmarks=n_landmarks, seed=seed, residual=residual)
    with single_threaded_blas():
        return rpcholesky_of_all(of_rows, weights, kernel, wanted, dtype=dtype)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "BLOCK_ROWS", 128)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kernel", [KERNEL, Laplacian(Preparation(), 0.2)])
def test_all_rows_are_chosen_from_as_a_pool_is(kernel: Kernel) -> None:
    """The rows, and the curve, are those of a pool that holds all rows."""
    X = rows()
    found = chosen_of(X, 400, kernel=kernel, residual=0.1)
    pool = rpcholesky(kernel, X, 400, 1, 0.1)
    np.testing.assert_array_equal(found.indices, pool.indices)
    np.testing.assert_array_equal(found.rows, X[found.indices])
    np.testing.assert_allclose(found.curve.shares, pool.curve.shares, atol=1e-12)
    assert found.curve.shares[-1] <= 0.1 < found.curve.shares[-2]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice does not depend on how rows are cut into tasks."""
    expected = chosen_of(rows(), 200)
    for n_rows in (1000, 97, 64):
        monkeypatch.setattr(stage, "BLOCK_ROWS", n_rows)
        np.testing.assert_array_equal(chosen_of(rows(), 200).indices, expected.indices)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_workers_change_nothing(dtype: np.dtype[Any]) -> None:
    """The same rows and the same bits of the curve for every number of threads."""
    results = []
    for n_threads in (1, 2, 5):
        with dask.config.set(scheduler="threads", num_workers=n_threads):
            results.append(chosen_of(rows(), 80, residual=1e-3, dtype=dtype))
    for result in results[1:]:
        np.testing.assert_array_equal(result.indices, results[0].indices)
        np.testing.assert_array_equal(result.curve.shares, results[0].curve.shares)


@pytest.mark.cluster
@pytest.mark.usefixtures("small_blocks")
def test_processes_change_nothing(two_processes: Client, tmp_path: Path) -> None:
    """Rows on disk, and a given matrix, are chosen from alike on threads and on two processes."""
    assert len(two_processes.nthreads()) == 2
    array = zarr.create_array(tmp_path / "x.zarr", shape=(700, 4), chunks=(100, 4), dtype=float)
    array[:] = rows()
    K = KERNEL.matrix(rows(300), rows(300))
    for X, kernel in ((ZarrRows.whole(array), KERNEL), (ArrayRows(K), Precomputed(Preparation()))):
        found = chosen_of(X, 50, kernel=kernel)
        with dask.config.set(scheduler="threads"):
            np.testing.assert_array_equal(found.indices, chosen_of(X, 50, kernel=kernel).indices)


@pytest.mark.usefixtures("small_blocks")
def test_a_given_matrix_is_chosen_from_by_position() -> None:
    """With a precomputed kernel the choice is that of the kernel's rows; its rows do not come back."""
    X = rows()
    K = KERNEL.matrix(X, X)
    found = chosen_of((K + K.T) / 2, kernel=Precomputed(Preparation()), residual=0.05, n_landmarks=300)
    np.testing.assert_array_equal(found.indices, chosen_of(X, 300, residual=0.05).indices)
    assert found.rows.shape == (len(found.indices), 0)


@pytest.mark.usefixtures("small_blocks")
def test_weights_count_as_copies() -> None:
    """The share that is left of rows with weights is that of their copies."""
    X = rows(300)
    weights = np.where(np.arange(300) < 100, 3.0, 1.0)
    found = chosen_of(X, 300, weights=weights, residual=0.05)
    copies = np.concatenate((X, X[:100], X[:100]))
    K_nm, K_mm = KERNEL.matrix(copies, found.rows), KERNEL.matrix(found.rows, found.rows)
    left = 1 - np.einsum("ij,ij->", K_nm @ np.linalg.inv(K_mm), K_nm) / 500
    assert found.curve.shares[-1] == pytest.approx(left, abs=1e-9)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_it_stops_at_the_rank(dtype: np.dtype[Any]) -> None:
    """A linear kernel of 5 columns has 5 landmarks, in either precision, after a few passes."""
    found = chosen_of(rows(500, 5), 100, kernel=Linear(Preparation()), dtype=dtype)
    assert len(found.indices) == 5
    assert found.n_rounds <= 3


@pytest.mark.usefixtures("small_blocks")
def test_float32_passes_leave_as_little() -> None:
    """Landmarks from passes in float32 are as good, down to residuals that float32 cannot tell."""
    X = rows(700, 2).astype(np.float32)
    single, double = (chosen_of(X, 150, residual=1e-9, dtype=dtype) for dtype in (SINGLE, DOUBLE))
    assert double.curve.shares[-1] <= 1e-9
    assert single.curve.shares[-1] <= 1e-9
    assert len(single.indices) < 1.2 * len(double.indices)


@pytest.mark.usefixtures("small_blocks")
def test_repeated_and_zero_rows_are_harmless() -> None:
    """Rows that are the same become one landmark; where all are zero, the first one is it."""
    X = np.repeat(rows(9), 50, axis=0)
    assert len(np.unique(chosen_of(X).rows, axis=0)) == len(chosen_of(X).indices) == 9
    assert chosen_of(np.zeros((300, 2)), kernel=Linear(Preparation())).rows.tolist() == [[0.0, 0.0]]


@pytest.mark.usefixtures("small_blocks")
def test_progress_never_goes_back() -> None:
    """Tasks done grow up to the total that is known at the time."""
    told: list[tuple[int, int]] = []
    rpcholesky_of_all(
        ArrayRows(rows()),
        np.ones(700),
        KERNEL,
        Wanted(n_landmarks=50, seed=0),
        dtype=DOUBLE,
        progress=lambda done, total: told.append((done, total)),
    )
    done, total = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert list(total) == sorted(total)
    assert done[-1] == total[-1] > 6


def chosen_with(
    folder: Path, X: Array, kernel: Kernel = KERNEL, stop: float = np.inf
) -> tuple[Landmarks, list[int]]:
    """A choice that is kept in `folder`, and what it told; stopped after `stop` windows of four tasks."""
    told: list[int] = []

    def tell(done: int, _total: int) -> None:
        told.append(done)
        if len(told) > stop:
            raise InterruptedError

    with single_threaded_blas(), dask.config.set(scheduler="threads", num_workers=2):
        found = rpcholesky_of_all(
            ArrayRows(X),
            np.ones(len(X)),
            kernel,
            Wanted(n_landmarks=250, seed=1),
            dtype=SINGLE,
            progress=tell,
            at_once=4,
            keeping=Keeping(Checkpoints(folder), [7], 0.0),
        )
    return found, told


@pytest.mark.parametrize("kind", ["rows", "matrix"])
def test_an_interrupted_choice_goes_on(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice that was stopped anywhere, and goes on, ends with the same bits."""
    monkeypatch.setattr(stage, "BLOCK_ROWS", 64)
    X, kernel = rows(1400).astype(np.float32), KERNEL
    if kind == "matrix":
        K = KERNEL.matrix(X, X)
        X, kernel = (K + K.T) / 2, Precomputed(Preparation())
    expected, whole = chosen_with(tmp_path / "whole", X, kernel)
    assert expected.n_rounds > 2
    for stop in range(0, len(whole), 5):
        with pytest.raises(InterruptedError):
            chosen_with(tmp_path / str(stop), X, kernel, stop)
        found, _ = chosen_with(tmp_path / str(stop), X, kernel)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.curve.shares, expected.curve.shares)
        assert found.n_rounds == expected.n_rounds


def test_an_interrupted_choice_repeats_no_more_than_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all blocks that passes compare with pivots, four at most are compared twice."""
    monkeypatch.setattr(stage, "BLOCK_ROWS", 64)
    compared: list[int] = []

    def similar(A: Array, B: Array) -> Array:
        if len(A) == 64 != len(B):  # the blocks of a pass, and no others
            compared.append(len(B))
        return np.asarray(KERNEL.matrix(A, B))

    X, kernel = rows(22 * 64), Own(Preparation(), similar, "similar")
    _, told = chosen_with(tmp_path / "whole", X, kernel)
    n_compared = len(compared)
    assert n_compared >= 22
    for stop in range(0, len(told), 3):
        compared.clear()
        with pytest.raises(InterruptedError):
            chosen_with(tmp_path / str(stop), X, kernel, stop)
        chosen_with(tmp_path / str(stop), X, kernel)
        assert n_compared <= len(compared) <= n_compared + 4


@pytest.mark.slow
def test_a_few_rounds_find_a_thousand() -> None:
    """A thousand landmarks take no more than a dozen rounds."""
    found = chosen_of(rows(20_000, 8), 1000, dtype=SINGLE)
    assert len(set(found.indices.tolist())) == 1000
    assert found.n_rounds <= 12
