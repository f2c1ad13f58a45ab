"""Scores read back: in which order, what their footers tell, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage.score_parts import BATCH_ROWS, score_parts
from kpca_stream.storage.scores import Label, PartWriter


def write(path: Path, n_rows: int, *, model: str = "rows", version: int = 3, error: bool = True) -> None:
    rng = np.random.default_rng(len(path.name))
    with PartWriter(path, 2, Label(source="a.npy", model=model, version=version)) as writer:
        for start in range(0, n_rows, 1000):
            Z = rng.standard_normal((min(1000, n_rows - start), 2))
            e = Z[:, 0] ** 2 if error else None
            writer.write(np.arange(start, start + len(Z)), Z, e, Z[:, 1] ** 2, Z[:, 0] > 1)


def test_parts_come_in_the_order_of_writing(tmp_path: Path) -> None:
    """The first written comes first, whatever the names; of equal times, the first by name."""
    for name, written in (("c", 10), ("a", 30), ("b", 20), ("d", 20)):
        write(tmp_path / f"{name}.parquet", 5)
        os.utime(tmp_path / f"{name}.parquet", (written, written))
    assert [part.path.stem for part in score_parts(tmp_path)] == ["c", "b", "d", "a"]


def test_a_part_tells_its_model_its_size_and_its_ranges(tmp_path: Path) -> None:
    """All of it from the footer: the ranges are those of the values, over all row groups."""
    write(tmp_path / "a.parquet", 2500)
    (part,) = score_parts(tmp_path)
    assert (part.model, part.version, part.n_rows, part.n_components) == ("rows", 3, 2500, 2)
    for name in ("kpca_0", "kpca_1", "reconstruction_error", "hotelling_t2"):
        values = np.concatenate([batch[name] for batch in part.batches([name])])
        assert len(values) == 2500
        assert part.ranges[name] == (values.min(), values.max())
    assert "row" not in part.ranges


def test_unknown_errors_are_missing_values(tmp_path: Path) -> None:
    """A column of nulls is read as NaN and has no range."""
    write(tmp_path / "a.parquet", 5, error=False)
    (part,) = score_parts(tmp_path)
    (batch,) = part.batches(["reconstruction_error", "novelty"])
    assert np.isnan(batch["reconstruction_error"]).all()
    assert batch["novelty"].dtype == bool
    assert "reconstruction_error" not in part.ranges


def test_batches_are_bounded(tmp_path: Path) -> None:
    """However many rows a part has, they come in blocks."""
    write(tmp_path / "a.parquet", BATCH_ROWS + 5)
    (part,) = score_parts(tmp_path)
    sizes = [len(batch["kpca_0"]) for batch in part.batches(["kpca_0"])]
    assert sum(sizes) == BATCH_ROWS + 5
    assert max(sizes) <= BATCH_ROWS


def test_parts_of_other_models_are_left_out(tmp_path: Path) -> None:
    """Where a model is asked for; hidden files and others are no parts."""
    write(tmp_path / "a.parquet", 5, model="other")
    write(tmp_path / "b.parquet", 5)
    (tmp_path / ".c.parquet").write_bytes(b"")
    (tmp_path / "d.csv").write_text("x")
    assert [part.path.stem for part in score_parts(tmp_path, "rows")] == ["b"]
    assert len(score_parts(tmp_path)) == 2


def test_what_is_no_part_is_named(tmp_path: Path) -> None:
    """A damaged file, one of another kind, a column that is missing and a folder that is not there."""
    write(tmp_path / "a.parquet", 5)
    (part,) = score_parts(tmp_path)
    with pytest.raises(DataError, match=r"a\.parquet is damaged .*remove it and score again"):
        next(part.batches(["kpca_7"]))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match=r"a\.parquet is damaged .*remove it and score again"):
        score_parts(tmp_path)
    with pytest.raises(ConfigError, match="no such folder, expected that of the scores; score first"):
        score_parts(tmp_path / "none")
