"""Scores on disk: one Parquet file a part, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpca_stream.storage.scores import Label, PartWriter, label_of, part_name

ROOT = Path(__file__).resolve().parents[2]


LABEL = Label(source="a.csv", model="digits", version=3)


def write(path: Path, blocks: list[int], *, with_error: bool = True) -> None:
    rng = np.random.default_rng(0)
    at = 0
    with PartWriter(path, 2, LABEL) as writer:
        for n_rows in blocks:
            scores = rng.standard_normal((n_rows, 2))
            error = np.abs(scores[:, 0]) if with_error else None
            writer.write(np.arange(at, at + n_rows), scores, error, scores[:, 1] ** 2, scores[:, 0] > 0)
            at += n_rows


def test_a_part_opens_with_pandas(tmp_path: Path) -> None:
    """Pandas reads the columns, their types and all rows in order."""
    write(tmp_path / "a.parquet", [5, 0, 3])
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert list(frame.columns) == [
        "source",
        "row",
        "kpca_0",
        "kpca_1",
        "reconstruction_error",
        "hotelling_t2",
        "novelty",
        "model_version",
    ]
    assert [str(kind) for kind in frame.dtypes] == ["str", "int64", *["float64"] * 4, "bool", "int32"]
    assert set(frame["source"]) == {"a.csv"}
    assert set(frame["model_version"]) == {3}
    assert frame["row"].tolist() == list(range(8))
    assert pq.read_schema(tmp_path / "a.parquet").metadata[b"kpca_stream.version"] == b"3"
    assert label_of(tmp_path / "a.parquet") == LABEL


def test_small_blocks_make_large_row_groups(tmp_path: Path) -> None:
    """Rows written a few at a time lie in row groups of at least 65,536, in order."""
    write(tmp_path / "a.parquet", [3000] * 45)
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        heights = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    assert heights == [66_000, 66_000, 3000]
    assert pd.read_parquet(tmp_path / "a.parquet")["row"].tolist() == list(range(135_000))


def test_columns_are_carried_through(tmp_path: Path) -> None:
    """Columns of any type that are carried through stand behind the row, with their types and values."""
    carried = pa.table({"id": ["a", None], "day": pa.array([1, 2], pa.date32())})
    one = np.ones(2)
    with PartWriter(tmp_path / "a.parquet", 1, LABEL) as writer:
        writer.write(np.arange(2), one[:, None], one, one, one > 0, carried)
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.column_names[:4] == ["source", "row", "id", "day"]
    assert found.select(["id", "day"]).equals(carried)


def test_an_unknown_error_is_null(tmp_path: Path) -> None:
    """Where the reconstruction error is not known its column is there, and null."""
    write(tmp_path / "a.parquet", [4], with_error=False)
    assert pd.read_parquet(tmp_path / "a.parquet")["reconstruction_error"].isna().all()


@pytest.mark.parametrize("written", [0, 1])
def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path, written: int) -> None:
    """Neither the part nor a leftover is there after an error, before or after the first rows."""

    def stopped() -> None:
        one = np.ones(1)
        with PartWriter(tmp_path / "a.parquet", 1, LABEL) as writer:
            for _ in range(written):
                writer.write(np.arange(1), one[:, None], one, one, one > 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stopped()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_part(tmp_path: Path) -> None:
    """After kill -9 in the middle of a part there is no file under its name."""
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from kpca_stream.storage.scores import Label, PartWriter\n"
        "label = Label(source='a', model='b', version=1)\n"
        "with PartWriter(Path(sys.argv[1]), 1, label) as writer:\n"
        "    one = np.ones(1); writer.write(np.arange(1), one[:, None], one, one, one > 0)\n"
        "    print('written', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "a.parquet")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline().strip() == b"written"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert not (tmp_path / "a.parquet").exists()
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    write(tmp_path / "a.parquet", [2])
    assert len(pd.read_parquet(tmp_path / "a.parquet")) == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", None])
def test_a_file_of_somebody_else_has_no_label(tmp_path: Path, content: bytes | None) -> None:
    """A damaged file, or one that another program wrote, is not taken for one of these scores."""
    path = tmp_path / "a.parquet"
    pd.DataFrame({"x": [1]}).to_parquet(path) if content is None else path.write_bytes(content)
    assert label_of(path) is None


def test_a_name_tells_input_model_version_and_fit_apart() -> None:
    """The same part and version give the same name, any other one another name, safe as a file's."""
    name = part_name("in/rows 1.csv", "in/rows 1.csv 17 bytes", "digits", 2, "f")
    assert name == part_name("in/rows 1.csv", "in/rows 1.csv 17 bytes", "digits", 2, "f")
    assert name.startswith("in-rows-1-csv-v2-")
    others = {
        part_name("in/rows 1.csv", "in/rows 1.csv 18 bytes", "digits", 2, "f"),
        part_name("in/rows 1.csv", "in/rows 1.csv 17 bytes", "letters", 2, "f"),
        part_name("in/rows 1.csv", "in/rows 1.csv 17 bytes", "digits", 3, "f"),
        part_name("in/rows 1.csv", "in/rows 1.csv 17 bytes", "digits", 2, "g"),
    }
    assert len(others | {name}) == 5
    assert len(part_name("x" * 1000, "", "m", 1, "f")) < 120
