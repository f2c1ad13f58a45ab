"""CSV as it comes: headers, quotes, blanks, line ends."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.source import open_source
from kpca_stream.storage.sources import lines, table
from kpca_stream.storage.sources.lines import index_lines


def read(path: Path, text: str, **options: Any) -> tuple[tuple[str, ...], NDArray[Any]]:
    path.write_bytes(text.encode())
    source = open_source(path, **options)
    return source.columns, np.concatenate(list(source.blocks(0, source.n_samples)))


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]]),
        ("a,b\r\n1,2\r\n3,4", ("a", "b"), [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", ("0", "1"), [[1, 2], [3, 4]]),
        ("\ufeff1,2\n3,4\n", ("0", "1"), [[1, 2], [3, 4]]),
        ("\ufeffa,b\n3,4\n", ("a", "b"), [[3, 4]]),
        ("\n\na,b\n\n1,2\n\r\n3,4\n\n", ("a", "b"), [[1, 2], [3, 4]]),
        ("0,1\n3,4\n", ("0", "1"), [[0, 1], [3, 4]]),
        ("0,1,2\n3,4,5\n", ("0", "1", "2"), [[3, 4, 5]]),
        (",a\n0,1\n", ("0", "a"), [[0, 1]]),
        (",0,1,2\n7,3,4,5\n", ("column 0", "0", "1", "2"), [[7, 3, 4, 5]]),
        (",0,1\n,3,4\n", ("0", "1", "2"), [[np.nan, 0, 1], [np.nan, 3, 4]]),
        ("a;b\n1\n2\n", ("a;b",), [[1], [2]]),
        ("a,b\n1,\n,NA\nnan,inf\n", ("a", "b"), [[1, np.nan], [np.nan, np.nan], [np.nan, np.inf]]),
        ("a,b,c\n1,,x\n2,,y\n", ("a", "b"), [[1, np.nan], [2, np.nan]]),
        ('"a","b, ""c"""\n"1", 2.5\n', ("a", 'b, "c"'), [[1, 2.5]]),
        ('n,a\n"x\n\ny",1\n"""\n",2\n5" pipe,3\n', ("a",), [[1], [2], [3]]),
        ("a\n1\n\n2.5\n", ("a",), [[1], [2.5]]),
        ("a,b\n1,2\n3,4.5\n", ("a", "b"), [[1, 2], [3, 4.5]]),
        ("a,b\n1,true\n3,false\n", ("a",), [[1], [3]]),
    ],
)
def test_examples(text: str, columns: tuple[str, ...], expected: list[list[float]], tmp_path: Path) -> None:
    """Header, byte order mark, blank lines, missing values and quotes are read as they are meant."""
    got_columns, got = read(tmp_path / "x.csv", text)
    assert got_columns == columns
    np.testing.assert_array_equal(got, expected)


def test_doubles_come_back_exactly(tmp_path: Path) -> None:
    """The shortest decimal form of a double gives the same double."""
    bits = np.random.default_rng(0).integers(0, 2**63, (300, 3), dtype=np.uint64)
    X = bits.view(np.float64)
    X = np.where(np.isfinite(X), X, 0.0)
    text = "a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    np.testing.assert_array_equal(read(tmp_path / "x.csv", text)[1], X)


cells = st.text(alphabet='ab",\n\r \u00e9', max_size=6)


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=8), end=st.sampled_from(["\n", "\r\n"]))
def test_the_index_agrees_with_the_csv_module(
    rows: list[tuple[str, str]], end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any text in quotes, read in chunks of any size, gives rows and lines as Python's own parser does."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    path = tmp_path / "x.csv"
    path.write_bytes(out.getvalue().encode())
    monkeypatch.setattr(lines, "WINDOW_ROWS", 2)
    for chunk_bytes in (1, 3, 2**20):
        monkeypatch.setattr(lines, "_CHUNK_BYTES", chunk_bytes)
        with path.open("rb") as file:
            index = index_lines("x", file, 0)
        assert index.n_rows == len(rows)
        for window, start in enumerate(index.starts[:-1]):
            text = path.read_bytes()[start:].decode()
            rest = list(csv.reader(io.StringIO(text, newline="")))
            assert rest == [list(row) for row in rows[2 * window :]]
        with path.open("rb") as file:
            reader = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
            for row in range(len(rows)):
                assert index.line("x", file, row) == reader.line_num + 1
                next(reader)
            assert index.line("x", file, len(rows)) is None


def test_any_range_of_rows(tmp_path: Path) -> None:
    """Rows around the places that the index keeps are read as they lie."""
    n_rows = 2 * table.WINDOW_ROWS + 5
    path = tmp_path / "x.csv"
    path.write_text("note,a\n" + "".join(f'"{"," * (i % 3)}\n",{i}\n' for i in range(n_rows)))
    source = open_source(path)
    for start in (0, 1, table.WINDOW_ROWS - 1, table.WINDOW_ROWS, 2 * table.WINDOW_ROWS):
        for stop in (start + 1, start + 4, n_rows):
            got = np.concatenate(list(source.blocks(start, stop)))
            np.testing.assert_array_equal(got[:, 0], np.arange(start, stop))


@pytest.mark.parametrize(
    ("text", "place", "got"),
    [
        ("a,b\n1,2\n3\n", "x.csv, row 1 (line 3)", "got 1 fields, expected 2"),
        ("a,b\n1,2\n3,4,5\n", "x.csv, row 1 (line 3)", "got 3 fields, expected 2"),
        ("a,b\n1,2\n3,4\n\n5\n", "x.csv, row 2 (line 5)", "got 1 fields, expected 2"),
        ("", "x.csv", "got 0 rows and 0 columns"),
        ("\n\n", "x.csv", "got 0 rows"),
        ("a,b\n", "x.csv", "got 0 rows and 2 columns"),
        ("a,b\rx,2\r", "x.csv", "CR alone"),
        ("a,b\nx,y\n", "x.csv", "only columns of text"),
        ('a,b\n1,2\n"3,4\n5,6\n', "x.csv, row 1 (line 3)", "got 1 fields, expected 2"),
        ("\x00\x01", "x.csv", "got 0 rows"),
    ],
)
def test_faults_are_named_at_opening(text: str, place: str, got: str, tmp_path: Path) -> None:
    """A ragged, empty or textual file is refused in one line that names file, row and what was met."""
    with pytest.raises(DataError) as caught:
        read(tmp_path / "x.csv", text)
    assert place in str(caught.value)
    assert got in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a;b;c\n1.5;2;x\n", "semicolons"),
        ("a;b\n1,5;2,5\n", "semicolons"),
        ("1;2\n3;4\n", "semicolons"),
        ("\t0\t1\n0\t1.5\t2.5\n", "tabs"),
        ("a|b\n\n1|2\n", "bars"),
        ("a b\n1.5 2.5\n", "spaces"),
        ("1.5 2.5", None),
        ("class name\nclass 1\n", None),
    ],
)
def test_another_separator_is_named(text: str, told: str | None, tmp_path: Path) -> None:
    """Fields that are not separated by commas are told by what they are; words with spaces are text."""
    expected = "got 0 rows|columns of text" if told is None else f"x.csv: got fields separated by {told}, exp"
    with pytest.raises(DataError, match=expected):
        read(tmp_path / "x.csv", text)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A file that is not in UTF-8 is refused by its header."""
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe,b\n1,2\n")
    with pytest.raises(DataError, match="no CSV in UTF-8"):
        open_source(tmp_path / "x.csv")


@pytest.mark.parametrize("bad", ["?", "-", "1.2x", "\uff11", "2020-01-01"])
@pytest.mark.parametrize("row", [0, 1, 9])
def test_text_among_numbers_is_not_taken_for_a_column_of_text(bad: str, row: int, tmp_path: Path) -> None:
    """A column of numbers with a slip in it is not left out in silence: the slip is named."""
    lines = [f"{i},{i}.5" for i in range(10)]
    lines[row] = f"1,{bad}"
    with pytest.raises(
        DataError, match=rf"x\.csv, row {row} \(line {row + 2}\), column 'b': got text '{re.escape(bad)}'"
    ):
        read(tmp_path / "x.csv", "\n".join(["a,b", *lines]))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2\n3,x\n", 3),
        ("1,2\r\n3,x\r\n4,5", 2),
        ("\ufeff\n\na,b\n\n1,2\n\r\n3,x\n", 7),
        ('"a\n\r\n",b\n"1","2"\n3,x\n', 5),
        ('n,a,b\n"\n\n",1,2\n"p\r\nq",3,x\n', 5),
        ("a,b\n1,2\r3,x\n", 3),
    ],
)
def test_the_line_of_a_fault_is_that_of_an_editor(text: str, line: int, tmp_path: Path) -> None:
    """Beside a row its line is named, where header, blank lines and line ends in quotes count."""
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    columns = ["b"] if "b" in text else [1]
    with pytest.raises(DataError, match=rf"x\.csv, row 1 \(line {line}\), column '[b1]': got text 'x'"):
        list(open_source(path, columns=columns).blocks(0, 2))


def test_words_with_some_numbers_are_text(tmp_path: Path) -> None:
    """A column of which most values are no numbers is one of text, and left out."""
    cabins = ["C85", "7", "", "B28", "12", "A6"]
    text = "a,cabin\n" + "".join(f"{i},{cabin}\n" for i, cabin in enumerate(cabins))
    assert read(tmp_path / "x.csv", text)[0] == ("a",)


@pytest.mark.parametrize("bad", ["oops", "1_000", "0x10", "--"])
def test_text_far_down_a_column_of_numbers(bad: str, tmp_path: Path) -> None:
    """Text behind many numbers is named by row and column when it is met."""
    row = 70_003
    rows = [f"{i},{i}.5\n" for i in range(80_000)]
    rows[row] = f"1,{bad}\n"
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(rows))
    source = open_source(path)
    assert (
        sum(len(block) for block in source.part(0, table.WINDOW_ROWS).blocks(0, table.WINDOW_ROWS)) == 65_536
    )
    with pytest.raises(DataError) as caught:
        list(source.blocks(0, source.n_samples))
    assert str(caught.value).startswith(
        f"x.csv, row {row} (line {row + 2}), column 'b': got text '{bad}', expected a number"
    )


def test_every_column_has_a_name_of_its_own(tmp_path: Path) -> None:
    """A column without a name is called by its position, unless another one is: so each can be asked for."""
    rows = np.arange(12.0).reshape(3, 4)
    for header, names in ((",0,1,2", ("column 0", "0", "1", "2")), (",a,b,c", ("0", "a", "b", "c"))):
        text = "\n".join([header, *(",".join(map(str, row)) for row in rows)])
        (tmp_path / "rows.csv").write_text(text)
        assert open_source(tmp_path / "rows.csv").columns == names
        again = open_source(tmp_path / "rows.csv", columns=names)
        np.testing.assert_array_equal(np.concatenate(list(again.blocks(0, 3))), rows)
