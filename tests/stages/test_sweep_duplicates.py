"""Rows that occur more than once, merged during the one look at all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.cluster import connect
from kpca_stream.errors import ConfigError
from kpca_stream.numerics.duplicates import Merging
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.storage.rows import ArrayRows, NpyRows
from kpca_stream.storage.source import open_source

Array = NDArray[Any]
TRUE = Merging(2**28, gives_up=False)
AUTO = Merging(2**28, gives_up=True)
KINDS = ["x.npy", "x.zarr", "x.parquet", "x.csv"]


@pytest.fixture(scope="module", name="X")
def few_levels() -> Array:
    """Rows of 125 kinds, (140000, 3)."""
    return np.random.default_rng(0).integers(0, 5, (140_000, 3)) / 2.0


@pytest.fixture(scope="module")
def files(X: Array, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("levels")
    table = pa.table({str(j): X[:, j] for j in range(X.shape[1])})
    np.save(folder / "x.npy", X)
    zarr.create_array(folder / "x.zarr", data=X, chunks=(9_999, 2))
    pq.write_table(table, folder / "x.parquet", row_group_size=90_000)
    pacsv.write_csv(table, folder / "x.csv")
    return {name: folder / name for name in KINDS}


@pytest.fixture
def store(tmp_path: Path) -> zarr.Group:
    return zarr.open_group(tmp_path / "store.zarr", mode="w")


def bits(found: Sweep) -> tuple[Any, ...]:
    arrays = (found.moments.mean, found.moments.m2, found.sample, found.rows.load())
    weights = None if found.weights is None else found.weights.tobytes()
    return found.n_samples, found.n_seen, found.fingerprint, weights, *(a.tobytes() for a in arrays)


def test_distinct_rows_and_their_counts(X: Array, store: zarr.Group) -> None:
    """Rows are the distinct ones in the order of their first copies, weights their counts."""
    found, plain = sweep(open_source(X), seed=1, store=store, merging=AUTO), sweep(open_source(X), seed=1)
    values, firsts, counts = np.unique(X, axis=0, return_index=True, return_counts=True)
    order = np.argsort(firsts)
    np.testing.assert_array_equal(found.rows.load(), values[order])
    np.testing.assert_array_equal(found.weights, counts[order])
    assert (found.n_samples, found.n_distinct, found.n_seen, found.n_dropped) == (125, 125, 140_000, 0)
    np.testing.assert_array_equal(found.sample, plain.sample)
    np.testing.assert_array_equal(found.moments.m2, plain.moments.m2)
    whole = sweep(open_source(X), seed=1, store=store.create_group("whole"))
    assert found.fingerprint == whole.fingerprint
    assert (whole.n_distinct, whole.weights) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_equal_bits(
    kind: str, files: dict[str, Path], X: Array, store: zarr.Group
) -> None:
    """The format and its chunks change nothing, nor does a store."""
    expected = bits(sweep(open_source(X), seed=1, store=store.create_group("memory"), merging=AUTO))
    assert bits(sweep(open_source(files[kind]), seed=1, store=store, merging=AUTO)) == expected
    alone = bits(sweep(open_source(files[kind]), seed=1, merging=AUTO))
    assert alone[3:] == expected[3:]


def test_dropped_rows_do_not_count(X: Array) -> None:
    """Rows with missing values are merged with nothing."""
    Y = X[:70_000].copy()
    Y[[0, 5, 66_000], 1] = np.nan
    found = sweep(open_source(Y), seed=1, on_missing="drop", merging=TRUE)
    expected = sweep(open_source(Y[np.isfinite(Y).all(axis=1)]), seed=1, merging=TRUE)
    np.testing.assert_array_equal(found.rows.load(), expected.rows.load())
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert (found.n_seen, found.n_dropped) == (69_997, 3)


def test_merging_is_given_up_beyond_half(tmp_path: Path, store: zarr.Group) -> None:
    """Rows more than half of which are distinct are used where they lie, unless they have to be merged."""
    X = np.repeat(np.arange(600.0), 2)[:, None] * [1, 2]
    X[:3] = [[-1, 0], [-2, 0], [-3, 0]]
    np.save(tmp_path / "x.npy", X)
    found = sweep(open_source(tmp_path / "x.npy"), seed=0, store=store, merging=AUTO)
    assert isinstance(found.rows, NpyRows)
    assert (found.n_samples, found.n_distinct, found.weights) == (1200, None, None)
    assert sweep(open_source(X), seed=0, merging=TRUE).n_distinct == 602
    assert sweep(open_source(X[4:]), seed=0, merging=AUTO).n_distinct == 598


def test_the_first_windows_decide() -> None:
    """Merging is given up at the end of the window where distinct rows pass half, whatever comes later."""
    distinct = np.arange(3 * 65_536.0).reshape(-1, 3) + 10
    late = np.concatenate([distinct, np.repeat(distinct[:1], 500_000, axis=0)])
    assert sweep(open_source(late), seed=0, merging=AUTO).n_distinct is None
    early = np.concatenate([late[65_536:], distinct])
    assert sweep(open_source(early), seed=0, merging=AUTO).n_distinct == 65_536


@pytest.mark.parametrize("merging", [AUTO, Merging(60_000, gives_up=False)], ids=["many", "large"])
def test_rows_are_whole_where_merging_ends_late(
    merging: Merging, X: Array, tmp_path: Path, store: zarr.Group
) -> None:
    """Given up after some windows, all rows are there as if nothing had been tried."""
    late = np.concatenate([X[:70_000], np.arange(300_000.0).reshape(-1, 3)]).astype(np.float32)
    pq.write_table(pa.table({str(j): late[:, j] for j in range(3)}), tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    expected = bits(sweep(source, seed=0, store=store.create_group("plain")))
    assert bits(sweep(source, seed=0, store=store, merging=merging)) == expected


def test_a_refusal_is_raised_as_soon_as_merging_ends(store: zarr.Group) -> None:
    """Where the rows cannot be used unmerged, the look ends after the window that tells it."""
    X, told = np.random.default_rng(0).standard_normal((400_000, 2)), []
    refused = Merging(2**28, gives_up=True, refusal=ConfigError("too many"))
    with pytest.raises(ConfigError, match="too many"):
        sweep(
            open_source(X),
            seed=0,
            store=store,
            merging=refused,
            claimed=lambda *_: None,
            progress=lambda done, _: told.append(done),
        )
    assert told == []
    assert list(store.keys()) == []
    large = Merging(8 * 16, gives_up=False, refusal=ConfigError("too large"))
    with pytest.raises(ConfigError, match="too large"):
        sweep(open_source(X[:9]), seed=0, merging=large)
    assert sweep(open_source(X[:9]), seed=0, merging=Merging(9 * 16, gives_up=False)).n_samples == 9


@pytest.mark.parametrize("X", [np.ones((1000, 2)), np.arange(20.0).reshape(-1, 2)], ids=["one", "all"])
def test_nothing_is_merged_to_one_row_or_without_copies(X: Array) -> None:
    """Rows that are all the same, or all different, stay as they are."""
    found = sweep(open_source(X), seed=0, merging=TRUE)
    assert isinstance(found.rows, ArrayRows)
    assert np.shares_memory(found.rows.array, X)
    assert found.n_distinct is None


def test_merged_rows_of_before_are_not_written_again(
    files: dict[str, Path], store: zarr.Group, tmp_path: Path
) -> None:
    """A store in use is told the number of distinct rows, and keeps those that it has."""
    written, claims = [], []
    for _ in range(2):
        found = sweep(
            open_source(files["x.npy"]),
            seed=0,
            store=store,
            merging=AUTO,
            claimed=lambda *claim: claims.append(claim),
        )
        chunk = tmp_path / "store.zarr" / "rows" / "c" / "0" / "0"
        written.append((bits(found), chunk.stat().st_mtime_ns))
    assert written[0] == written[1]
    assert claims == [(found.fingerprint, 125)] * 2


def test_weights_add_up_or_stay(X: Array) -> None:
    """Weights that are given are summed where rows are merged, and handed on where they are not."""
    weights = np.random.default_rng(1).uniform(0.1, 3, len(X))
    found = sweep(open_source(X), seed=0, merging=AUTO, weights=weights)
    assert found.weights is not None
    for row in (0, 60, 124):
        copies = (found.rows.load()[row] == X).all(axis=1)
        assert found.weights[row] == pytest.approx(weights[copies].sum(), rel=1e-12)
    assert sweep(open_source(X), seed=0, weights=weights).weights is weights
    with pytest.raises(ConfigError, match="got some where rows may be dropped"):
        sweep(open_source(X), seed=0, on_missing="drop", weights=weights)


def test_any_number_of_threads_gives_equal_bits(files: dict[str, Path]) -> None:
    """One thread and four give the same bits."""
    found = []
    for n_workers in (1, 4):
        with connect("threads", n_workers=n_workers):
            found.append(bits(sweep(open_source(files["x.csv"]), seed=0, merging=AUTO)))
    assert found[0] == found[1]


@pytest.mark.cluster
def test_two_processes_give_the_bits_of_threads(files: dict[str, Path], X: Array, tmp_path: Path) -> None:
    """Merged rows and weights, in memory and in a store, are the same on threads and on two processes."""
    found: dict[Literal["threads", "local"], list[tuple[Any, ...]]] = {"threads": [], "local": []}
    weights = np.random.default_rng(1).uniform(0.1, 3, len(X))
    for kind, results in found.items():
        with connect(kind, n_workers=2):
            for path in files.values():
                group = zarr.open_group(tmp_path / f"{kind}.zarr", mode="w")
                results.append(bits(sweep(open_source(path), seed=0, store=group, merging=AUTO)))
                results.append(bits(sweep(open_source(path), seed=0, merging=TRUE, weights=weights)))
    assert found["threads"] == found["local"]
