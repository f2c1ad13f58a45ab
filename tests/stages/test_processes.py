"""Stages that whole runs reach only at sizes too large for a test, on threads and on two processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Precomputed, Preparation, Rbf
from kpca_stream.numerics.rowcut import BLOCK_ROWS
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.inspection import inspect_tiles
from kpca_stream.stages.statistics import landmark_block
from kpca_stream.stages.symmetry import check_symmetry
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows, NpyRows

pytestmark = pytest.mark.cluster

N_ROWS = 2100


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """The result on the active client, and on threads, with BLAS held as a fit holds it."""
    with single_threaded_blas():
        on_processes = work()
        with dask.config.set(scheduler="threads"):
            return on_processes, work()


def matrix(folder: Path, *, asymmetric: bool = False) -> NpyRows:
    A = np.random.default_rng(0).standard_normal((N_ROWS, 4))
    K = A @ A.T
    K = (K + K.T) / 2
    K[3, 2050] += asymmetric
    np.save(folder / "K.npy", K)
    return NpyRows.whole(folder / "K.npy")


def test_landmark_blocks_have_equal_bits(two_processes: Client) -> None:
    """The first block of vectors is the same to the bit on threads and on processes."""
    assert len(two_processes.nthreads()) == 2
    X = np.random.default_rng(0).standard_normal((3 * BLOCK_ROWS, 3)).astype(np.float32)
    dtype = np.dtype(np.float32)
    features = FeatureMap.of(Rbf(Preparation(X.mean(axis=0)), 0.2), X[:300], dtype)
    found, expected = both(lambda: landmark_block(ArrayRows(X), np.ones(len(X)), features, 6, dtype))
    assert np.array_equal(found, expected)


def test_precomputed_matrices_are_checked_and_multiplied_alike(two_processes: Client, tmp_path: Path) -> None:
    """A given matrix is looked at for symmetry, and multiplied to the same bits, on processes too."""
    assert len(two_processes.nthreads()) == 2
    K = matrix(tmp_path)
    check_symmetry(K)
    V = np.random.default_rng(1).standard_normal((N_ROWS, 5))
    grid = TileGrid(N_ROWS, 700)

    def product() -> Any:
        gram = Gram(K, Precomputed(Preparation()), grid, np.dtype(np.float64), "recompute")
        return gram.multiply(V)

    found, expected = both(product)
    assert np.array_equal(found, expected)
    with pytest.raises(DataError, match=r"K\[(3,2050|2050,3)\]"):
        check_symmetry(matrix(tmp_path, asymmetric=True))


def test_a_finished_store_is_inspected_alike(two_processes: Client, tmp_path: Path) -> None:
    """Sums, diagonal and damaged tiles of a store are the same on threads and on processes."""
    assert len(two_processes.nthreads()) == 2
    store, grid = RunStore.open(tmp_path / "g"), TileGrid(N_ROWS, 500)
    tiles = store.open_tiles(N_ROWS, 500, np.float64)
    with dask.config.set(scheduler="threads"):
        kernel = Precomputed(Preparation())
        Gram(matrix(tmp_path), kernel, grid, np.dtype(np.float64), "zarr", store).multiply(
            np.ones((N_ROWS, 1))
        )
    (tmp_path / "g" / "tiles" / "c" / "1" / "2").write_bytes(b"cut")
    found, expected = both(lambda: inspect_tiles(tiles, grid, store.present_tiles()))
    assert found.damaged == expected.damaged == [(1, 2)]
    assert np.array_equal(found.row_sums, expected.row_sums)
    assert np.array_equal(found.diagonal, expected.diagonal)
