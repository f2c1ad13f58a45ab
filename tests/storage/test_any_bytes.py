"""Any bytes under any name: the right rows or one clean line, never a traceback."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.source import open_source
from tests.tables import WRITERS

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((50, 3))
NULLS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"} | {
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
}  # fmt: skip

# Zarr tells of folders that it does not know, NumPy of headers in an old form: no faults.
pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
    pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning"),
]
every_kind = pytest.mark.parametrize("kind", WRITERS)
positions = st.integers(0, 2**20)


def rows_or_none(path: Path) -> Array | None:
    """All rows; None where the file is refused in one line that names it."""
    message = ""
    try:
        source = open_source(path)
        rows = np.concatenate(list(source.blocks(0, source.n_samples)))
    except (DataError, ConfigError) as error:
        message = str(error)
    if message:
        assert path.name in message
        assert "\n" not in message
        return None
    assert rows.shape == (source.n_samples, source.n_features)
    assert rows.dtype == source.dtype
    return rows


def file_of(path: Path) -> Callable[[int], Path]:
    """Chooses a file of those that the data consist of."""
    files = [file for file in sorted([path, *path.rglob("*")]) if file.is_file()]
    return lambda number: files[number % len(files)]


@pytest.fixture
def whole(kind: str, tmp_path: Path) -> tuple[Path, dict[Path, bytes]]:
    path = WRITERS[kind](tmp_path, X)
    return path, {file: file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()}


@every_kind
@given(content=st.binary(max_size=300), n_kept=st.integers(0, 40), which=positions)
def test_bytes_that_begin_like_a_file(
    content: bytes, n_kept: int, which: int, whole: tuple[Path, dict[Path, bytes]]
) -> None:
    """A file's first bytes with anything behind them, or only anything, is refused unless it is a table."""
    path, contents = whole
    file = file_of(path)(which)
    file.write_bytes(contents[file][:n_kept] + content)
    rows = rows_or_none(path)
    assert rows is None or path.suffix in {".csv", ".zarr"}
    file.write_bytes(contents[file])


@every_kind
@given(where=positions, which=positions)
def test_files_that_end_early(where: int, which: int, whole: tuple[Path, dict[Path, bytes]]) -> None:
    """A file that was cut anywhere is refused; of a CSV file rows are read, which look whole."""
    path, contents = whole
    file = file_of(path)(which)
    file.write_bytes(contents[file][: where % len(contents[file])])
    rows = rows_or_none(path)
    assert rows is None or path.suffix == ".csv"
    if rows is not None:
        np.testing.assert_array_equal(rows[:-1], X[: len(rows) - 1])
    file.write_bytes(contents[file])


@every_kind
@given(edits=st.lists(st.tuples(positions, st.integers(0, 255)), min_size=1, max_size=4), which=positions)
def test_bytes_that_were_changed(
    edits: list[tuple[int, int]], which: int, whole: tuple[Path, dict[Path, bytes]]
) -> None:
    """Some changed bytes give a clean error or a table that is what it says, and never end the process."""
    path, contents = whole
    file = file_of(path)(which)
    changed = bytearray(contents[file])
    for position, value in edits:
        changed[position % len(changed)] = value
    file.write_bytes(changed)
    rows_or_none(path)
    file.write_bytes(contents[file])


@pytest.mark.parametrize("kind", ["hdf5", "parquet"])
@given(where=positions, change=st.integers(1, 255))
def test_checksums_are_looked_at(
    where: int, change: int, kind: str, whole: tuple[Path, dict[Path, bytes]]
) -> None:
    """Where a file carries checksums of its values, no changed byte of these gives other values."""
    path, contents = whole
    content = bytearray(contents[path])
    start, stop = values_in(kind, path)
    content[start + where % (stop - start)] ^= change
    path.write_bytes(content)
    rows = rows_or_none(path)
    assert rows is None or np.array_equal(rows, X)
    path.write_bytes(contents[path])


def values_in(kind: str, path: Path) -> tuple[int, int]:
    """First byte and end of the values of a file, or of one column of it."""
    if kind == "hdf5":
        with h5py.File(path) as file:
            chunk = file["group/x"].id.get_chunk_info(0)
            return chunk.byte_offset, chunk.byte_offset + chunk.size
    column = pq.read_metadata(path).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    return start, start + column.total_compressed_size


cells = st.one_of(
    st.sampled_from(sorted(NULLS)),
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.text(alphabet='ab",\n\r 0.1e-+', max_size=4),
)


def tables_of(width: int) -> st.SearchStrategy[list[tuple[str, ...]]]:
    return st.lists(st.tuples(*[cells] * width), min_size=1, max_size=6)


@given(
    rows=st.integers(1, 4).flatmap(tables_of),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=300)
def test_any_table_as_csv(rows: list[tuple[str, ...]], quoting: Any, end: str, tmp_path: Path) -> None:
    """What Python's csv module writes gives the numbers that it reads back, or is refused."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=quoting, lineterminator=end)
    names = [f"c{position}" for position in range(len(rows[0]))]
    writer.writerows([names, *rows])
    path = tmp_path / "x.csv"
    path.write_bytes(out.getvalue().encode())
    got = rows_or_none(path)
    if got is None:
        return
    source = open_source(path)
    lines = csv.reader(io.StringIO(out.getvalue(), newline=""))
    _, *filled = (line for line in lines if line)
    expected = [[number(line[names.index(name)]) for name in source.columns] for line in filled]
    np.testing.assert_array_equal(got, expected)


def number(cell: str) -> float:
    return float("nan") if cell in NULLS else float(cell)
