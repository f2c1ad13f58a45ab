"""One look at all rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.cluster import connect
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.sample import position_hashes
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.storage.rows import ArrayRows, NpyRows, ZarrRows
from kpca_stream.storage.source import open_source
from tests.tables import place_of

Array = NDArray[Any]
BAD_ROWS = [3, *range(66_000, 66_500), 70_000, 139_999]


@pytest.fixture(scope="module", name="X")
def whole_rows() -> Array:
    return np.random.default_rng(0).standard_normal((140_000, 3)) * [1, 10, 1e-3] + [0, 1e4, 5]


@pytest.fixture(scope="module")
def holed(X: Array) -> Array:
    Y = X.copy()
    Y[BAD_ROWS, 0] = np.nan
    Y[70_000, :2] = np.inf, np.nan
    Y[139_999, 0], Y[139_999, 2] = 0, -np.inf
    return Y


@pytest.fixture(scope="module")
def files(X: Array, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("whole"), X)


@pytest.fixture(scope="module")
def holed_files(holed: Array, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("holed"), holed)


def write_all(folder: Path, X: Array) -> dict[str, Path]:
    table = pa.table({str(j): X[:, j] for j in range(X.shape[1])})
    np.save(folder / "x.npy", X)
    zarr.create_array(folder / "x.zarr", data=X, chunks=(9_999, 2))
    pq.write_table(table, folder / "x.parquet", row_group_size=90_000)
    pacsv.write_csv(table, folder / "x.csv")
    pa.feather.write_feather(table, folder / "x.feather", chunksize=50_001)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(9_999, 2))
    (folder / "parts").mkdir()
    for index, start in enumerate(range(0, len(X), 47_000)):
        np.save(folder / "parts" / f"{index}.npy", X[start : start + 47_000])
    names = ("x.npy", "x.zarr", "x.parquet", "x.csv", "x.feather", "x.h5", "parts")
    return {name: folder / name for name in names}


@pytest.fixture
def store(tmp_path: Path) -> zarr.Group:
    return zarr.open_group(tmp_path / "store.zarr", mode="w")


def bits(found: Sweep) -> tuple[Any, ...]:
    moments = found.moments
    arrays = (moments.mean, moments.m2, moments.minimum, moments.maximum, found.sample, found.rows.load())
    return found.n_samples, found.n_dropped, found.fingerprint, *(array.tobytes() for array in arrays)


KINDS = ["x.npy", "x.zarr", "x.parquet", "x.csv", "x.feather", "x.h5", "parts"]


def test_a_sweep_finds_what_numpy_finds(X: Array, store: zarr.Group) -> None:
    """Moments, sample and rows are those that NumPy gives for the whole matrix."""
    found = sweep(open_source(X), seed=7, store=store)
    assert (found.n_samples, found.n_features, found.n_dropped) == (140_000, 3, 0)
    np.testing.assert_allclose(found.moments.mean, X.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.moments.variance, X.var(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.moments.total_variance, X.var(), rtol=1e-12)
    chosen = np.sort(np.argsort(position_hashes(np.arange(len(X)), 7))[:2000])
    np.testing.assert_array_equal(found.sample, X[chosen])
    np.testing.assert_array_equal(found.rows.load(), X)


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_equal_bits(
    kind: str, files: dict[str, Path], X: Array, store: zarr.Group
) -> None:
    """Fingerprint, moments, sample and rows do not depend on the format or its chunks."""
    expected = sweep(open_source(X), seed=1, store=store.create_group("memory"))
    assert bits(sweep(open_source(files[kind]), seed=1, store=store)) == bits(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_dropped_rows(kind: str, holed_files: dict[str, Path], holed: Array, store: zarr.Group) -> None:
    """Rows with missing or infinite values are left out, and all else is as if they had never been."""
    good = holed[np.isfinite(holed).all(axis=1)]
    found = sweep(open_source(holed_files[kind]), seed=1, on_missing="drop", store=store)
    assert (found.n_samples, found.n_dropped) == (len(good), len(BAD_ROWS))
    assert isinstance(found.rows, ZarrRows)
    np.testing.assert_array_equal(found.rows.load(), good)
    np.testing.assert_allclose(found.moments.variance, good.var(axis=0), rtol=1e-12)
    hashes = position_hashes(np.arange(len(holed)), 1)
    hashes[BAD_ROWS] = 2**64 - 1
    np.testing.assert_array_equal(found.sample, holed[np.sort(np.argsort(hashes)[:2000])])
    in_memory = sweep(open_source(holed_files[kind]), seed=1, on_missing="drop")
    np.testing.assert_array_equal(in_memory.rows.load(), good)


def test_the_fingerprint_is_of_the_values(X: Array, store: zarr.Group) -> None:
    """Same values in another type have the same fingerprint; one bit, one row or another shape, another."""
    whole = X[:70_000].round()

    def mark(array: Array, **options: Any) -> str | None:
        return sweep(open_source(array, **options), seed=0, store=store).fingerprint

    first = mark(whole)
    assert first is not None
    assert mark(whole.astype(np.int64)) == mark(whole.astype(np.float32)) == first
    assert mark(X.round(), rows=":70000") == first
    changed = whole.copy()
    changed[69_999, 2] = np.nextafter(changed[69_999, 2], 9)
    others = [changed, whole[:-1], whole[::-1], whole.reshape(-1, 6), whole[:, ::-1]]
    assert len({first, *map(mark, others)}) == 6


def test_the_fingerprint_knows_one_missing_value(store: zarr.Group) -> None:
    """NaN is the same whatever its bits, but counts where a dropped row stood."""
    X = np.arange(12.0).reshape(6, 2)
    X[2, 0] = np.nan
    Y = X.copy()
    Y.view(np.uint64)[2, 0] ^= 2**63 + 1
    marks = [
        sweep(open_source(Z), seed=0, on_missing="drop", store=store).fingerprint
        for Z in (X, Y, X[[0, 1, 3, 2]])
    ]
    assert marks[0] == marks[1] != marks[2]


def test_rows_are_used_where_they_lie(files: dict[str, Path], X: Array, store: zarr.Group) -> None:
    """Floats in npy and Zarr are not written again, nor are those in memory where there is no store."""
    assert isinstance(sweep(open_source(files["x.npy"]), seed=0, store=store).rows, NpyRows)
    assert "rows" not in store
    rows = sweep(open_source(X), seed=0).rows
    assert isinstance(rows, ArrayRows)
    assert np.shares_memory(rows.array, X)


def test_rows_are_written_in_whole_chunks(X: Array, store: zarr.Group) -> None:
    """Written rows keep the narrow type, in chunks of a power of two rows, each with its checksum."""
    found = sweep(open_source(X.astype(np.int16)[:, :2]), seed=0, store=store)
    array = store["rows"]
    assert isinstance(array, zarr.Array)
    assert array.dtype == np.float32
    assert array.chunks == (8192, 2)
    assert [type(codec).__name__ for codec in array.compressors] == ["Crc32cCodec"]
    np.testing.assert_array_equal(found.rows.load(), X.astype(np.int16)[:, :2])


def test_a_second_sweep_writes_the_same(files: dict[str, Path], store: zarr.Group) -> None:
    """A sweep into a store that holds rows replaces them."""
    first = bits(sweep(open_source(files["x.csv"]), seed=0, store=store))
    sweep(open_source(files["x.csv"], rows=":10"), seed=0, store=store)
    assert bits(sweep(open_source(files["x.csv"]), seed=0, store=store)) == first


def test_rows_of_another_type_are_not_taken_for_these(store: zarr.Group) -> None:
    """Equal values that are cast to other floats have the same fingerprint, but rows of their own."""
    X = np.arange(12).reshape(6, 2)
    found = []
    for dtype in (np.int16, np.int64, np.int16):
        source = open_source(X.astype(dtype))
        found.append(sweep(source, seed=0, store=store, claimed=lambda *_: None))
        assert found[-1].rows.dtype == source.dtype
    assert len({one.fingerprint for one in found}) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[1]"])
def test_a_damaged_description_of_rows_is_named(content: bytes, store: zarr.Group, tmp_path: Path) -> None:
    """Rows of before whose metadata cannot be read are an error that names the file and the remedy."""
    source = open_source(np.arange(12.0).reshape(6, 2))
    sweep(source, seed=0, store=store)
    (tmp_path / "store.zarr" / "rows" / "zarr.json").write_bytes(content)
    with pytest.raises(DataError, match=r"rows/zarr.json is damaged .*--restart"):
        sweep(source, seed=0, store=store, claimed=lambda *_: None)


def test_rows_of_before_are_not_written_again(
    files: dict[str, Path], store: zarr.Group, tmp_path: Path
) -> None:
    """Rows that an earlier look wrote to the end are used as they lie there."""
    written = []
    for _ in range(2):
        found = sweep(open_source(files["x.csv"]), seed=0, store=store, claimed=lambda *_: None)
        chunk = tmp_path / "store.zarr" / "rows" / "c" / "0" / "0"
        written.append((bits(found), chunk.stat().st_mtime_ns))
    assert written[0] == written[1]


def test_small_rows_in_memory_take_no_time() -> None:
    """150 rows in memory are swept in well under a millisecond."""
    source = open_source(np.random.default_rng(0).standard_normal((150, 4)))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        sweep(source, seed=0)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_progress_ends_at_the_total(X: Array) -> None:
    """Progress is told in tasks, up to all of them."""
    told: list[tuple[int, int]] = []
    sweep(open_source(X), seed=0, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_values_are_counted_and_the_first_is_named(
    kind: str, holed_files: dict[str, Path], store: zarr.Group
) -> None:
    """The error has the number of bad rows in the whole source, and place and value of the first."""
    with pytest.raises(DataError) as caught:
        sweep(open_source(holed_files[kind], rows="4:"), seed=0, store=store)
    place = "1.npy, row 19000" if kind == "parts" else place_of(kind, 66_000)
    expected = f"502 rows have missing or infinite values; the first is {place}, column '0': got nan, "
    assert expected in str(caught.value)
    assert "data.on_missing: drop" in str(caught.value)


def test_one_bad_value() -> None:
    """A single infinity is named by its column, with what to do from Python, which has no configuration."""
    X = np.ones((5, 2))
    X[4, 1] = -np.inf
    told = r"1 row has .* first is array, row 4, column '1': got -inf.* or leave such rows out \(in a config"
    with pytest.raises(DataError, match=told):
        sweep(open_source(X), seed=0)


def test_nothing_left(store: zarr.Group) -> None:
    """Where every row has a bad value, dropping leaves nothing, which is an error."""
    for group in (None, store):
        with pytest.raises(DataError, match="in all 3 rows"):
            sweep(open_source(np.full((3, 2), np.nan)), seed=0, on_missing="drop", store=group)


def test_whole_windows_of_bad_rows(store: zarr.Group) -> None:
    """Windows of which nothing is kept leave no trace."""
    X = np.arange(140_000.0)[:, None] * [1.0, -1.0]
    X[:131_072, 1] = np.nan
    for group in (None, store):
        found = sweep(open_source(X), seed=0, on_missing="drop", store=group)
        np.testing.assert_array_equal(found.rows.load(), X[131_072:])


def test_values_whose_squares_overflow() -> None:
    """Finite values that are too large for a variance are refused by column, without a warning."""
    X = np.ones((70_000, 2))
    X[3, 1] = -1e200
    with pytest.raises(DataError, match=r"column '1': got values up to 1e\+200"):
        sweep(open_source(X), seed=0)


def test_an_error_of_the_source_comes_through(tmp_path: Path) -> None:
    """The first text in row order is named, whichever window is read first."""
    rows = [f"{i},{i}\n" for i in range(200_000)]
    for row in (190_000, 100_000, 140_000):
        rows[row] = "1,x\n"
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(rows))
    with pytest.raises(DataError, match=r"x\.csv, row 100000 \(line 100002\), column 'b': got text 'x'"):
        sweep(open_source(tmp_path / "x.csv"), seed=0)


def test_an_unknown_rule_for_missing_values() -> None:
    """Only the two rules are accepted."""
    with pytest.raises(ConfigError, match="got 'fill', expected 'error' or 'drop'"):
        sweep(open_source(np.ones((2, 2))), seed=0, on_missing="fill")  # type: ignore[arg-type]


def test_any_number_of_threads_gives_equal_bits(holed_files: dict[str, Path], store: zarr.Group) -> None:
    """One thread and four give the same bits."""
    found = []
    for n_workers in (1, 4):
        with connect("threads", n_workers=n_workers):
            found.append(
                bits(sweep(open_source(holed_files["x.csv"]), seed=0, on_missing="drop", store=store))
            )
    assert found[0] == found[1]


@pytest.mark.cluster
def test_two_processes_give_the_bits_of_threads(
    holed_files: dict[str, Path], files: dict[str, Path], X: Array, tmp_path: Path
) -> None:
    """Every format, with and without a store, gives equal bits on threads and on two processes."""
    found: dict[Literal["threads", "local"], list[tuple[Any, ...]]] = {"threads": [], "local": []}
    for kind, results in found.items():
        with connect(kind, n_workers=2):
            paths: list[Any] = [X, files["x.npy"], files["x.zarr"], *holed_files.values()]
            for path in paths:
                group = zarr.open_group(tmp_path / f"{kind}.zarr", mode="w")
                source = open_source(path)
                results.append(bits(sweep(source, seed=0, on_missing="drop", store=group)))
                results.append(bits(sweep(source, seed=0, on_missing="drop")))
    assert found["threads"] == found["local"]
