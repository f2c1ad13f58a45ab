"""What a pass moves between processes, as the kernel counts it, beside what is planned."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import get_client
from distributed.protocol.pickle import dumps
from numpy.typing import NDArray

from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.numerics.forecast import TILE_ROWS
from kpca_stream.numerics.movement import Movement, of_landmark_pass
from kpca_stream.numerics.pivots import Wanted
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.gram.blocks import BlockProduct
from kpca_stream.stages.landmarks import rpcholesky_of_all
from kpca_stream.stages.scoring import score_rows
from kpca_stream.stages.statistics import RowPass, accumulate
from kpca_stream.storage.rows import NpyRows, Rows
from tests.benchmarks.operators import Prepared, prepare
from tests.fits import fitted
from tests.traffic import Traffic, of_workers

pytestmark = pytest.mark.cluster

WITHIN = (0.8, 1.25)
N_ROWS, N_FEATURES = 9000, 20


@pytest.fixture(scope="module")
def _two_processes() -> Iterator[None]:
    with single_threaded_blas(), connect("local", n_workers=2):
        yield


def prepared(folder: Path, storage: str, **settings: Any) -> Prepared:
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((N_ROWS, N_FEATURES)))
    return prepare(
        folder / "x.npy", 0.02, store=folder / "g.zarr", storage=storage, method="lanczos", **settings
    )


def block_for(ready: Prepared) -> NDArray[np.float64]:
    width = ready.plan.shape.width + 3  # guard columns beside the start
    return np.random.default_rng(1).standard_normal((N_ROWS, width))


def assert_agree(found: Traffic, planned: Movement) -> None:
    low, high = WITHIN
    assert low * found.received < planned.to_workers < high * found.received
    assert low * found.sent < planned.from_workers < high * found.sent


@pytest.mark.usefixtures("_two_processes")
@pytest.mark.parametrize("storage", ["recompute", "zarr"])
@pytest.mark.parametrize("tile_rows", [500, TILE_ROWS])
def test_a_pass_moves_what_is_planned(storage: str, tile_rows: int, tmp_path: Path) -> None:
    """Descriptions go to the workers, sums come back, and nothing else: within a quarter of the forecast."""
    ready = prepared(tmp_path, storage, tile_rows=tile_rows)
    gram, V = ready.gram(), block_for(ready)
    gram.multiply(V)
    assert_agree(of_workers(lambda: gram.multiply(V + 1)), ready.plan.moved)


@pytest.mark.usefixtures("_two_processes")
def test_a_pass_against_landmarks_moves_what_is_planned(tmp_path: Path) -> None:
    """Statistics come back once a task, and landmarks are read where they lie."""
    X = np.random.default_rng(0).standard_normal((60_000, N_FEATURES))
    np.save(tmp_path / "x.npy", X)
    ready = prepare(
        tmp_path / "x.npy", 0.02, store=tmp_path / "g.zarr", method="nystrom", precision="float64"
    )
    m = 300
    row_pass = RowPass(ready.looked.rows, None, ready.kernel, X[:m], np.dtype(float), ready.store)
    planned = of_landmark_pass(replace(ready.plan.shape, itemsize=8), m, 8)
    assert len(row_pass.tasks) > 4
    assert_agree(of_workers(lambda: accumulate(row_pass, np.zeros(m))), planned)


@pytest.mark.usefixtures("_two_processes")
def test_tiles_in_memory_stay_where_they_were_made(tmp_path: Path) -> None:
    """A pass over tiles that workers hold moves sums only; Dask knows how large tiles and sums are."""
    ready = prepared(tmp_path, "memory")
    gram, V = ready.gram(), block_for(ready)
    gram.multiply(V)
    time.sleep(1.5)  # until the workers have told what they hold
    workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
    held = sum(worker["metrics"]["managed_bytes"] for worker in workers)
    assert held >= ready.plan.grid.n_values * ready.plan.tile_dtype.itemsize
    found = of_workers(lambda: gram.multiply(V + 1))
    assert found.received < 2**20
    assert found.sent < 1.25 * ready.plan.moved.from_workers


@pytest.mark.usefixtures("_two_processes")
def test_what_all_tasks_take_is_sent_to_each_worker_once(tmp_path: Path) -> None:
    """A basis in memory reaches a worker once, however many tasks score against it."""
    X = np.random.default_rng(0).standard_normal((40_000, N_FEATURES))
    np.save(tmp_path / "x.npy", X)
    basis = fitted(X[:3000]).basis
    n_bytes = len(dumps(basis))
    found = of_workers(lambda: score_rows(basis, NpyRows.whole(tmp_path / "x.npy")))
    assert 2 * n_bytes < found.received < 2.5 * n_bytes


@pytest.mark.usefixtures("_two_processes")
def test_landmarks_of_all_rows_are_sent_to_each_worker_once_a_pass(tmp_path: Path) -> None:
    """A round's factor reaches a worker once, not with every block of rows; the choice is that of threads."""
    X = np.random.default_rng(0).standard_normal((100_000, N_FEATURES))
    np.save(tmp_path / "x.npy", X)
    ready = prepare(tmp_path / "x.npy", 0.02, method="nystrom")
    wanted = Wanted(n_landmarks=300, seed=0)
    chosen: list[NDArray[np.int64]] = []

    def choose() -> None:
        rows = NpyRows.whole(tmp_path / "x.npy")
        found = rpcholesky_of_all(rows, np.ones(len(X)), ready.kernel, wanted, dtype=np.dtype(float))
        chosen.append(found.indices)

    found = of_workers(choose)
    with connect("threads"):
        choose()
    np.testing.assert_array_equal(*chosen)
    n_blocks = -(-len(X) // 8192)
    factor = 8 * 300 * (300 + N_FEATURES)
    assert found.received < n_blocks * factor / 2


@dataclass(frozen=True)
class Counted:
    """Rows that count the bytes that are loaded of them."""

    rows: Rows
    counts: list[int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    def part(self, start: int, stop: int) -> Counted:
        return Counted(self.rows.part(start, stop), self.counts)

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        found = self.rows.load(columns)
        self.counts.append(found.nbytes)
        return found


def test_tasks_read_the_rows_that_are_planned(tmp_path: Path) -> None:
    """Rows that tasks load to compute their tiles are as many as forecast, vectors beside them."""
    ready = prepared(tmp_path, "recompute", tile_rows=500)
    counts: list[int] = []
    rows = Counted(ready.looked.rows, counts)
    plan = ready.plan
    gram = Gram(rows, ready.kernel, plan.grid, plan.tile_dtype, "recompute")
    with connect("threads"):
        gram.multiply(block_for(ready))
    vectors = plan.tile_dtype.itemsize * (plan.shape.width + 3) * (plan.grid.block_side + 1) * N_ROWS
    assert sum(counts) == plan.moved.read - vectors


def test_sums_tell_their_size() -> None:
    """A task's sums are no lighter to Dask than their arrays."""
    from dask.sizeof import sizeof

    from kpca_stream.stages.gram.blocks import TileCounts

    product = BlockProduct(np.zeros((100, 24)), np.zeros((100, 24)), TileCounts())
    assert sizeof(product) >= 2 * 100 * 24 * 8
