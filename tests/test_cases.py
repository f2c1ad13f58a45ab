"""Known faults of other programs as tests, through Python and the command line."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any, Literal

import cases
import dask
import dask.array as da
import numpy as np
import pytest
import reference
import zarr
from cases import Case
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kpca_stream import KernelPCA, load_basis
from kpca_stream.cli import main
from kpca_stream.errors import ConfigError, ConvergenceError, DataError, KpcaStreamWarning
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitting import Fit, FitSettings, fit, make_plan
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.resolve import KernelSpec, make_kernel
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.sweep import sweep
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ZarrRows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]
Method = Literal["dense", "lanczos"]

solvers = pytest.mark.parametrize("method", ["dense", "lanczos"])


def estimator(case: Case, n_components: int | None = None, **more: Any) -> KernelPCA:
    return KernelPCA(n_components or len(case.eigenvalues), **{**case.parameters, **more})


def fitted(case: Case, X: Array | None = None, **more: Any) -> Fit:
    """A fit by the settings of the command line."""
    parameters = dict(case.parameters)
    spec = KernelSpec(parameters.pop("kernel", "linear"), **parameters)
    settings = FitSettings(kernel=spec, **{"n_components": len(case.eigenvalues), **more})
    return fit(open_source(case.X if X is None else X), settings)


class Commands:
    """The command line in a folder of its own, with a configuration that fits `x.npy`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def configure(self, case: Case, X: Array | str | None = None, **more: Any) -> None:
        if not isinstance(X, str):
            np.save("x.npy", case.X if X is None else X)
        kernel = {"name" if key == "kernel" else key: value for key, value in case.parameters.items()}
        config = {
            "name": "case",
            "data": {"train": {"path": X if isinstance(X, str) else "x.npy"}, **more.pop("data", {})},
            "kernel": kernel or {"name": "linear"},
            "solver": {"n_components": len(case.eigenvalues), "tol": 1e-13, **more.pop("solver", {})},
            "gram": {"storage": "zarr", "path": "gram.zarr", **more.pop("gram", {})},
            **more,
        }
        Path("c.yaml").write_text(json.dumps(config))

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The JSON object that a command prints."""
        assert main([*arguments, "--json", "--quiet"]) == code
        printed: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return printed


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


def chunked(kind: str) -> da.Array:
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
    commands.configure(case, X="x.zarr", limits={"memory": "2GiB"}, solver={"method": "dense"})
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
