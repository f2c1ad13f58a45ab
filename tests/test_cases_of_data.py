"""Known faults of other programs as tests: matrices and rows, chunks, tiles and sizes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from cases import Case
from casework import Commands, Method, estimator, fitted

from kpca_stream import KernelPCA
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.resolve import KernelSpec, make_kernel
from kpca_stream.planning import make_plan
from kpca_stream.stages.gram import Gram
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ZarrRows

solvers = pytest.mark.parametrize("method", ["dense", "lanczos"])


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)


# Matrices and rows that are not what they should be


@pytest.mark.parametrize("what", ["fewer columns", "rows instead of a kernel"])
def test_a_precomputed_kernel_is_square(what: str, commands: Commands) -> None:
    """What is no square matrix is refused with its shape, in Python and on the command line."""
    case = cases.precomputed()
    X = case.X[:, :4] if what == "fewer columns" else case.known["rows_not_kernel"]
    shape = re.escape(str(X.shape))
    with pytest.raises(ValueError, match=rf"precomputed kernel has shape {shape}; expected a square"):
        estimator(case).fit(X)
    commands.configure(case, X=X)
    assert re.search(shape, commands("fit", "c.yaml", code=65)["error"]["message"])
    assert not Path("gram.zarr/tiles").exists()


@solvers
def test_a_precomputed_kernel_scores_rows_of_it(method: str) -> None:
    """Scores to 1e-9 from rows of kernel values, which must be as many as were trained on."""
    case = cases.precomputed()
    model = estimator(case, eigen_solver=method).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    scores = model.transform(np.ones((3, 5)))
    signs = np.sign(scores[0] * case.known["constant_row_scores"])
    np.testing.assert_allclose(signs * scores, [case.known["constant_row_scores"]] * 3, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match=r"\b4 (columns|features).*\b5\b"):
        model.transform(np.ones((3, 4)))


@solvers
def test_a_constant_column_standardises_to_zero(method: Method) -> None:
    """Whatever value a column had throughout, standardised it is 0 and changes nothing at a given γ."""
    case = cases.constant_column()
    for scale in (False, True):
        with_column, without = (
            fitted(case, X=X, method=method, scale=scale) for X in (case.X, case.X[:, :3].copy())
        )
        np.testing.assert_allclose(with_column.basis.eigenvalues, without.basis.eigenvalues, rtol=1e-10)
        if not scale:
            np.testing.assert_allclose(without.basis.eigenvalues, case.eigenvalues, rtol=1e-9)
    prepared = with_column.basis.kernel.preparation(np.full((2, 4), [1.0, 2.0, 3.0, 14.62]))
    np.testing.assert_array_equal(prepared[:, 3], 0)


def test_a_constant_column_counts_where_gamma_depends_on_columns() -> None:
    """γ = None is 1 over all columns, the constant one included, as in scikit-learn."""
    case = cases.constant_column()
    for X, expected in ((case.X, "default_gamma_with"), (case.X[:, :3].copy(), "default_gamma_without")):
        model = KernelPCA(3, kernel="rbf").fit(X)
        np.testing.assert_allclose(model.eigenvalues_, case.known[expected], rtol=1e-9)


def test_values_that_are_not_finite_are_found_before_the_first_tile(commands: Commands) -> None:
    """Three bad rows are counted and the first is named; without them the other 597 are fitted."""
    case = cases.not_finite()
    with pytest.raises(DataError, match=r"3 rows .*first .*row 17\b"):
        estimator(case).fit(case.X)
    commands.configure(case)
    message = commands("fit", "c.yaml", code=65)["error"]["message"]
    assert re.search(r"x\.npy: 3 rows .*the first is .*row 17\b", message)
    assert not Path("gram.zarr/tiles").exists()
    assert not Path("models").exists()
    found = commands("fit", "c.yaml", "--set", "data.on_missing=drop")["result"]
    assert (found["n_samples"], found["n_dropped"]) == (597, 3)
    np.testing.assert_allclose(found["eigenvalues"], case.eigenvalues, rtol=1e-9)


# Chunks, tiles and sizes


def chunked(kind: str) -> Any:
    """The picked rows of `cases.filtered` as a Dask array."""
    case, X, keep = cases.filtered()
    picked = da.from_array(X, chunks=(100, 3))[da.from_array(keep, chunks=100)]
    if kind == "unknown":
        return picked
    if kind == "unknown, some empty":
        hollow = da.from_array(np.r_[keep[:100], np.zeros(200, bool), keep[300:]], chunks=100)
        rest = da.from_array(case.X[keep[:100].sum() : keep[:300].sum()], chunks=(7, 2))
        return da.concatenate([da.from_array(X, chunks=(100, 3))[hollow], rest])
    if kind == "uneven":
        return picked.compute_chunk_sizes()
    return da.from_array(case.X, chunks=((0, 52, 0, 0, 400, 39, 0), (1, 2)))


@solvers
@pytest.mark.parametrize("kind", ["unknown", "unknown, some empty", "uneven", "empty"])
def test_picked_rows_in_any_chunks(kind: str, method: str) -> None:
    """Chunks that are uneven, empty or of unknown size give the eigenvalues of the rows as they are."""
    case, _, _ = cases.filtered()
    X = chunked(kind)
    model = estimator(case, eigen_solver=method).fit(X)
    plain = estimator(case, eigen_solver=method).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-10)
    assert model.transform(X).compute().shape == (491, 3)


def test_a_lost_tile_is_named_and_made_again(commands: Commands) -> None:
    """`verify` names the tile, and a fit in the same store makes it again rather than read zeros."""
    case = cases.in_four_tiles()
    commands.configure(case, gram={"tile_rows": 64}, solver={"method": "lanczos"})
    first = commands("fit", "c.yaml")["result"]
    np.testing.assert_allclose(first["eigenvalues"], case.eigenvalues, rtol=1e-9)
    assert (first["n_tiles"], first["tiles_made"]) == (10, 10)
    Path("gram.zarr/tiles/c/1/2").unlink()
    report = commands("verify", "gram.zarr", code=65)
    assert [check for check in report["result"]["checks"] if "(1, 2)" in check["detail"]]
    again = commands("fit", "c.yaml", "--set", "models.path=other")["result"]
    assert (again["tiles_found"], again["tiles_made"]) == (9, 1)
    assert again["eigenvalues"] == first["eigenvalues"]
    assert all(check["ok"] for check in commands("verify", "gram.zarr")["result"]["checks"])


def test_tiles_that_truly_are_zero(commands: Commands) -> None:
    """Tiles of zeros are stored, found and no fault: four of ten between two groups far apart."""
    case = cases.in_four_tiles()
    commands.configure(case, X=case.known["two_groups"], gram={"tile_rows": 64}, solver={"method": "lanczos"})
    first = commands("fit", "c.yaml")["result"]
    np.testing.assert_allclose(first["eigenvalues"], case.known["two_groups_eigenvalues"], rtol=1e-9)
    tiles = zarr.open_group("gram.zarr", mode="r")["tiles"]
    assert isinstance(tiles, zarr.Array)
    K = np.asarray(tiles[...])
    blocks = [K[i : i + 64, j : j + 64] for i in range(0, 256, 64) for j in range(i, 256, 64)]
    assert sum(not block.any() for block in blocks) == 4
    commands("verify", "gram.zarr")
    again = commands("fit", "c.yaml", "--set", "models.path=other")["result"]
    assert (again["tiles_found"], again["tiles_made"]) == (10, 0)
    assert again["eigenvalues"] == first["eigenvalues"]


@pytest.mark.parametrize("n_samples", cases.TOO_MANY_ROWS)
def test_sizes_are_known_before_any_work(n_samples: int, commands: Commands) -> None:
    """A plan tells tiles and bytes exactly and, where they pass a limit, both and the way out."""
    n_bytes, n_tiles, _ = cases.TOO_MANY_ROWS[n_samples]
    case = Case(np.zeros((2, 2)), {"kernel": "rbf"}, np.zeros(10))
    limits = {"memory": "2GiB", "disk": "10GiB"}
    commands.configure(case, X="none.npy", limits=limits, solver={"precision": "float64", "tol": 1e-9})
    arguments = ["plan", "c.yaml", "--shape", f"{n_samples}x50"]
    refused = commands(*arguments, code=2)
    plan, message = refused["result"], refused["error"]["message"]
    assert (plan["tile_rows"], plan["n_tiles"]) == (2048, n_tiles)
    assert plan["disk_tiles"] == n_tiles * 2048**2 * 8
    assert plan["evaluations"] == n_samples * (n_samples + 1) // 2 == (n_bytes // 8 + n_samples) // 2
    assert f"{plan['disk_total'] / 2**30:,.1f} GiB" in message
    assert re.search(r"limits\.disk is 10\.0 GiB: set gram\.storage: recompute", message)
    dense = commands(*arguments, "--set", "solver.method=dense", code=2)["error"]["message"]
    assert re.search(r"of memory, limits\.memory is 2\.0 GiB: set solver\.method: lanczos", dense)
    possible = commands(*arguments, "--set", "gram.storage=recompute")["result"]
    assert possible["disk_tiles"] == 0
    assert possible["memory_total"] <= 2 * 2**30


@pytest.mark.parametrize("n_samples", cases.TOO_MANY_ROWS)
def test_a_fit_that_cannot_be_is_refused_before_any_work(n_samples: int, commands: Commands) -> None:
    """Rows that were never written are refused by their shape alone; nothing is read, nothing is left."""
    rows = zarr.create_array(
        "x.zarr", shape=(n_samples, 50), chunks=(2048, 50), dtype="f8", fill_value=np.nan
    )
    case = Case(np.zeros((2, 2)), {"kernel": "rbf"}, np.zeros(10))
    apart = {"merge_duplicates": False}  # with it, rows are read: there may be few distinct ones
    commands.configure(case, X="x.zarr", data=apart, limits={"memory": "2GiB"}, solver={"method": "dense"})
    assert "set solver.method: lanczos" in commands("fit", "c.yaml", code=2)["error"]["message"]
    assert not Path("gram.zarr").exists()
    with pytest.raises(ConfigError, match=f"(?s){n_samples} rows.*GiB"):
        KernelPCA(None, kernel="rbf", memory_limit="2GiB").fit(rows)


class Measured(Exception):  # noqa: N818  an end, no fault
    """Ends a pass at its first graph, with the bytes that it takes on its way."""


def measure(graph: Any, keys: Any, **_: Any) -> Any:
    """A Dask scheduler that weighs a graph."""
    raise Measured(len(pickle.dumps((graph, keys))))


def touch_tiles(store: Path, plan: FitPlan, n_blocks: int) -> None:
    """Make the tiles of the first blocks look as if they were there."""
    for block in plan.grid.blocks()[:n_blocks]:
        for i, j in plan.grid.tiles(block):
            (store / f"tiles/c/{i}").mkdir(parents=True, exist_ok=True)
            (store / f"tiles/c/{i}/{j}").touch()


@pytest.mark.parametrize("storage", ["recompute", "zarr"])
@pytest.mark.parametrize("tile_rows", [1000, None])
@pytest.mark.parametrize("n_workers", [2, 16])
def test_graphs_stay_small(storage: Any, tile_rows: int | None, n_workers: int, tmp_path: Path) -> None:
    """At a million rows no graph that leaves the client has a MiB, with hundreds of thousands of tiles."""
    n_samples = 1_000_000
    settings = FitSettings(kernel=KernelSpec("rbf", 0.01), storage=storage, tile_rows=tile_rows)
    plan = make_plan(settings, n_samples, 50, np.dtype(float), with_store=True)
    assert plan.grid.n_tiles == 500_500 if tile_rows == 1000 else plan.grid.n_tiles > 100_000
    store = RunStore.open(tmp_path / "gram.zarr")
    rows = ZarrRows.whole(
        zarr.create_array(tmp_path / "x.zarr", shape=(n_samples, 50), chunks=(2048, 50), dtype="f8")
    )
    if storage == "zarr":
        store.open_tiles(n_samples, plan.grid.tile_rows, plan.tile_dtype)
        touch_tiles(tmp_path / "gram.zarr", plan, n_blocks=2 * n_workers)
    kernel = make_kernel(settings.kernel, Preparation(np.zeros(50)), gamma=0.01)
    gram = Gram(rows, kernel, plan.grid, plan.tile_dtype, storage, store)
    with dask.config.set(scheduler=measure, num_workers=n_workers), pytest.raises(Measured) as weighed:
        gram.multiply(np.ones((n_samples, 1)))
    assert 0 < weighed.value.args[0] < 2**20
