"""The order of things: fit, publish, score; what is done already, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from jobs import ROOT, command, configured, contents

from kpca_stream.errors import BusyError, ConfigError, ConvergenceError, DataError
from kpca_stream.pipeline import fit_config, run_config, score_config, verify_store
from kpca_stream.results import FitSummary, as_json
from kpca_stream.stages.scoring import score_block
from kpca_stream.storage.basis import open_basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.lock import locked
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import silent

RNG = np.random.default_rng(7)
X = RNG.standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5]
X_NEW = RNG.standard_normal((70, 4)) * [3.0, 2.0, 1.0, 0.5]
N_TILES = 15


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "train.npy", X)
    np.save(tmp_path / "new.npy", X_NEW)
    return tmp_path


def fitted(folder: Path, changes: dict[str, Any] | None = None) -> FitSummary:
    return fit_config(configured(folder, changes), silent())


class Interrupting:
    """A reporter that raises when a stage has come so far."""

    def __init__(self, stage: str, after: int) -> None:
        self.stage, self.after = stage, after

    def step(self, stage: str) -> Callable[[int, int], None]:
        def advance(done: int, total: int) -> None:  # noqa: ARG001  the protocol's signature
            if stage == self.stage and done >= self.after:
                raise KeyboardInterrupt

        return advance

    def note(self, text: str) -> None:
        """Say nothing."""


def test_a_run_publishes_a_basis_and_writes_all_parts(folder: Path) -> None:
    """A run leaves version 1 with its alias, a store with tiles, and scores of every row."""
    found = run_config(configured(folder), silent())
    assert (found.fit.version, found.fit.reused) == (1, False)
    assert (found.fit.n_tiles, found.fit.tiles_made, found.fit.tiles_found) == (N_TILES, N_TILES, 0)
    registry = Registry.of(folder / "models", "rows")
    assert registry.resolve() == 1
    assert found.score is not None
    assert (found.score.n_rows, found.score.n_parts, found.score.parts_written) == (70, 4, 4)
    frames = [pd.read_parquet(path) for path in sorted((folder / "scores").glob("*.parquet"))]
    frame = pd.concat(frames).sort_values("row")
    expected = score_block(open_basis(registry.basis_path(1)), ArrayRows(X_NEW))
    assert frame["row"].tolist() == list(range(70))
    np.testing.assert_allclose(frame[["kpca_0", "kpca_1", "kpca_2"]], expected.scores, atol=1e-12)
    assert found.score.n_novel == expected.novelty.sum()


def test_a_second_run_does_nothing(folder: Path) -> None:
    """The same run again says that all is there, and changes no file."""
    first = run_config(configured(folder), silent())
    before = contents(folder)
    second = run_config(configured(folder), silent())
    assert contents(folder) == before
    assert second.fit.reused
    assert second.fit.eigenvalues == first.fit.eigenvalues
    assert second.score is not None
    assert (second.score.parts_written, second.score.parts_skipped) == (0, 4)
    assert second.score.n_novel == first.score.n_novel  # type: ignore[union-attr]


def test_a_reused_version_tells_where_things_lie_now(folder: Path, tmp_path: Path) -> None:
    """After the models were moved, the summary of the reused version names their new place."""
    fitted(folder)
    (folder / "models").rename(folder / "moved")
    found = fitted(folder, {"models.path": str(folder / "moved")})
    assert found.reused
    assert found.basis == str(tmp_path / "moved" / "rows" / "versions" / "1" / "basis.zarr")


def test_a_changed_setting_makes_a_new_version_from_the_same_tiles(folder: Path) -> None:
    """Fewer components are another version, for which no tile is made; its scores get other names."""
    run_config(configured(folder), silent())
    found = run_config(configured(folder, {"solver.n_components": 2}), silent())
    assert (found.fit.version, found.fit.tiles_found, found.fit.tiles_made) == (2, N_TILES, 0)
    assert found.score is not None
    assert found.score.parts_written == 4
    assert {path.name.split("-v")[1][0] for path in (folder / "scores").glob("*.parquet")} == {"2"}
    again = fitted(folder)
    assert (again.version, again.reused) == (1, True)
    assert Registry.of(folder / "models", "rows").resolve() == 1


def test_scores_of_a_version_of_another_registry_are_not_taken_for_these(folder: Path) -> None:
    """A version 1 of other settings, in a new registry, scores anew into the same folder."""
    run_config(configured(folder), silent())
    other = {"models.path": str(folder / "other"), "solver.n_components": 2}
    found = run_config(configured(folder, other), silent())
    assert found.score is not None
    assert (found.fit.version, found.score.parts_written) == (1, 4)


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_other_data_are_refused_and_the_store_stays(folder: Path, suffix: str) -> None:
    """A store of other rows is refused by the fingerprint, and none of its files changes."""
    path = folder / f"train.{suffix}"

    def write(rows: Any) -> None:
        np.save(path, rows) if suffix == "npy" else pd.DataFrame(rows).to_csv(path, index=False)

    write(X)
    fitted(folder, {"data.train.path": str(path)})
    before = contents(folder / "gram.zarr")
    write(X + 1.0)
    with pytest.raises(DataError, match=r"holds another run \(fingerprint: '\w+' there, '\w+' now\)"):
        fitted(folder, {"data.train.path": str(path)})
    assert contents(folder / "gram.zarr") == before
    write(X)
    assert fitted(folder, {"data.train.path": str(path)}).reused


def test_a_refused_file_never_leaves_its_rows_for_another(folder: Path) -> None:
    """After rows in place were fitted and a CSV of other rows refused, the first are fitted right again."""
    first = fitted(folder)
    pd.DataFrame(X * 2).to_csv(folder / "other.csv", index=False)
    with pytest.raises(DataError, match="fingerprint"):
        fitted(folder, {"data.train.path": str(folder / "other.csv")})
    pd.DataFrame(X).to_csv(folder / "same.csv", index=False, header=False)
    found = fitted(folder, {"data.train.path": str(folder / "same.csv"), "solver.n_components": 2})
    np.testing.assert_allclose(found.eigenvalues, first.eigenvalues[:2], rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kernel.gamma": 0.06}, "gamma: 0.05 there, 0.06 now"),
        ({"kernel.name": "laplacian"}, "kernel: 'rbf' there, 'laplacian' now"),
        ({"gram.tile_rows": 32}, "tile_rows: 64 there, 32 now"),
        ({"solver.precision": "float32"}, "precision: 'float64' there, 'float32' now"),
        ({"data.scale": "standard"}, "scale: False there, True now"),
    ],
)
def test_another_kernel_or_plan_is_refused_by_name(folder: Path, changes: dict[str, Any], named: str) -> None:
    """A store of another kernel, tile size, precision or scaling is refused with what differs."""
    fitted(folder)
    before = contents(folder / "gram.zarr")
    with pytest.raises(DataError, match=named):
        fitted(folder, changes)
    assert contents(folder / "gram.zarr") == before


def test_an_own_function_that_changed_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a function are not mixed with those of another one under the same name."""
    monkeypatch.chdir(folder)
    (folder / "changing.py").write_text("def k(X, Y):\n    return X @ Y.T\n")
    changes = {"kernel.name": "changing:k", "kernel.gamma": None}
    fitted(folder, changes)
    sys.modules.pop("changing")
    (folder / "changing.py").write_text("def k(X, Y):\n    return 2.0 * (X @ Y.T)  # another one\n")
    with pytest.raises(DataError, match="own_values"):
        fitted(folder, changes)
    sys.modules.pop("changing")


def test_an_interrupted_pass_goes_on_without_making_a_tile_again(folder: Path) -> None:
    """After an interruption in the second pass the tiles are found, and the result is the same to the bit."""
    other = {"models.path": str(folder / "m2"), "gram.path": str(folder / "g2.zarr")}
    undisturbed = fitted(folder, other)
    with pytest.raises(KeyboardInterrupt):
        fit_config(configured(folder), Interrupting("pass 2", 1))
    found = fitted(folder)
    assert (found.tiles_found, found.tiles_made, found.tiles_repaired) == (N_TILES, 0, 0)
    assert found.eigenvalues == undisturbed.eigenvalues
    assert found.tiles_read == undisturbed.tiles_read
    first, second = (open_basis(folder / name / "rows/versions/1/basis.zarr") for name in ("models", "m2"))
    np.testing.assert_array_equal(first.coefficients.load(), second.coefficients.load())


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from jobs import configured
from kpca_stream.pipeline import fit_config

class Killing:
    def step(self, stage):
        def advance(done, total):
            if stage == sys.argv[3]:
                os.kill(os.getpid(), signal.SIGKILL)
        return advance
    def note(self, text):
        pass

fit_config(configured(Path(sys.argv[1]), {"data.train.path": sys.argv[1] + "/train.csv"}), Killing())
"""


@pytest.mark.parametrize("stage", ["rows", "pass 1", "pass 3"])
def test_a_killed_fit_goes_on(folder: Path, stage: str) -> None:
    """After kill -9 in any stage the next run makes no tile twice and publishes the same eigenvalues."""
    pd.DataFrame(X).to_csv(folder / "train.csv", index=False)
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(ROOT / "tests"), stage], cwd=ROOT, check=False
    )
    assert child.returncode == -signal.SIGKILL
    assert not (folder / "models" / "rows" / "versions").exists()
    found = fitted(folder, {"data.train.path": str(folder / "train.csv")})
    assert found.tiles_found + found.tiles_made == N_TILES
    assert found.tiles_made == (N_TILES if stage == "rows" else 0)
    other = {"models.path": str(folder / "m2"), "gram.path": str(folder / "g2.zarr")}
    assert (
        found.eigenvalues
        == fitted(folder, {**other, "data.train.path": str(folder / "train.csv")}).eigenvalues
    )
    assert not list((folder / "gram.zarr").rglob("*.partial"))


@pytest.mark.parametrize("storage", ["zarr", "memory", "recompute"])
def test_passes_of_a_fit_that_did_not_converge_are_not_made_again(folder: Path, storage: str) -> None:
    """More passes after too few of them replay the finished products, and give the same result."""
    changes: dict[str, Any] = {"gram.storage": storage, "solver.tol": 1e-9}
    with pytest.raises(ConvergenceError, match=r"0 of 3|1 of 3|2 of 3"):
        fitted(folder, {**changes, "solver.max_passes": 2})
    kept = sorted((folder / "gram.zarr" / "checkpoints").iterdir())
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    assert len(kept) == 2
    seen: dict[Path, int] = {}

    class Watching(Interrupting):
        def step(self, stage: str) -> Callable[[int, int], None]:
            if stage == "pass 3":
                seen.update({path: path.stat().st_mtime_ns for path in kept})
            assert stage not in ("pass 1", "pass 2")
            return super().step(stage)

    found = fit_config(configured(folder, changes), Watching("", 1))
    assert seen == stamps
    other = {"models.path": str(folder / "m2"), "gram.path": str(folder / "g2.zarr")}
    undisturbed = fitted(folder, {**changes, **other})
    assert found.n_passes == undisturbed.n_passes > 2
    assert found.eigenvalues == undisturbed.eigenvalues
    assert not list((folder / "gram.zarr" / "checkpoints").iterdir())


@pytest.mark.parametrize("path", ["tiles/c/0/1", "tiles/c/2/2"])
def test_a_damaged_tile_is_made_again_and_counted(folder: Path, path: str) -> None:
    """A tile whose checksum does not hold is never used: it is computed again, and the summary says so."""
    first = fitted(folder)
    tile = folder / "gram.zarr" / path
    content = bytearray(tile.read_bytes())
    content[77] ^= 1
    tile.write_bytes(content)
    with pytest.warns(match="1 tiles were cut, changed or lost and have been computed again"):
        found = fitted(folder, {"solver.n_components": 2})
    assert (found.tiles_found, found.tiles_made, found.tiles_repaired) == (N_TILES, 1, 1)
    np.testing.assert_allclose(found.eigenvalues, first.eigenvalues[:2], rtol=1e-9)


def test_damaged_stored_rows_are_refused(folder: Path) -> None:
    """Rows of the store whose checksum does not hold end the run with their path, and no version."""
    pd.DataFrame(X).to_csv(folder / "train.csv", index=False)
    changes = {"data.train.path": str(folder / "train.csv"), "gram.storage": "recompute"}
    fitted(folder, changes)
    chunk = next(path for path in (folder / "gram.zarr" / "rows" / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[100] ^= 16
    chunk.write_bytes(content)
    with pytest.raises(DataError, match=r"gram\.zarr"):
        fitted(folder, {**changes, "solver.n_components": 2})
    assert Registry.of(folder / "models", "rows").versions() == [1]


def test_a_store_in_use_is_busy(folder: Path) -> None:
    """While another process works in the store a run is told who does, with exit code 75."""
    (folder / "gram.zarr").mkdir()
    with locked(folder / "gram.zarr"):
        with pytest.raises(BusyError, match="is in use by"):
            fitted(folder)
        (folder / "c.yaml").write_text(json.dumps(configured(folder).model_dump(mode="json")))
        child = command(folder, "fit", "c.yaml")
    assert child.returncode == 75
    assert "is in use by" in child.stderr
    assert "Traceback" not in child.stderr
    assert fitted(folder).version == 1


def test_a_path_with_something_else_is_no_store(folder: Path) -> None:
    """A folder of other files is not made a store."""
    (folder / "other").mkdir()
    (folder / "other" / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="is not a run's store"):
        fitted(folder, {"gram.path": str(folder / "other")})


def test_scoring_asks_for_a_model_and_a_section(folder: Path) -> None:
    """Without a published version, or without the section, scoring says what to do first."""
    with pytest.raises(ConfigError, match="fit a model first"):
        score_config(configured(folder), silent())
    with pytest.raises(ConfigError, match="score: missing section"):
        score_config(configured(folder, {"score": None}), silent())


def test_a_bad_row_leaves_nothing_of_its_file(folder: Path) -> None:
    """A NaN in the third part is named by its row, and no part of its file is there."""
    fitted(folder)
    bad = X_NEW.copy()
    bad[45, 2] = np.nan
    np.save(folder / "new.npy", bad)
    with pytest.raises(DataError, match=r"new\.npy.*row 45, column '2'"):
        score_config(configured(folder), silent())
    assert not list((folder / "scores").glob("*.parquet"))
    assert score_config(configured(folder, {"data.on_missing": "drop"}), silent()).n_rows == 69


def test_wrong_columns_are_told_before_anything_is_written(folder: Path) -> None:
    """Rows of another width are refused with both numbers, and no part is there."""
    fitted(folder)
    np.save(folder / "new.npy", X_NEW[:, :3])
    with pytest.raises(DataError, match="got 3 columns of numbers, expected 4"):
        score_config(configured(folder), silent())
    assert not list((folder / "scores").glob("*.parquet"))


def test_a_basis_larger_than_its_share_of_memory_is_streamed(folder: Path) -> None:
    """Under a small limit scores are the same as under a large one."""
    fitted(folder)
    score_config(configured(folder), silent())
    whole = {path.name: pd.read_parquet(path) for path in (folder / "scores").glob("*.parquet")}
    assert len(whole) == 4
    changes = {"limits.memory": 40_000, "score.output": str(folder / "s2")}
    score_config(configured(folder, changes), silent())
    for path in (folder / "s2").glob("*.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(path), whole[path.name], check_exact=True)


def test_fewer_components_than_asked_are_told(folder: Path) -> None:
    """A basis of fewer components than asked for says so in a warning that the summary keeps."""
    changes = {"kernel.name": "linear", "kernel.gamma": None, "solver.n_components": 6}
    with pytest.warns(match="only 4 of 6 components"):
        found = fitted(folder, changes)
    assert len(found.eigenvalues) == 4
    assert any("only 4 of 6" in text for text in found.warnings)
    assert any("only 4 of 6" in text for text in fitted(folder, changes).warnings)


def test_identical_rows_give_no_basis(folder: Path) -> None:
    """Where no component is positive nothing is published."""
    np.save(folder / "train.npy", np.ones((300, 4)))
    with pytest.raises(DataError, match="no component has a positive eigenvalue"):
        fitted(folder, {"kernel.name": "linear", "kernel.gamma": None})
    assert not (folder / "models").exists()


def test_the_manifest_holds_the_summary(folder: Path) -> None:
    """A version's manifest keeps the summary of its fit as plain JSON."""
    found = fitted(folder)
    manifest = json.loads((folder / "models/rows/versions/1/manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["summary"] == as_json(found)


@pytest.mark.cluster
@pytest.mark.parametrize("storage", ["zarr", "memory", "recompute"])
def test_two_processes_publish_the_bits_of_threads(folder: Path, storage: str) -> None:
    """A whole run on two local processes gives the same basis and scores, to the bit, as on threads."""
    changes = {"gram.storage": storage, "data.train.path": str(folder / "train.csv")}
    pd.DataFrame(X).to_csv(folder / "train.csv", index=False)
    other = {
        "models.path": str(folder / "m2"),
        "gram.path": str(folder / "g2.zarr"),
        "score.output": str(folder / "s2"),
        "cluster.kind": "local",
        "cluster.n_workers": 2,
    }
    run_config(configured(folder, changes), silent())
    run_config(configured(folder, {**changes, **other}), silent())
    basis = "rows/versions/1/basis.zarr"
    one, two = (contents(folder / name / basis) for name in ("models", "m2"))
    assert {name for name in one if not name.endswith("zarr.json")} == {
        n for n in two if not n.endswith("zarr.json")
    }
    assert all(one[name] == two[name] for name in one if name != "zarr.json")
    if storage == "zarr":
        tiles = [contents(folder / name / "tiles") for name in ("gram.zarr", "g2.zarr")]
        assert tiles[0] == tiles[1]
    for path in (folder / "scores").glob("*.parquet"):
        pd.testing.assert_frame_equal(
            pd.read_parquet(path), pd.read_parquet(folder / "s2" / path.name), check_exact=True
        )


def test_worked_example_by_the_command_line_with_an_own_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact numbers of x = (−1, 0, 1), k = xy + (xy)², a function found in the working directory."""
    (tmp_path / "mine.py").write_text("def k(X, Y):\n    D = X @ Y.T\n    return D + D**2\n")
    (tmp_path / "train.csv").write_text("x\n-1\n0\n1\n")
    (tmp_path / "new.csv").write_text("x\n2\n-2\n")
    (tmp_path / "c.yaml").write_text(
        textwrap.dedent(
            """
            name: example
            data: {train: {path: train.csv}}
            kernel: {name: "mine:k"}
            solver: {n_components: 2}
            gram: {path: gram.zarr}
            score: {input: {path: new.csv}, output: scores}
            """
        )
    )
    child = command(tmp_path, "run", "c.yaml", "--json", check=True)
    found = json.loads(child.stdout)["result"]["fit"]
    np.testing.assert_allclose(found["eigenvalues"], [2, 2 / 3], rtol=1e-12)
    np.testing.assert_allclose(found["explained_variance_ratio"], [3 / 4, 1 / 4], rtol=1e-12)
    np.testing.assert_allclose(found["trace"], 8 / 3, rtol=1e-12)
    monkeypatch.syspath_prepend(tmp_path)
    basis = open_basis(tmp_path / "models/example/versions/1/basis.zarr")
    np.testing.assert_allclose(basis.row_means, [2 / 3, 0, 2 / 3], atol=1e-15)
    np.testing.assert_allclose(basis.grand_mean, 4 / 9, rtol=1e-12)
    np.testing.assert_allclose(np.abs(basis.coefficients.load()[:, 0]), [0.5, 0, 0.5], atol=1e-12)
    frame = pd.read_parquet(tmp_path / "scores")
    np.testing.assert_allclose(np.abs(frame["kpca_0"]), [2, 2], rtol=1e-12)
    np.testing.assert_allclose(np.abs(frame["kpca_1"]), [10 / 3, 10 / 3], rtol=1e-12)
    assert frame["kpca_0"].prod() < 0 < frame["kpca_1"].prod()
    np.testing.assert_allclose(frame["reconstruction_error"], [0, 0], atol=1e-10)
    assert verify_store(tmp_path / "models/example/versions/1/basis.zarr", silent()).ok


def test_a_precomputed_kernel_by_the_command_line(tmp_path: Path) -> None:
    """A matrix is fitted, and kernel values of new rows with the training rows are scored, without error."""
    K, K_new = X[:90] @ X[:90].T, X_NEW @ X[:90].T
    np.save(tmp_path / "K.npy", (K + K.T) / 2)
    np.save(tmp_path / "K_new.npy", K_new)
    (tmp_path / "c.yaml").write_text(
        textwrap.dedent(
            """
            name: given
            data: {train: {path: K.npy}}
            kernel: {name: precomputed}
            solver: {n_components: 3}
            gram: {path: gram.zarr, storage: zarr, tile_rows: 32}
            score: {input: {path: K_new.npy, part_rows: 30}, output: scores}
            """
        )
    )
    child = command(tmp_path, "run", "c.yaml", "--json", check=True)
    found = json.loads(child.stdout)["result"]
    centred = X[:90] - X[:90].mean(axis=0)
    expected = np.linalg.svd(centred, compute_uv=False)[:3] ** 2
    np.testing.assert_allclose(found["fit"]["eigenvalues"], expected, rtol=1e-10)
    frame = pd.read_parquet(tmp_path / "scores").sort_values("row")
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    projected = (X_NEW - X[:90].mean(axis=0)) @ directions.T
    np.testing.assert_allclose(np.abs(frame[["kpca_0", "kpca_1", "kpca_2"]]), np.abs(projected), atol=1e-9)
    assert frame["reconstruction_error"].isna().all()
    for path in ("gram.zarr", "models/given/versions/1/basis.zarr"):
        assert verify_store(tmp_path / path, silent()).ok
    np.save(tmp_path / "K_new.npy", K_new[:, :80])
    refused = command(tmp_path, "score", "c.yaml")
    assert (refused.returncode, "got 80 columns" in refused.stderr) == (65, True)


def test_an_asymmetric_matrix_is_refused_before_the_first_tile(folder: Path) -> None:
    """A precomputed kernel that is not symmetric, or not square, ends without a tile."""
    K = X[:90] @ X[:90].T
    K[3, 7] += 1.0
    np.save(folder / "train.npy", K)
    changes = {"kernel.name": "precomputed", "kernel.gamma": None}
    with pytest.raises(DataError, match="not symmetric"):
        fitted(folder, changes)
    assert RunStore.open(folder / "gram.zarr").present_tiles() == set()
    np.save(folder / "train.npy", K[:, :80])
    with pytest.raises(DataError, match=r"shape \(90, 80\)"):
        fitted(folder, {**changes, "gram.path": str(folder / "g2.zarr")})


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,nan\n5,6\n", "a,b\n1,2\n"])
def test_refused_rows_leave_an_empty_store(text: str, tmp_path: Path) -> None:
    """Rows that are refused at the first fit are not kept, and the repaired file fits in the same place."""
    file = tmp_path / "train.csv"
    file.write_text(text)
    changes = {"data.train.path": str(file), "solver.n_components": 1, "score": None}
    with pytest.raises(DataError, match=r"train\.csv"):
        fitted(tmp_path, changes)
    assert {entry.name for entry in (tmp_path / "gram.zarr").iterdir()} == {"lock"}
    file.write_text("a,b\n1,2\n3,4\n5,7\n")
    assert fitted(tmp_path, changes).n_samples == 3
