"""The persisted basis: what it keeps, what it refuses."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from kpca_stream.errors import ConfigError, DataError, KpcaStreamError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.resolve import KernelSpec, block_kernel
from kpca_stream.stages.scoring import Scores, score_block, score_rows
from kpca_stream.storage import frozen
from kpca_stream.storage.basis import Basis, BasisAddress, open_basis, save_basis
from kpca_stream.storage.rows import ArrayRows, ZarrRows
from kpca_stream.storage.source import open_source

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).standard_normal((80, 3)) * [3.0, 2.0, 1.0] + 1.0
X_NEW = np.random.default_rng(1).standard_normal((7, 3)) * [3.0, 2.0, 1.0] + 1.0

KERNELS = [
    KernelSpec("linear"),
    KernelSpec("rbf", 0.1),
    KernelSpec("rbf", 1e-6),
    KernelSpec("laplacian", 0.2),
    KernelSpec("poly", 0.3, 2, 1.0),
    KernelSpec("sigmoid", 0.01, 3, 0.5),
    KernelSpec("cosine"),
    KernelSpec("own", function=block_kernel(lambda A, B: (A @ B.T) ** 2)),
]


@block_kernel
def squared(A: Any, B: Any) -> Any:
    return (A @ B.T) ** 2


def of_rows(x: Any, y: Any) -> float:
    return float(x @ y + 1.0) ** 2


def fitted(spec: KernelSpec | None = None, rows: Any = X, **settings: Any) -> Basis:
    asked = FitSettings(kernel=spec or KernelSpec("rbf", 0.1), **{"n_components": 3, **settings})
    return fit(open_source(rows), asked).basis


def assert_same_scores(found: Scores, expected: Scores, tolerance: float = 0.0) -> None:
    scale = np.abs(expected.scores).max(axis=0)
    assert (np.abs(found.scores - expected.scores) <= tolerance * scale).all()
    np.testing.assert_allclose(found.hotelling_t2, expected.hotelling_t2, rtol=1e-9)
    np.testing.assert_array_equal(found.novelty, expected.novelty)
    if expected.reconstruction_error is None:
        assert found.reconstruction_error is None
    else:
        np.testing.assert_allclose(found.reconstruction_error, expected.reconstruction_error, rtol=1e-9)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_basis(fitted(), tmp_path / "basis.zarr")
    return tmp_path / "basis.zarr"


@pytest.mark.parametrize("spec", KERNELS[:-1], ids=lambda spec: f"{spec.name}-{spec.gamma}")
@pytest.mark.filterwarnings("ignore::kpca_stream.errors.KpcaStreamWarning")
def test_a_basis_read_back_scores_as_the_fitted_one(tmp_path: Path, spec: KernelSpec) -> None:
    """For every kernel, saving and opening changes no bit of scores, error, T² and novelty."""
    basis = fitted(spec, on_indefinite="warn")
    save_basis(basis, tmp_path / "b")
    expected = score_block(basis, ArrayRows(X_NEW))
    opened = open_basis(tmp_path / "b")
    assert_same_scores(score_block(opened, ArrayRows(X_NEW)), expected)
    assert_same_scores(score_block(opened.in_memory(), ArrayRows(X_NEW)), expected)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_and_precision_are_kept(tmp_path: Path, dtype: Any, scale: bool) -> None:  # noqa: FBT001
    """Standardised rows and float32 bases come back as they were."""
    basis = fitted(rows=X.astype(dtype), scale=scale)
    save_basis(basis, tmp_path / "b")
    opened = open_basis(tmp_path / "b")
    assert opened.precision == ("float32" if dtype is np.float32 else "float64")
    new = ArrayRows(X_NEW.astype(dtype))
    assert_same_scores(score_block(opened, new), score_block(basis, new))


def test_a_precomputed_kernel_needs_no_rows(tmp_path: Path) -> None:
    """The basis of a given matrix holds no rows, and scores kernel values of new rows with it."""
    K, K_new = X @ X.T, X_NEW @ X.T
    basis = fitted(KernelSpec("precomputed"), rows=K)
    save_basis(basis, tmp_path / "b")
    opened = open_basis(tmp_path / "b")
    assert opened.rows is None
    expected = score_block(fitted(KernelSpec("linear")), ArrayRows(X_NEW))
    found = score_block(opened, ArrayRows(K_new), (X_NEW**2).sum(axis=1))
    np.testing.assert_allclose(np.abs(found.scores), np.abs(expected.scores), rtol=1e-9)
    assert score_block(opened, ArrayRows(K_new)).reconstruction_error is None


@pytest.mark.parametrize("function", [squared, of_rows])
def test_a_kernel_of_ones_own_is_found_again_by_name(tmp_path: Path, function: Callable[..., Any]) -> None:
    """A function at the top of a module is stored by its name, of blocks or of two rows."""
    basis = fitted(KernelSpec("mine", function=function))
    save_basis(basis, tmp_path / "b")
    assert_same_scores(
        score_block(open_basis(tmp_path / "b"), ArrayRows(X_NEW)), score_block(basis, ArrayRows(X_NEW))
    )


def test_a_lambda_cannot_be_saved(tmp_path: Path) -> None:
    """A kernel that cannot be found again is refused, and nothing is left on disk."""
    with pytest.raises(DataError, match="cannot be found again by name"):
        save_basis(fitted(KERNELS[-1]), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_another_process_scores_without_the_training_file(tmp_path: Path) -> None:
    """A basis fitted on a file that is gone opens in a fresh interpreter and gives the same scores."""
    np.save(tmp_path / "rows.npy", X)
    basis = fitted(rows=str(tmp_path / "rows.npy"))
    save_basis(basis, tmp_path / "b")
    expected = score_block(basis, ArrayRows(X_NEW)).scores
    (tmp_path / "rows.npy").unlink()
    code = (
        "import sys, json, numpy as np; from kpca_stream import load_basis;"
        "print(json.dumps(load_basis(sys.argv[1]).transform(np.array(json.loads(sys.argv[2]))).tolist()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "b"), json.dumps(X_NEW.tolist())]
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    np.testing.assert_allclose(np.array(json.loads(child.stdout)), expected, rtol=0, atol=1e-12)


def test_an_unknown_format_version_is_refused(saved: Path) -> None:
    """A basis of a later format is refused by its version, not misread."""
    group = zarr.open_group(saved)
    content = dict(group.attrs["kpca_stream"])  # type: ignore[call-overload]
    group.attrs["kpca_stream"] = {**content, "format_version": 99}
    with pytest.raises(DataError, match="format version 99; expected 1"):
        open_basis(saved)


def test_a_path_without_a_basis_is_refused(tmp_path: Path) -> None:
    """Neither an empty path nor another Zarr group is taken for a basis."""
    with pytest.raises(ConfigError, match="is not a basis"):
        open_basis(tmp_path / "nothing")
    zarr.open_group(tmp_path / "other", mode="w")
    with pytest.raises(DataError, match="is not a basis"):
        open_basis(tmp_path / "other")


def test_a_basis_is_never_overwritten(saved: Path) -> None:
    """A taken path is refused, and what is there stays."""
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="exists"):
        save_basis(fitted(), saved)
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before


def test_files_are_chunks_and_json_only(saved: Path) -> None:
    """A basis holds chunks of numbers and JSON, nothing that is unpickled."""
    names = {path.name for path in saved.rglob("*") if path.is_file()}
    assert all(name == "zarr.json" or name.isdigit() for name in names)
    for path in saved.rglob("zarr.json"):
        json.loads(path.read_text())


def test_a_save_that_fails_leaves_no_basis(tmp_path: Path) -> None:
    """An error while arrays are written leaves nothing under the final name, and the next save succeeds."""
    basis = fitted()

    class Failing(ArrayRows):
        def part(self, start: int, stop: int) -> Failing:  # noqa: ARG002  the protocol's signature
            raise OSError("no space left")

    object.__setattr__(basis, "rows", Failing(X))
    with pytest.raises(OSError, match="no space"):
        save_basis(basis, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    save_basis(fitted(), tmp_path / "b")
    assert open_basis(tmp_path / "b").n_rows == len(X)


def test_a_flipped_bit_in_any_file_is_never_scored_with(saved: Path) -> None:
    """Whichever bit of whichever file flips, the basis is refused, or gives the same scores."""
    expected = score_block(open_basis(saved), ArrayRows(X_NEW))
    rng = np.random.default_rng(5)
    refused = 0
    for path in sorted(path for path in saved.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        places = range(len(whole)) if len(whole) < 40 else rng.integers(0, len(whole), 40)
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << rng.integers(0, 8)
            path.write_bytes(changed)
            try:
                found = score_block(open_basis(saved), ArrayRows(X_NEW))
            except KpcaStreamError:
                refused += 1
            else:
                assert_same_scores(found, expected)
        path.write_bytes(whole)
    assert refused > 300


@pytest.mark.parametrize("change", ["separator", "missing chunk", "cut chunk", "missing array"])
def test_a_changed_folder_is_refused(saved: Path, change: str) -> None:
    """An array's description, a chunk or an array that changed or went missing is named."""
    chunk = saved / "coefficients" / "c" / "0" / "0"
    if change == "separator":
        description = saved / "coefficients" / "zarr.json"
        description.write_text(description.read_text().replace('"separator": "/"', '"separator": "."'))
    elif change == "missing chunk":
        chunk.unlink()
    elif change == "cut chunk":
        chunk.write_bytes(chunk.read_bytes()[:-9])
    else:
        (saved / "coefficients" / "zarr.json").unlink()
    with pytest.raises(DataError, match="coefficients"):
        score_block(open_basis(saved), ArrayRows(X_NEW))


def test_scoring_from_disk_and_from_memory_gives_equal_bits(saved: Path) -> None:
    """An address opens to rows on disk or in memory by the memory allowed, with the same scores."""
    large, small = BasisAddress.of(saved, 10**6).open(), BasisAddress.of(saved, 10).open()
    assert isinstance(large.coefficients, ArrayRows)
    assert isinstance(small.coefficients, ZarrRows)
    assert_same_scores(score_rows(large, ArrayRows(X_NEW)), score_rows(small, ArrayRows(X_NEW)))


def test_an_address_is_opened_once_in_a_process(saved: Path) -> None:
    """Tasks of one process share the basis, until another one lies at the path."""
    address = BasisAddress.of(saved, 10**6)
    assert address.open() is address.open()
    (saved / "zarr.json").touch()
    assert BasisAddress.of(saved, 10**6) != address


def test_wide_rows_are_stored_in_low_chunks(tmp_path: Path) -> None:
    """No chunk of rows passes its bytes, however wide they are."""
    wide = np.random.default_rng(0).standard_normal((300, 20_000))
    save_basis(fitted(KernelSpec("linear"), rows=wide), tmp_path / "b")
    array = zarr.open_group(tmp_path / "b")["rows"]
    assert isinstance(array, zarr.Array)
    assert array.chunks[0] * 20_000 * 8 <= 16 * 2**20


def test_facts_and_names_come_back(saved: Path) -> None:
    """All that a basis says of itself is the same after a round trip."""
    basis, opened = fitted(), open_basis(saved)
    assert opened.columns == ("0", "1", "2")
    assert opened.facts == json.loads(json.dumps(basis.facts))
    for name in ("grand_mean", "reduced_grand_mean", "trace", "n_rows", "total_weight", "precision"):
        assert getattr(opened, name) == getattr(basis, name)
    for name in ("eigenvalues", "row_means", "centring", "explained_variance", "explained_variance_ratio"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(basis, name))
    np.testing.assert_array_equal(opened.thresholds.t2_quantiles, basis.thresholds.t2_quantiles)
    assert opened.thresholds.hotelling_t2 == basis.thresholds.hotelling_t2


def test_weights_are_kept(tmp_path: Path) -> None:
    """A weighted basis scores after a round trip as rows that were repeated do."""
    weights = np.arange(1, 81) % 3 + 1.0
    settings = FitSettings(kernel=KernelSpec("rbf", 0.1), n_components=3)
    save_basis(fit(open_source(X), settings, weights=weights).basis, tmp_path / "b")
    repeated = fitted(rows=np.repeat(X, weights.astype(int), axis=0))
    found = score_block(open_basis(tmp_path / "b"), ArrayRows(X_NEW)).scores
    expected = score_block(repeated, ArrayRows(X_NEW)).scores
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)


def test_a_basis_in_memory_is_made_ready_once(tmp_path: Path) -> None:
    """Rows in memory are made ready for the first row scored and kept; rows on disk are read again."""
    save_basis(fitted(KernelSpec("rbf", 0.1)), tmp_path / "b")
    opened = open_basis(tmp_path / "b")
    held = opened.in_memory()
    assert held.spanning() is held.spanning()
    assert opened.spanning() is not opened.spanning()
    assert_same_scores(score_block(held, ArrayRows(X_NEW)), score_block(opened, ArrayRows(X_NEW)))


def test_what_was_made_ready_does_not_travel() -> None:
    """A basis that has scored is no larger when it is pickled, and a copy scores the same."""
    basis = fitted(KernelSpec("rbf", 0.1))
    before = len(pickle.dumps(basis))
    expected = score_block(basis, ArrayRows(X_NEW))
    assert len(pickle.dumps(basis)) == before
    copy = pickle.loads(pickle.dumps(basis))  # noqa: S301  written by this test
    assert_same_scores(score_block(copy, ArrayRows(X_NEW)), expected)


def test_rows_too_large_to_be_kept_ready_are_scored_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A basis that may not be kept ready is made ready each time, with the same bits."""
    basis = fitted(KernelSpec("rbf", 0.1))
    expected = score_block(basis, ArrayRows(X_NEW))
    monkeypatch.setattr(frozen, "READY_BYTES", 0)
    assert basis.spanning() is not basis.spanning()
    assert_same_scores(score_block(basis, ArrayRows(X_NEW)), expected)
