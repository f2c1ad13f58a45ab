"""Rows → tiles → products: any tiling, storage and scheduler gives the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import reference
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.numerics.kernels import (
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Own,
    Polynomial,
    Precomputed,
    Preparation,
    Rbf,
    Sigmoid,
)
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.passes import computing
from kpca_stream.stages.gram import Gram, Storage
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows, Rows, ZarrRows

if TYPE_CHECKING:
    from distributed import Client

Array = NDArray[Any]

N_ROWS = 150
STORAGES: tuple[Storage, ...] = ("memory", "zarr", "recompute")


@pytest.fixture(autouse=True, scope="module")
def _blas_as_in_a_fit() -> Iterator[None]:
    with single_threaded_blas():
        yield


def rows(n: int = N_ROWS) -> Array:
    return np.random.default_rng(0).standard_normal((n, 5))


def block(width: int = 3, n: int = N_ROWS, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((n, width))


def kernels() -> dict[str, Kernel]:
    mean = Preparation(rows().mean(axis=0))
    return {
        "linear": Linear(mean),
        "cosine": Cosine(Preparation()),
        "rbf": Rbf(mean, 0.1),
        "rbf, shifted": Rbf(mean, 1e-3, 1.0),
        "laplacian": Laplacian(mean, 0.1),
        "poly": Polynomial(Preparation(), 0.2, 3, 1.0),
        "sigmoid": Sigmoid(Preparation(), 0.2, 0.1),
    }


def dense(kernel: Kernel, X: Array) -> Array:
    """K' = k − a − a by the reference's formulas."""
    parameters = {key: getattr(kernel, key) for key in ("gamma", "degree", "coef0") if hasattr(kernel, key)}
    a = kernel.offset(kernel.operand(X, float))
    return reference.kernel(kernel.name, X, X, **parameters) - a[:, None] - a


def gram(
    kernel: Kernel | None = None,
    *,
    X: Rows | None = None,
    tile_rows: int = 16,
    per_block: int = 2,
    dtype: Any = np.float64,
    storage: Storage = "recompute",
    store: RunStore | None = None,
    **options: Any,
) -> Gram:
    kernel = kernels()["rbf"] if kernel is None else kernel
    X = ArrayRows(rows()) if X is None else X
    grid = TileGrid(X.shape[0], tile_rows, per_block)
    return Gram(X, kernel, grid, np.dtype(dtype), storage, store, checkpoint_seconds=0.0, **options)


def stored(path: Path, storage: Storage) -> RunStore | None:
    return RunStore.open(path) if storage == "zarr" else None


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", kernels())
def test_product_is_that_of_the_dense_matrix(name: str, storage: Storage, tmp_path: Path) -> None:
    """Twice the product of any kernel with a block, whatever keeps the tiles."""
    kernel = kernels()[name]
    K, service = (
        dense(kernel, rows()),
        gram(kernel, storage=storage, store=stored(tmp_path / "store", storage)),
    )
    for seed in (1, 2):
        V = block(seed=seed)
        np.testing.assert_allclose(service.multiply(V), K @ V, atol=1e-12 * np.abs(K).sum(axis=1).max())


@pytest.mark.parametrize("name", kernels())
def test_float32_product_is_near(name: str) -> None:
    """Float32 tiles give the product to float32."""
    kernel = kernels()[name]
    K, V = dense(kernel, rows()), block()
    found = gram(kernel, dtype=np.float32).multiply(V)
    assert found.dtype == np.float64
    assert np.abs(found - K @ V).max() < 1e-6 * np.abs(K).sum(axis=1).max()


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 45), st.integers(1, 6), st.integers(1, 9))
def test_tiling_does_not_matter(n: int, tile_rows: int, per_block: int, width: int) -> None:
    """Any number of rows, tile size, block size and width of V gives the same product but for rounding."""
    X, V = rows(n), block(width, n)
    kernel = kernels()["rbf"]
    service = gram(kernel, X=ArrayRows(X), tile_rows=tile_rows, per_block=per_block)
    np.testing.assert_allclose(service.multiply(V), dense(kernel, X) @ V, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("tile_rows", [16, 150, 700])
def test_storages_give_the_same_bits(name: str, dtype: Any, tile_rows: int, tmp_path: Path) -> None:
    """Tiles in memory, in Zarr (made, read, and read after opening again) and made anew: equal bits."""
    kernel, X = kernels()[name], ArrayRows(rows(800) if tile_rows == 700 else rows())
    V = block(3, X.shape[0])
    results = []
    for storage in STORAGES:
        service = gram(
            kernel,
            X=X,
            tile_rows=tile_rows,
            dtype=dtype,
            storage=storage,
            store=stored(tmp_path / "s", storage),
        )
        results += [service.multiply(V), service.multiply(V)]
    store = RunStore.open(tmp_path / "s")
    store.checkpoints.clear()
    again = gram(kernel, X=X, tile_rows=tile_rows, dtype=dtype, storage="zarr", store=store)
    results.append(again.multiply(V))
    assert again.counts.made == 0
    assert again.counts.read == again.counts.found == again.grid.n_tiles
    assert all(np.array_equal(results[0], result) for result in results[1:])


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_where_rows_lie_does_not_touch_the_bits(name: str, tmp_path: Path) -> None:
    """Float64 rows in one array, in two copies and in Zarr give equal bits."""
    kernel, V = kernels()[name], block()
    X = zarr.create_array(tmp_path / "rows", data=rows(), chunks=(40, 5))
    service = gram(kernel, X=ZarrRows.whole(X))
    copied = gram(kernel, X=pickle.loads(pickle.dumps(ArrayRows(rows()))))  # noqa: S301  our own bytes
    first = gram(kernel).multiply(V)
    assert np.array_equal(first, service.multiply(V))
    assert np.array_equal(first, copied.multiply(V))


@pytest.mark.parametrize("at_once", [1, 3, None])
def test_number_of_tasks_at_once_does_not_touch_the_bits(at_once: int | None) -> None:
    """However many tasks are alive, results are added up in the same order."""
    V = block()
    assert np.array_equal(gram(at_once=at_once).multiply(V), gram().multiply(V))


@pytest.mark.parametrize("budget", [0, 3000])
def test_memory_for_operands_does_not_touch_the_bits(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row tiles that are made ready again for want of memory give the same bits as those that were held."""
    expected = gram(per_block=4).multiply(block())
    monkeypatch.setattr("kpca_stream.stages.gram.blocks.OPERAND_BYTES", budget)
    assert np.array_equal(gram(per_block=4).multiply(block()), expected)


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_processes_give_the_bits_of_threads(
    name: str, dtype: Any, tmp_path: Path, two_processes: Client
) -> None:
    """On two processes every storage gives the bits that threads give."""
    kernel, V = kernels()[name], block()

    def results(path: Path, storage: Storage) -> list[Array]:
        service = gram(kernel, dtype=dtype, storage=storage, store=stored(path, storage))
        return [service.multiply(V), service.multiply(V), service.assemble(), *service.terms()]

    assert len(two_processes.nthreads()) == 2
    for storage in STORAGES:
        found = results(tmp_path / "processes", storage)
        with dask.config.set(scheduler="threads"):
            expected = results(tmp_path / "threads", storage)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_counts_tell_what_was_done(tmp_path: Path) -> None:
    """Tiles are made once, then read; in memory they are made once; recomputed ones are made each time."""
    n_tiles = TileGrid(N_ROWS, 16, 2).n_tiles
    expected: dict[Storage, tuple[int, int]] = {
        "memory": (n_tiles, 0),
        "zarr": (n_tiles, n_tiles),
        "recompute": (2 * n_tiles, 0),
    }
    for storage in STORAGES:
        service = gram(storage=storage, store=stored(tmp_path / "s", storage))
        service.multiply(block())
        service.multiply(block())
        assert (service.counts.made, service.counts.read) == expected[storage]
        assert (service.counts.found, service.counts.repaired) == (0, [])


@pytest.mark.parametrize("storage", ["zarr", "recompute"])
def test_part_of_the_tiles_may_be_in_memory(storage: Storage, tmp_path: Path) -> None:
    """The first tasks' tiles are made once and held, the others read or made again, to the same bits."""
    expected = gram(storage=storage, store=stored(tmp_path / "s", storage)).multiply(block())
    service = gram(storage=storage, store=stored(tmp_path / "t", storage), memory_tasks=3)
    held = sum(len(service.grid.tiles(task)) for task in service.grid.blocks()[:3])
    n_tiles = service.grid.n_tiles
    for _ in range(2):
        assert np.array_equal(service.multiply(block()), expected)
    made, read = (n_tiles, n_tiles - held) if storage == "zarr" else (2 * n_tiles - held, 0)
    assert (service.counts.made, service.counts.read) == (made, read)


def test_only_the_upper_tiles_are_stored(tmp_path: Path) -> None:
    """One chunk a tile, i ≤ j; what is not there reads as NaN."""
    store = RunStore.open(tmp_path)
    service = gram(storage="zarr", store=store, dtype=np.float32)
    service.multiply(block())
    assert store.present_tiles() == set(service.grid.tiles())
    tiles = zarr.open_group(tmp_path, mode="r")["tiles"]
    assert isinstance(tiles, zarr.Array)
    K = np.asarray(tiles[...])
    assert np.isnan(K[16:32, :16]).all()
    expected = dense(kernels()["rbf"], rows())
    upper = np.triu_indices(N_ROWS)
    assert np.abs(K[upper] - expected[upper]).max() < 1e-6
    assert np.array_equal(np.diagonal(K), np.ones(N_ROWS))


def test_terms_are_the_diagonal_and_the_offsets() -> None:
    """Diagonal and offsets of all rows, in float64 whatever the tiles are in."""
    for kernel in kernels().values():
        diagonal, offset = gram(kernel, dtype=np.float32).terms()
        A = kernel.operand(rows(), float)
        assert diagonal.dtype == offset.dtype == np.float64
        np.testing.assert_allclose(diagonal, kernel.diagonal(A), rtol=1e-14)
        np.testing.assert_allclose(offset, kernel.offset(A), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("storage", STORAGES)
def test_assembled_matrix_is_dense_and_symmetric(storage: Storage, tmp_path: Path) -> None:
    """The whole matrix, its mirror the same to the bit, from tiles of any storage."""
    kernel = kernels()["poly"]
    service = gram(kernel, storage=storage, store=stored(tmp_path / "s", storage))
    K = service.assemble()
    assert np.array_equal(K, K.T)
    np.testing.assert_allclose(K, dense(kernel, rows()), rtol=1e-11)
    assert service.counts.made == service.grid.n_tiles


def test_assembled_tiles_are_kept(tmp_path: Path) -> None:
    """Tiles made to assemble the matrix are read by a later product, not made again."""
    service = gram(storage="zarr", store=RunStore.open(tmp_path))
    service.assemble()
    service.multiply(block())
    assert (service.counts.made, service.counts.read) == (service.grid.n_tiles, service.grid.n_tiles)


@pytest.mark.parametrize("in_zarr", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
def test_precomputed_matrix_is_its_own_tiles(storage: Storage, tmp_path: Path, *, in_zarr: bool) -> None:
    """A given n × n matrix is multiplied as its symmetric part, from memory or from Zarr."""
    A = np.random.default_rng(3).standard_normal((N_ROWS, N_ROWS))
    K = (A + A.T) / 2
    A = K + 1e-9 * (A - A.T)
    X: Rows = ArrayRows(A)
    if in_zarr:
        X = ZarrRows.whole(zarr.create_array(tmp_path / "K", data=A, chunks=(40, 40)))
    service = gram(Precomputed(Preparation()), X=X, storage=storage, store=stored(tmp_path / "s", storage))
    np.testing.assert_allclose(service.multiply(block()), K @ block(), atol=1e-11)
    np.testing.assert_allclose(service.assemble(), K, rtol=1e-14, atol=1e-16)
    assert np.array_equal(service.terms()[0], np.diagonal(A))


def test_task_carries_an_address(tmp_path: Path) -> None:
    """A task over rows and tiles on disk pickles to a few kilobytes, whatever the rows weigh."""
    X = zarr.create_array(tmp_path / "rows", data=np.zeros((4000, 50)), chunks=(1000, 50))
    store = RunStore.open(tmp_path / "s")
    service = gram(Linear(Preparation()), X=ZarrRows.whole(X), tile_rows=1000, storage="zarr", store=store)
    V = store.publish("vectors", np.zeros((4000, 30)))
    assert len(pickle.dumps(service._product(0, V))) < 10_000


def test_error_of_an_own_kernel_reaches_the_caller() -> None:
    """What an own function raises inside a task comes out as an error that names it."""
    own = Own(Preparation(), lambda X, Y: np.full((len(X), len(Y)), np.nan), "mine")
    with pytest.raises(DataError, match="kernel mine returned NaN"):
        gram(own).multiply(block())


def test_kernel_that_overflows_its_type_is_refused_before_the_first_tile() -> None:
    """Values that float32 cannot hold are an error that names the kernel, in float64 they are none."""
    kernel, X = Polynomial(Preparation(), 1.0, 5, 1.0), ArrayRows(1e4 * rows())
    with pytest.raises(DataError, match=r"kernel poly: got values .*e\+4\d, whose sums float32 cannot hold"):
        gram(kernel, X=X, dtype=np.float32).terms()
    diagonal, _ = gram(kernel, X=X).terms()
    assert np.isfinite(diagonal).all()


class Stopped(Exception):  # noqa: N818  not an error, the hand that pulls the plug
    pass


def stopping(after: int, stage: str = "pass 1") -> Callable[[str], Callable[[int, int], None]]:
    def step(name: str) -> Callable[[int, int], None]:
        def advance(done: int, _: int) -> None:
            if name == stage and done >= after:
                raise Stopped

        return advance

    return step


def two_passes(path: Path, storage: Storage, step: Any = None) -> tuple[Gram, Array]:
    service = gram(storage=storage, store=RunStore.open(path), step=step, at_once=2)
    return service, service.multiply(service.multiply(block()))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("stage", ["pass 1", "pass 2"])
@pytest.mark.parametrize("after", [2, 6, 14])
def test_stopped_pass_goes_on_where_it_was(storage: Storage, stage: str, after: int, tmp_path: Path) -> None:
    """Stopped in the middle of a pass and started again: the same bits, and only the rest is done."""
    _, expected = two_passes(tmp_path / "undisturbed", storage)
    with pytest.raises(Stopped):
        two_passes(tmp_path / "run", storage, stopping(after, stage))
    service, found = two_passes(tmp_path / "run", storage)
    assert np.array_equal(found, expected)
    rest = sum(len(service.grid.tiles(b)) for b in service.grid.blocks()[after:])
    n_tiles = service.grid.n_tiles
    if storage == "zarr":
        # Of the tasks under way when it stopped, tiles may be there already.
        made = service.counts.made
        assert service.counts.found == n_tiles - made
        assert made <= (rest if stage == "pass 1" else 0)
        assert service.counts.read == (n_tiles + rest - made if stage == "pass 1" else rest)
    elif storage == "recompute":
        assert service.counts.made == (rest + n_tiles if stage == "pass 1" else rest)


def test_finished_products_are_read_again(tmp_path: Path) -> None:
    """A mixed solve that is started again after its passes are done repeats none, in either precision."""
    for again in (False, True):
        for dtype in (np.float32, np.float64):
            service = gram(store=RunStore.open(tmp_path), dtype=dtype)
            found = service.multiply(service.multiply(block()))
            undisturbed = gram(dtype=dtype)
            assert np.array_equal(found, undisturbed.multiply(undisturbed.multiply(block())))
            assert service.counts.made == (0 if again else 2 * service.grid.n_tiles)


def test_checkpoint_of_another_block_is_not_used(tmp_path: Path) -> None:
    """Sums of another V, or in another precision, do not count for this one."""
    with pytest.raises(Stopped):
        gram(store=RunStore.open(tmp_path), step=stopping(2), at_once=2).multiply(block(seed=1))
    for dtype, V in ((np.float64, block(seed=2)), (np.float32, block(seed=1))):
        service = gram(store=RunStore.open(tmp_path), dtype=dtype)
        assert np.array_equal(service.multiply(V), gram(dtype=dtype).multiply(V))
        assert service.counts.made == service.grid.n_tiles


def test_damaged_checkpoint_is_done_again(tmp_path: Path) -> None:
    """A checkpoint that cannot be read is warned of, and the pass starts anew."""
    with pytest.raises(Stopped):
        gram(store=RunStore.open(tmp_path), step=stopping(2), at_once=2).multiply(block())
    (file,) = (tmp_path / "checkpoints").glob("*.npz")
    file.write_bytes(file.read_bytes()[:-9])
    service = gram(store=RunStore.open(tmp_path))
    with pytest.warns(UserWarning, match="cannot be read"):
        found = service.multiply(block())
    assert np.array_equal(found, gram().multiply(block()))
    assert service.counts.made == service.grid.n_tiles


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[777] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncated, emptied, flipped, Path.unlink])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_damaged_tile_is_made_again(damage: Callable[[Path], None], dtype: Any, tmp_path: Path) -> None:
    """A tile that is cut, changed or gone is computed again, counted, and whole afterwards."""
    service = gram(storage="zarr", store=RunStore.open(tmp_path), dtype=dtype)
    expected = service.multiply(block())
    file = tmp_path / "tiles" / "c" / "2" / "5"
    whole = file.read_bytes()
    damage(file)
    with pytest.warns(KpcaStreamWarning, match=r"1 tiles .* computed again: \(2, 5\)"):
        assert np.array_equal(service.multiply(block()), expected)
    n_tiles = service.grid.n_tiles
    assert (service.counts.made, service.counts.read) == (n_tiles + 1, n_tiles - 1)
    assert service.counts.repaired == [(2, 5)]
    assert file.read_bytes() == whole


def test_missing_tile_is_found_by_listing(tmp_path: Path) -> None:
    """A tile missing when the store is opened is made, and told as lost if all were there before."""
    store = RunStore.open(tmp_path)
    expected = gram(storage="zarr", store=store).multiply(block())
    (tmp_path / "tiles" / "c" / "0" / "0").unlink()
    store.checkpoints.clear()
    service = gram(storage="zarr", store=RunStore.open(tmp_path))
    with pytest.warns(KpcaStreamWarning, match=r"1 tiles .* lost .* computed again: \(0, 0\)"):
        assert np.array_equal(service.multiply(block()), expected)
    assert (service.counts.found, service.counts.made) == (service.grid.n_tiles - 1, 1)
    assert service.counts.repaired == [(0, 0)]


def test_block_of_vectors_is_not_changed() -> None:
    """V is left as it was, also where it already has the working precision."""
    V = block()
    before = V.copy()
    gram().multiply(V)
    assert np.array_equal(V, before)


def test_fit_of_one_task_starts_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of one task is multiplied, kept and assembled without Dask."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a graph was made")

    monkeypatch.setattr(computing, "as_delayed", refuse)
    for storage in ("memory", "recompute"):
        service = gram(tile_rows=N_ROWS, storage=storage)
        np.testing.assert_allclose(
            service.multiply(block()), dense(kernels()["rbf"], rows()) @ block(), atol=1e-12
        )
        service.assemble()
        service.terms()
