"""Scores on disk: one Parquet file a part, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from kpca_stream.errors import DataError
from kpca_stream.storage.scores import PartWriter, part_name, read_counts

ROOT = Path(__file__).resolve().parents[2]


def write(path: Path, blocks: list[int], *, with_error: bool = True) -> None:
    rng = np.random.default_rng(0)
    at = 0
    with PartWriter(path, 2, {"kpca_stream.version": "3"}) as writer:
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
        "row",
        "kpca_0",
        "kpca_1",
        "reconstruction_error",
        "hotelling_t2",
        "novelty",
    ]
    assert [str(kind) for kind in frame.dtypes] == ["int64", *["float64"] * 4, "bool"]
    assert frame["row"].tolist() == list(range(8))
    assert pq.read_schema(tmp_path / "a.parquet").metadata[b"kpca_stream.version"] == b"3"
    assert read_counts(tmp_path / "a.parquet") == (8, int((frame["kpca_0"] > 0).sum()))


def test_an_unknown_error_is_null(tmp_path: Path) -> None:
    """Where the reconstruction error is not known its column is there, and null."""
    write(tmp_path / "a.parquet", [4], with_error=False)
    assert pd.read_parquet(tmp_path / "a.parquet")["reconstruction_error"].isna().all()


@pytest.mark.parametrize("written", [0, 1])
def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path, written: int) -> None:
    """Neither the part nor a leftover is there after an error, before or after the first rows."""

    def stopped() -> None:
        one = np.ones(1)
        with PartWriter(tmp_path / "a.parquet", 1, {}) as writer:
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
        "from kpca_stream.storage.scores import PartWriter\n"
        "with PartWriter(Path(sys.argv[1]), 1, {}) as writer:\n"
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
    assert read_counts(tmp_path / "a.parquet")[0] == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_a_damaged_part_is_named(tmp_path: Path, content: bytes) -> None:
    """A file that is no whole part is refused by its name, with the remedy."""
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet is damaged .* remove it"):
        read_counts(tmp_path / "a.parquet")


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
