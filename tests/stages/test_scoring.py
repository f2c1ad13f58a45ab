"""Row blocks × basis → scores: the same for a row in whatever part it comes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import reference

from kpca_stream import passes
from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.stages.scoring import Written, block, open_like, score_block, score_rows, write_part
from kpca_stream.storage.basis import Basis, BasisAddress, save_basis
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.scores import Label
from kpca_stream.storage.source import open_source

if TYPE_CHECKING:
    from distributed import Client

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2500, 5)) * [4.0, 3.0, 2.0, 1.0, 0.5] + 2.0
X_NEW = RNG.standard_normal((330, 5)) * [4.0, 3.0, 2.0, 1.0, 0.5] + 2.0
LABEL = Label(source="a", model="m", version=1)
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def fitted(spec: KernelSpec, dtype: str = "float64", rows: Any = X) -> Basis:
    return fit(
        open_source(rows.astype(dtype)), FitSettings(kernel=spec, n_components=5, precision=dtype)
    ).basis  # type: ignore[arg-type]


def in_parts(basis: Basis, rows: Any, part_rows: int) -> Any:
    blocks = [rows[i : i + part_rows] for i in range(0, len(rows), part_rows)]
    return [score_block(basis, ArrayRows(block)) for block in blocks]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "spec",
    [
        KernelSpec("linear"),
        KernelSpec("rbf", 0.05),
        KernelSpec("laplacian", 0.05),
        KernelSpec("poly", 0.1, 2, 1.0),
        KernelSpec("cosine"),
    ],
    ids=lambda spec: spec.name,
)
def test_a_rows_score_does_not_depend_on_its_part(spec: KernelSpec, dtype: str) -> None:
    """All at once, in parts of any size and one by one, a row gets the same scores and errors."""
    basis, rows = fitted(spec, dtype), X_NEW.astype(dtype)
    with single_threaded_blas():
        whole = score_block(basis, ArrayRows(rows))
        scale = np.abs(whole.scores).max(axis=0)
        for part_rows in (1, 7, 60, 128, 329):
            parts = in_parts(basis, rows[:60] if part_rows == 1 else rows, part_rows)
            scores = np.concatenate([part.scores for part in parts])
            assert (np.abs(scores - whole.scores[: len(scores)]) / scale).max() <= TOLERANCE[dtype]
            novel = np.concatenate([part.novelty for part in parts])
            assert (novel != whole.novelty[: len(novel)]).sum() <= (dtype == "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_rows_score_does_not_depend_on_its_part_for_a_large_basis(dtype: str) -> None:
    """Neither does it against 12,000 training rows that are all alike to each other."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12_000, 8))
    basis = fitted(KernelSpec("rbf", 0.02), dtype, rows)
    new = rng.standard_normal((700, 8)).astype(dtype)
    with single_threaded_blas():
        whole = score_block(basis, ArrayRows(new)).scores
        for part_rows in (1, 60, 513):
            parts = in_parts(basis, new[:40] if part_rows == 1 else new, part_rows)
            scores = np.concatenate([part.scores for part in parts])
            difference = np.abs(scores - whole[: len(scores)]) / np.abs(whole).max(axis=0)
            assert difference.max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly"])
def test_scores_and_errors_are_those_of_the_definition(name: str) -> None:
    """Scores and reconstruction errors agree with the formulas written out, up to the sign of a component."""
    rows, new = X[:200], X_NEW[:50]
    spec = KernelSpec(name, 0.05, 2, 1.0)
    numbers: dict[str, Any] = {} if name == "linear" else {"gamma": 0.05, "degree": 2, "coef0": 1.0}
    solution = reference.solve(reference.kernel(name, rows, rows, **numbers), 5)
    k_new = reference.kernel(name, new, rows, **numbers)
    k_self = np.diagonal(reference.kernel(name, new, new, **numbers))
    found = score_block(fitted(spec, rows=rows), ArrayRows(new))
    expected = reference.new_scores(solution, k_new)
    np.testing.assert_allclose(np.abs(found.scores), np.abs(expected), atol=1e-8 * np.abs(expected).max())
    error = reference.reconstruction_error(solution, k_new, k_self)
    np.testing.assert_allclose(found.reconstruction_error, error, atol=1e-8 * k_self.max())
    t2 = (expected**2 / solution.eigenvalues).sum(axis=1) * 199
    np.testing.assert_allclose(found.hotelling_t2, t2, rtol=1e-7)


def test_training_rows_get_their_training_scores() -> None:
    """Scoring the training rows gives √μ·a: mean 0, and squares that add up to the eigenvalues."""
    basis = fitted(KernelSpec("rbf", 0.05))
    scores = score_rows(basis, ArrayRows(X)).scores
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(
        scores.T @ scores, np.diag(basis.eigenvalues), atol=1e-5 * basis.eigenvalues[0]
    )


def test_many_blocks_are_joined_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows scored in many tasks come back in their order, and none is missing."""
    basis = fitted(KernelSpec("rbf", 0.05))
    expected = score_rows(basis, ArrayRows(X_NEW))
    monkeypatch.setattr(block, "BLOCK_ROWS", 32)
    found = score_rows(basis, ArrayRows(X_NEW))
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-11)
    np.testing.assert_allclose(found.reconstruction_error, expected.reconstruction_error, atol=1e-11)
    assert len(found.novelty) == len(X_NEW)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_rows", [330, 1_500, 9_000])
def test_rows_get_equal_bits_from_any_number_of_workers(n_rows: int, dtype: str) -> None:
    """However many workers rows are spread over, their scores and errors have the same bits."""
    basis = fitted(KernelSpec("rbf", 0.05), dtype)
    rows = np.random.default_rng(5).standard_normal((n_rows, 5)).astype(dtype)
    with single_threaded_blas():
        found = []
        for n_workers in (1, 2, 3, 7):
            with connect("threads", n_workers=n_workers):
                found.append(score_rows(basis, ArrayRows(rows)))
    for other in found[1:]:
        np.testing.assert_array_equal(other.scores, found[0].scores)
        np.testing.assert_array_equal(other.reconstruction_error, found[0].reconstruction_error)


@pytest.fixture
def address(tmp_path: Path) -> BasisAddress:
    save_basis(fitted(KernelSpec("rbf", 0.05)), tmp_path / "basis.zarr")
    return BasisAddress.of(tmp_path / "basis.zarr", 10**9)


def call(
    address: BasisAddress, source: Any, path: Path, on_missing: str = "error", first_row: int = 0
) -> Any:
    return write_part(address, source, first_row, path, Written(label=LABEL, on_missing=on_missing))


def test_a_part_holds_rows_scores_and_novelty(address: BasisAddress, tmp_path: Path) -> None:
    """A written part holds what scoring in memory gives, with the rows' positions in the whole input."""
    source = open_source(X_NEW)
    found = call(address, source.part(100, 330), tmp_path / "p.parquet", first_row=100)
    frame = pd.read_parquet(tmp_path / "p.parquet")
    expected = score_block(address.open(), ArrayRows(X_NEW[100:]))
    assert frame["row"].tolist() == list(range(100, 330))
    np.testing.assert_allclose(frame[[f"kpca_{j}" for j in range(5)]], expected.scores, atol=1e-11)
    np.testing.assert_allclose(frame["reconstruction_error"], expected.reconstruction_error, atol=1e-11)
    np.testing.assert_allclose(frame["hotelling_t2"], expected.hotelling_t2, rtol=1e-9)
    assert found[:2] == (230, int(expected.novelty.sum()))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_missing_value_is_named_and_nothing_written(
    address: BasisAddress, tmp_path: Path, value: float
) -> None:
    """A row that is not finite gives an error with file, row and column, and no part."""
    rows = X_NEW.copy()
    rows[217, 3] = value
    np.save(tmp_path / "in.npy", rows)
    (tmp_path / "out").mkdir()
    found = call(address, open_source(tmp_path / "in.npy").part(100, 330), tmp_path / "out" / "p.parquet")
    assert isinstance(found, DataError)
    assert "in.npy" in str(found)
    assert "row 217" in str(found)
    assert "column '3'" in str(found)
    assert list((tmp_path / "out").iterdir()) == []


def test_dropped_rows_leave_the_numbers_of_the_others(address: BasisAddress, tmp_path: Path) -> None:
    """With on_missing drop each kept row keeps its position in the input, and its score."""
    rows = X_NEW.copy()
    rows[[0, 5, 328], 1] = np.nan
    found = call(address, open_source(rows).part(3, 330), tmp_path / "p.parquet", "drop", first_row=3)
    frame = pd.read_parquet(tmp_path / "p.parquet")
    assert frame["row"].tolist() == [row for row in range(3, 330) if row not in (5, 328)]
    expected = score_block(address.open(), ArrayRows(X_NEW[frame["row"]])).scores
    np.testing.assert_allclose(frame["kpca_0"], expected[:, 0], atol=1e-11)
    assert found.n_rows == 325


def test_a_part_may_lose_all_its_rows(address: BasisAddress, tmp_path: Path) -> None:
    """A part of which every row is dropped is written, without rows."""
    assert call(address, open_source(X_NEW * np.nan), tmp_path / "p.parquet", "drop")[:2] == (0, 0)
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 0


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (KernelSpec("poly", 1.0, 3, 1.0), 1e300),
        (KernelSpec("poly", 1.0, 5, 1.0), 9.969209968386869e36),  # what netCDF fills with
        (KernelSpec("linear"), 1e200),
    ],
    ids=["scores", "poly", "linear"],
)
def test_what_overflows_is_refused_by_row(spec: KernelSpec, value: float, tmp_path: Path) -> None:
    """A row whose scores, or only their squares, overflow is named, and nothing infinite or NaN written."""
    save_basis(fitted(spec), tmp_path / "b")
    rows = X_NEW.copy()
    rows[4] = value
    found = call(BasisAddress.of(tmp_path / "b", 10**9), open_source(rows), tmp_path / "p.parquet")
    assert isinstance(found, DataError)
    assert f"row 4: kernel {spec.name} gives infinite" in str(found)


def test_rows_with_the_columns_of_the_basis_are_found_by_name(tmp_path: Path) -> None:
    """Columns in another order and with others beside them are found by name; a missing one is named."""
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame.to_parquet(tmp_path / "train.parquet")
    basis = fit(open_source(tmp_path / "train.parquet"), FitSettings(n_components=2)).basis
    more = pd.DataFrame(X_NEW, columns=list("abcde"))[list("edcba")].assign(text="x", other=0.0)
    more.to_parquet(tmp_path / "new.parquet")
    source = open_like(str(tmp_path / "new.parquet"), None, basis, chosen=False)
    np.testing.assert_array_equal(np.concatenate(list(source.blocks(0, 330))), X_NEW)
    more.drop(columns="c").to_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match="no column 'c'"):
        open_like(str(tmp_path / "fewer.parquet"), None, basis, chosen=False)
    np.save(tmp_path / "new.npy", X_NEW)
    with pytest.raises(DataError, match="no column 'a'"):
        open_like(str(tmp_path / "new.npy"), None, basis, chosen=False)


def test_rows_without_names_must_have_as_many_columns(tmp_path: Path) -> None:
    """A basis of unnamed columns takes rows of the same number, unless columns were chosen."""
    np.save(tmp_path / "wide.npy", np.hstack([X_NEW, X_NEW]))
    basis = fitted(KernelSpec("linear"))
    with pytest.raises(DataError, match="got 10 columns of numbers, expected 5"):
        open_like(str(tmp_path / "wide.npy"), None, basis, chosen=False)
    source = open_like(str(tmp_path / "wide.npy"), "10:", basis, chosen=True)
    np.testing.assert_array_equal(np.concatenate(list(source.blocks(0, 320))), X_NEW[10:])


@pytest.mark.cluster
def test_threads_and_processes_write_equal_bits(
    address: BasisAddress, tmp_path: Path, two_processes: Client
) -> None:
    """Parts written by two processes hold the same bits as those written by threads."""
    source = open_source(X_NEW)

    def written(folder: str) -> list[pd.DataFrame]:
        (tmp_path / folder).mkdir()
        paths = [tmp_path / folder / f"{a}.parquet" for a in range(0, 330, 60)]
        calls = [
            passes.Call(
                write_part, (address, source.part(a, min(a + 60, 330)), a, path, Written(label=LABEL))
            )
            for a, path in zip(range(0, 330, 60), paths, strict=True)
        ]
        with single_threaded_blas():
            passes.run(calls, lambda _, result: None)
        return [pd.read_parquet(path) for path in paths]

    by_processes = written("processes")
    assert len(two_processes.nthreads()) == 2
    with connect("threads"):
        by_threads = written("threads")
    for one, other in zip(by_processes, by_threads, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
