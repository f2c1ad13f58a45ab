"""What `verify` finds in healthy and in damaged stores and bases."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from jobs import command, configured

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.pipeline import fit_config, verify_store
from kpca_stream.results import VerifyReport
from kpca_stream.storage.basis import open_basis, save_basis
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import silent

RNG = np.random.default_rng(7)
X = RNG.standard_normal((200, 4)) * [3.0, 2.0, 1.0, 0.5] + 5.0
BASIS = "models/rows/versions/1/basis.zarr"


def fitted(folder: Path, **changes: Any) -> Path:
    np.save(folder / "train.npy", X)
    fit_config(
        configured(folder, {key.replace("__", "."): value for key, value in changes.items()}), silent()
    )
    return folder


def failed(report: VerifyReport) -> set[str]:
    return {check.name for check in report.checks if not check.ok}


def flip(path: Path, place: int = 60) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 8
    path.write_bytes(content)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def folder(healthy: Path, tmp_path: Path) -> Path:
    for name in ("gram.zarr", "models"):
        shutil.copytree(healthy / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("storage", ["zarr", "recompute", "memory"])
@pytest.mark.parametrize("precision", ["float32", "float64", "mixed"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_healthy_stores_pass(tmp_path: Path, storage: str, precision: str, kernel: str) -> None:
    """Whatever the storage, precision and kernel, a finished store and its basis pass all checks."""
    gamma = None if kernel == "linear" else 0.05
    solver = {"method": "lanczos", "n_components": 3, "precision": precision}
    fitted(tmp_path, gram__storage=storage, kernel={"name": kernel, "gamma": gamma}, solver=solver)
    gram = verify_store(tmp_path / "gram.zarr", silent())
    basis = verify_store(tmp_path / BASIS, silent())
    assert (gram.kind, failed(gram)) == ("gram", set())
    assert (basis.kind, failed(basis)) == ("basis", set())
    assert {check.name for check in gram.checks} >= {"rows", "grand mean", "trace"}
    assert ("row means" in {check.name for check in gram.checks}) == (storage == "zarr")
    assert {check.name for check in basis.checks} == {
        "arrays",
        "orthonormality",
        "centring",
        "residuals",
        "row means",
    }


@pytest.mark.filterwarnings("ignore::kpca_stream.errors.KpcaStreamWarning")
def test_a_nearly_constant_kernel_passes(tmp_path: Path) -> None:
    """Tiles of k − 1 are checked against the means of k itself."""
    fitted(tmp_path, kernel__gamma=1e-9)
    for path in ("gram.zarr", BASIS):
        assert verify_store(tmp_path / path, silent()).ok


def test_a_flipped_bit_in_a_tile_is_named(folder: Path) -> None:
    """A damaged tile fails the checksums, with its place."""
    flip(folder / "gram.zarr/tiles/c/1/2")
    report = verify_store(folder / "gram.zarr", silent())
    assert failed(report) == {"checksums"}
    assert any("first damaged (1, 2)" in check.detail for check in report.checks)


def test_a_missing_tile_is_named(folder: Path) -> None:
    """A tile that is not there is counted and named."""
    (folder / "gram.zarr/tiles/c/0/3").unlink()
    report = verify_store(folder / "gram.zarr", silent())
    assert failed(report) == {"tiles"}
    assert any("9 of 10, first missing (0, 3)" in check.detail for check in report.checks)


@pytest.mark.parametrize(("name", "check"), [("row_means", "row means"), ("diagonal", "row means")])
def test_changed_means_are_found(folder: Path, name: str, check: str) -> None:
    """Row means or a diagonal that do not belong to the tiles fail, though their checksum holds."""
    array = zarr.open_group(folder / "gram.zarr")[name]
    assert isinstance(array, zarr.Array)
    array[5] = float(np.asarray(array[5])) + 1e-3
    assert check in failed(verify_store(folder / "gram.zarr", silent()))


@pytest.mark.parametrize(("name", "check"), [("grand_mean", "grand mean"), ("trace", "trace")])
def test_changed_numbers_are_found(folder: Path, name: str, check: str) -> None:
    """A grand mean or a trace that does not belong to the row means fails by its name."""
    group = zarr.open_group(folder / "gram.zarr")
    group.attrs[name] = float(str(group.attrs[name])) * 1.01
    assert failed(verify_store(folder / "gram.zarr", silent())) == {check}


@pytest.mark.parametrize("path", ["row_means/c/0", "diagonal/c/0", "row_means/zarr.json"])
def test_means_that_cannot_be_read_are_told(folder: Path, path: str) -> None:
    """Damaged means fail a check instead of ending the command."""
    flip(folder / "gram.zarr" / path)
    report = verify_store(folder / "gram.zarr", silent())
    assert failed(report) <= {"means", "row means", "trace", "grand mean"}
    assert not report.ok


def test_damaged_stored_rows_are_told(tmp_path: Path) -> None:
    """Rows of the store with a flipped bit fail their check."""
    np.savetxt(tmp_path / "train.csv", X, delimiter=",")
    fitted(tmp_path, data={"train": {"path": str(tmp_path / "train.csv")}})
    assert verify_store(tmp_path / "gram.zarr", silent()).ok
    flip(next(path for path in (tmp_path / "gram.zarr/rows/c").rglob("*") if path.is_file()))
    assert failed(verify_store(tmp_path / "gram.zarr", silent())) == {"rows"}


@pytest.mark.parametrize("name", ["rows", "coefficients"])
def test_a_flipped_bit_in_a_basis_is_told(folder: Path, name: str) -> None:
    """A basis whose large arrays are damaged fails, and names the check."""
    flip(next(path for path in (folder / BASIS / name / "c").rglob("*") if path.is_file()))
    assert failed(verify_store(folder / BASIS, silent())) == {"arrays"}


@pytest.mark.parametrize(
    ("name", "checks"),
    [("coefficients", {"orthonormality", "centring", "residuals"}), ("row_means", {"row means"})],
)
def test_numbers_that_do_not_belong_together_are_found(folder: Path, name: str, checks: set[str]) -> None:
    """A basis saved with other coefficients or means fails what the mathematics says of them."""
    basis = open_basis(folder / BASIS)
    values = np.array(basis.coefficients.load() if name == "coefficients" else basis.row_means)
    values[7] += 1e-3
    changed = {name: ArrayRows(values) if name == "coefficients" else values}
    save_basis(replace(basis, **changed), folder / "changed.zarr")
    assert failed(verify_store(folder / "changed.zarr", silent())) == checks


def test_of_a_model_the_champion_is_checked(folder: Path) -> None:
    """A model's folder stands for the basis of its champion, which the report names."""
    for path in (folder / "models/rows", folder / "models/rows/versions/1"):
        report = verify_store(path, silent())
        assert (report.path, report.kind, report.ok) == (str(folder / BASIS), "basis", True)


def test_what_is_neither_is_refused(folder: Path) -> None:
    """Another folder and a store without readable attributes are refused by their paths."""
    with pytest.raises(ConfigError, match="neither a run's store nor a basis"):
        verify_store(folder / "models", silent())
    (folder / "gram.zarr/zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"zarr\.json is damaged"):
        verify_store(folder / "gram.zarr", silent())


def test_exit_codes_tell_sound_from_damaged(folder: Path) -> None:
    """The command ends with 0 for sound stores, with 65 for damaged ones, and never with a traceback."""
    assert command(folder, "verify", BASIS).returncode == 0
    flip(folder / "gram.zarr/tiles/c/1/1")
    flip(folder / BASIS / "eigenvalues/c/0", 3)
    for path in ("gram.zarr", BASIS):
        child = command(folder, "verify", path)
        assert child.returncode == 65
        assert "Traceback" not in child.stderr
