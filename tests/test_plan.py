"""`plan`: what a fit would cost, and what is refused before it begins."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from distributed.protocol.pickle import dumps
from jobs import command, configured

from kpca_stream.errors import ConfigError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.cost import OPENING_SECONDS
from kpca_stream.numerics.footprint import IMPORT_BYTES
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.pivots import expected_rounds
from kpca_stream.numerics.resolve import KernelSpec, make_kernel
from kpca_stream.pipeline import fit_config, plan_config
from kpca_stream.planning import make_plan
from kpca_stream.results import Plan
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.gram.blocks import BlockProduct, TileCounts
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.rows import ZarrRows
from kpca_stream.telemetry import silent

TB = 10**12


def planned(folder: Path, shape: tuple[int, int] | None, changes: dict[str, Any] | None = None) -> Plan:
    base = {"gram.tile_rows": "auto", "solver.n_components": 10}
    return plan_config(configured(folder, {**base, **(changes or {})}), silent(), shape=shape)


def test_a_million_rows_of_50_columns(tmp_path: Path) -> None:
    """The plan counts tiles, padded bytes, evaluations, memory and tasks, and reads no data."""
    found = planned(tmp_path, (1_000_000, 50), {"limits.disk": 4 * TB})
    side = -(-1_000_000 // 2048)
    assert (found.tile_rows, found.n_tiles) == (2048, side * (side + 1) // 2)
    assert found.precision == "mixed"
    assert found.disk_tiles == found.n_tiles * 2048**2 * 4
    assert found.disk_rows == -(-1_000_000 // 2048) * 2048 * 50 * 8
    assert found.disk_total == found.disk_tiles + found.disk_rows + found.disk_vectors + found.disk_basis
    assert found.disk_basis >= 1_000_000 * (50 + 10) * 8
    assert found.evaluations >= 1_000_000 * 1_000_001 // 2
    assert found.n_tasks <= 5000
    assert found.memory_total <= found.memory_limit
    assert found.memory_total > IMPORT_BYTES
    assert found.seconds > 60
    assert found.refusals == ()


def test_a_plan_tells_what_a_pass_moves(tmp_path: Path) -> None:
    """On processes sums of row blocks come back; on threads nothing moves."""
    on_threads = planned(tmp_path, (1_000_000, 50))
    assert (on_threads.n_processes, on_threads.moved_from_workers, on_threads.receiving_seconds) == (0, 0, 0)
    found = planned(tmp_path, (1_000_000, 50), {"cluster": {"kind": "local", "n_workers": 4}})
    assert found.n_processes == 4
    assert found.moved_to_workers < 2**24 < 2**33 < found.moved_from_workers
    assert found.seconds >= found.passes * found.receiving_seconds > 0


def test_workers_elsewhere_are_not_counted_by_the_cores_here(tmp_path: Path) -> None:
    """A plan for Slurm takes less time the more workers it has, until sums arrive no faster."""
    slurm = {"kind": "slurm", "slurm": {"interface": "lo"}}
    few, many, most = (
        planned(tmp_path, (1_000_000, 50), {"cluster": {**slurm, "n_workers": n_workers}}).seconds
        for n_workers in (8, 64, 10**6)
    )
    assert few > 6 * many
    assert many > most > 60


def test_a_plan_of_any_size_is_made_at_once(tmp_path: Path) -> None:
    """Rows beyond all reason are planned in seconds, in no more tasks than a pass may have."""
    began = time.perf_counter()
    found = planned(tmp_path, (10**11, 3))
    assert found.n_tasks <= 5000
    assert time.perf_counter() - began < 10


def test_too_little_disk_names_the_way_out(tmp_path: Path) -> None:
    """Two terabytes of tiles do not fit 100 GiB: recompute them, which then is planned without refusal."""
    found = planned(tmp_path, (1_000_000, 50))
    assert len(found.refusals) == 1
    assert "of disk, limits.disk is 100.0 GiB" in found.refusals[0]
    assert "gram.storage: recompute" in found.refusals[0]
    assert planned(tmp_path, (1_000_000, 50), {"gram.storage": "recompute"}).refusals == ()


@pytest.mark.parametrize(
    ("changes", "way_out"),
    [
        ({"gram.storage": "memory"}, "gram.storage: recompute"),
        ({"solver.method": "dense"}, "solver.method: lanczos"),
        ({"gram.storage": "recompute", "limits.memory": 10**8}, "raise limits.memory"),
    ],
)
def test_too_little_memory_names_the_way_out(tmp_path: Path, changes: dict[str, Any], way_out: str) -> None:
    """What does not fit the memory is refused with both sizes and what to change."""
    found = planned(tmp_path, (1_000_000, 50), {"limits.disk": 4 * TB, **changes})
    assert any("of memory, limits.memory is" in text and way_out in text for text in found.refusals)


def test_a_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A fit that its plan refuses ends at once, and leaves no store, unless merging may rescue it."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((3000, 4)))
    with pytest.raises(ConfigError, match=r"of disk, limits\.disk is"):
        fit_config(configured(tmp_path, {"limits.disk": 10**6, "data.merge_duplicates": False}), silent())
    assert not (tmp_path / "gram.zarr").exists()


def test_the_plan_of_a_source_is_that_of_its_shape(tmp_path: Path) -> None:
    """Planning for a file reads its shape and type, and gives what the fit then does."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((300, 4)))
    found = planned(tmp_path, None, {"gram.tile_rows": 64})
    done = fit_config(configured(tmp_path, {"solver.n_components": 10}), silent())
    for name in ("n_samples", "n_features", "precision", "storage", "method", "tile_rows", "n_tiles"):
        assert getattr(found, name) == getattr(done, name)


def test_the_command_prints_the_plan_and_refuses(tmp_path: Path) -> None:
    """`plan --shape` prints one JSON object; it ends with 2 and the way out where the plan is refused."""
    (tmp_path / "c.yaml").write_text(json.dumps(configured(tmp_path).model_dump(mode="json")))
    sized = ("plan", "c.yaml", "--shape", "1000000x50", "--json", "--set", "gram.tile_rows=1000")
    refused = command(tmp_path, *sized)
    found = json.loads(refused.stdout)["result"]
    assert refused.returncode == 2
    assert (found["n_tiles"], found["n_tasks"] <= 5000) == (500_500, True)
    assert "gram.storage: recompute" in found["refusals"][0]
    allowed = command(tmp_path, *sized, "--set", "gram.storage=recompute")
    assert (allowed.returncode, json.loads(allowed.stdout)["result"]["refusals"]) == (0, [])


def test_scoring_is_planned_where_it_is_configured(tmp_path: Path) -> None:
    """A basis that is held in memory to score with counts, in the plan of a run that scores."""
    wide: dict[str, Any] = {
        "limits.memory": 4 * 2**30,
        "gram.storage": "recompute",
        "solver.precision": "float32",
    }
    wide["data.merge_duplicates"] = False
    scored = planned(tmp_path, (12_000, 9_000), wide).memory_total
    alone = planned(tmp_path, (12_000, 9_000), {**wide, "score": None}).memory_total
    assert scored > 12_000 * 9_000 * 8 > alone - IMPORT_BYTES


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        (np.float64, {}),
        (np.float32, {"solver.n_components": 5}),
        (np.float64, {"solver.method": "nystrom", "nystrom": {"landmarks": 200}}),
    ],
)
def test_the_published_basis_is_in_the_plan(dtype: Any, changes: dict[str, Any], tmp_path: Path) -> None:
    """The disk that the basis will take is told to 2 %, whatever spans it."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((3000, 40)).astype(dtype))
    changes = {"gram.storage": "recompute", "kernel.gamma": 1e-4, **changes}
    found = planned(tmp_path, None, changes)
    fit_config(configured(tmp_path, {"solver.n_components": 10, **changes}), silent())
    used = bytes_in(tmp_path / "models")
    assert used <= 1.02 * found.disk_basis
    assert found.disk_basis <= 1.02 * used
    assert found.disk_total == found.disk_rows + found.disk_tiles + found.disk_vectors + found.disk_basis


def test_choosing_landmarks_among_all_rows_is_in_the_plan(tmp_path: Path) -> None:
    """Passes over all rows to choose landmarks are counted in the work and the time."""
    found = {}
    for pool in ("sample", "all"):
        changes = {"landmarks": 1000, "method": "rpcholesky", "pool": pool}
        found[pool] = planned(tmp_path, (1_000_000, 20), {"solver.method": "nystrom", "nystrom": changes})
    begun = expected_rounds(1000)
    assert len(begun) > 1
    assert found["all"].evaluations - found["sample"].evaluations == 1_000_000 * sum(begun)
    assert found["all"].seconds > 1.3 * found["sample"].seconds


def test_scoring_takes_time_where_its_rows_are_known(tmp_path: Path) -> None:
    """Its time grows with the rows to score; where these are not known it is not told."""
    np.save(tmp_path / "train.npy", np.random.default_rng(0).standard_normal((300, 4)))
    for changes, shape in (({}, None), ({"score": None}, None), ({}, (300, 4))):
        found = planned(tmp_path, shape, changes)
        assert (found.n_scored, found.scoring_seconds) == (None, None)
    seconds = []
    for n_rows in (1000, 2000):
        np.save(tmp_path / "new.npy", np.zeros((n_rows, 4)))
        found = planned(tmp_path, None)
        assert found.n_scored == n_rows
        seconds.append(found.scoring_seconds)
    opening = 2 * seconds[0] - seconds[1]
    assert opening == pytest.approx(OPENING_SECONDS)
    assert planned(tmp_path, None, {"score.input.rows": "0:10"}).n_scored == 10


def test_scoring_of_a_landing_folder_is_planned_file_by_file(tmp_path: Path) -> None:
    """Rows of files of all kinds are counted, also in folders below; what is set aside is no hindrance."""
    np.save(tmp_path / "train.npy", np.zeros((300, 4)))
    changes = {"score.input.path": str(tmp_path / "in"), "score.input.part_rows": 20}
    (tmp_path / "in/below").mkdir(parents=True)
    for name in (".hidden", "next.csv.part", "notes.txt", "empty.csv"):
        (tmp_path / "in" / name).write_text("")
    found = planned(tmp_path, None, changes)
    assert (found.n_scored, found.scoring_seconds) == (None, None)
    np.save(tmp_path / "in/a.npy", np.zeros((1000, 4)))
    (tmp_path / "in/below/b.csv").write_text("1,2,3,4\n" * 30)
    assert planned(tmp_path, None, changes).n_scored == 1030


class Weighing:
    """A Dask scheduler that weighs graphs as they are sent, and answers that all sums are zero."""

    def __init__(self) -> None:
        self.n_tasks = 0
        self.sizes: list[int] = []

    def __call__(self, graph: Any, keys: Any, **_: Any) -> Any:
        graph = graph.__dask_graph__()
        self.n_tasks += len(graph)
        self.sizes.append(len(dumps((graph, keys))))
        return [BlockProduct(np.zeros((1, 1)), np.zeros((1, 1)), TileCounts()) for _ in keys]


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["recompute", "zarr"])
def test_a_pass_over_a_million_rows_is_few_small_graphs(storage: Any, tmp_path: Path) -> None:
    """A pass has at most 5,000 tasks and no graph of a MiB, with tiles to be made and with all there."""
    n_samples = 1_000_000
    settings = FitSettings(kernel=KernelSpec("rbf", 0.01), storage=storage)
    plan = make_plan(settings, n_samples, 50, np.dtype(float), with_store=True)
    array = zarr.create_array(tmp_path / "x.zarr", shape=(n_samples, 50), chunks=(2048, 50), dtype="f8")
    kernel = make_kernel(settings.kernel, Preparation(np.zeros(50)), gamma=0.01)
    store = RunStore.open(tmp_path / "gram.zarr")
    gram = Gram(ZarrRows.whole(array), kernel, plan.grid, plan.tile_dtype, storage, store)
    for column in (1.0, 2.0):
        weighing = Weighing()
        with dask.config.set(scheduler=weighing, num_workers=64):
            gram.multiply(np.full((n_samples, 1), column))
        # What tasks give back is folded by the caller: a graph holds nothing else.
        assert plan.grid.n_tasks == weighing.n_tasks <= 5000
        assert len(weighing.sizes) == -(-plan.grid.n_tasks // 64)  # two graphs of one task a worker
        assert max(weighing.sizes) < 2**20


@pytest.mark.parametrize(("storage", "precision"), [("recompute", "mixed"), ("zarr", "float32")])
def test_any_number_of_workers_gives_the_same_bits(storage: str, precision: str, tmp_path: Path) -> None:
    """A plan carried out by 1, 2 or 4 workers, from the start by landmarks to the basis, has equal bits."""
    X = np.random.default_rng(0).standard_normal((5_200, 5)) * [5, 4, 3, 2, 1]
    changes = {
        "gram.storage": storage,
        "gram.tile_rows": 700,
        "solver.precision": precision,
        "kernel.gamma": 0.01,
    }
    found = []
    for n_workers in (1, 2, 4):
        folder = tmp_path / str(n_workers)
        folder.mkdir()
        np.save(folder / "train.npy", X)
        done = fit_config(configured(folder, {**changes, "cluster.n_workers": n_workers}), silent())
        found.append(arrays(open_basis(Registry(Path(done.model)).basis_path(done.version))))
        if precision == "mixed":
            assert done.tiles_made == done.n_passes * done.n_tiles
    assert found[0] == found[1] == found[2]


def arrays(basis: Basis) -> list[bytes]:
    """All that was computed of a basis."""
    limits = basis.thresholds
    computed = (basis.coefficients.load(), basis.eigenvalues, basis.row_means, basis.centring)
    return [array.tobytes() for array in (*computed, limits.error_quantiles, limits.t2_quantiles)]
