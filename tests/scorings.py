"""Folders of files of many kinds, and what the scores of their rows must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow.feather
import pytest
import zarr
from numpy.typing import NDArray

from kpca_stream.config import Config
from kpca_stream.model import load_basis
from kpca_stream.pipeline import fit_config
from kpca_stream.scorer import batch
from kpca_stream.telemetry import silent
from tests.jobs import configured

Array = NDArray[Any]

COLUMNS = list("abcd")
RNG = np.random.default_rng(6)
X = RNG.standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5]


def _frame(rows: Array) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS)


def as_npy(path: Path, rows: Array) -> None:
    np.save(path, rows)


def as_csv(path: Path, rows: Array) -> None:
    path.write_text("\n".join(",".join(map(repr, row)) for row in rows.tolist()) + "\n")


def as_parquet(path: Path, rows: Array) -> None:
    pd.DataFrame(rows, columns=[str(j) for j in range(rows.shape[1])]).to_parquet(path)


def as_arrow(path: Path, rows: Array) -> None:
    frame = pd.DataFrame(rows, columns=[str(j) for j in range(rows.shape[1])])
    pyarrow.feather.write_feather(frame, path)


def as_hdf5(path: Path, rows: Array) -> None:
    with h5py.File(path, "w") as file:
        file["rows"] = rows


def as_zarr(path: Path, rows: Array) -> None:
    array = zarr.create_array(path, shape=rows.shape, chunks=(16, rows.shape[1]), dtype=rows.dtype)
    array[:] = rows


KINDS: dict[str, Callable[[Path, Array], None]] = {
    "npy": as_npy,
    "csv": as_csv,
    "parquet": as_parquet,
    "arrow": as_arrow,
    "h5": as_hdf5,
    "zarr": as_zarr,
}


def landed(folder: Path, n_files: int, *, seed: int = 0, n_rows: int = 12) -> dict[str, Array]:
    """Write so many files, of all kinds in turn, into `folder`; returns their rows by their names."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    found = {}
    for index in range(n_files):
        kind = list(KINDS)[index % len(KINDS)]
        name = f"file-{seed}-{index:03d}.{kind}"
        rows = rng.standard_normal((int(rng.integers(1, n_rows)), 4)) * [3.0, 2.0, 1.0, 0.5]
        KINDS[kind](folder / name, rows)
        found[name] = rows
    return found


def scoring(folder: Path, changes: dict[str, Any] | None = None) -> Config:
    """A configuration that scores what lies in ``folder/in``; settles at once."""
    basic: dict[str, Any] = {
        "score.input.path": str(folder / "in"),
        "score.input.settle_seconds": 0,
        "score.input.part_rows": None,
    }
    return configured(folder, basic | (changes or {}))


def fitted(folder: Path, changes: dict[str, Any] | None = None) -> None:
    """Fit and publish a basis of `X`."""
    np.save(folder / "train.npy", X)
    fit_config(configured(folder, {"score": None} | (changes or {})), silent())


def read(folder: Path) -> pd.DataFrame:
    """All scores, as any reader of Parquet sees them, in order of files and rows."""
    return pd.read_parquet(folder / "scores").sort_values(["source", "row"], ignore_index=True)


def check(folder: Path, files: dict[str, Array], version: int = 1) -> None:
    """See that each row of `files` has its scores, once, and nothing else has."""
    found = read(folder)
    expected = [(name, row) for name in sorted(files) for row in range(len(files[name]))]
    assert list(zip(found["source"], found["row"], strict=True)) == expected
    basis = load_basis(folder / "models" / "rows" / "versions" / str(version) / "basis.zarr")
    scores = basis.score(np.concatenate([files[name] for name in sorted(files)]))
    np.testing.assert_allclose(found[["kpca_0", "kpca_1", "kpca_2"]], scores.scores, atol=1e-11)
    np.testing.assert_allclose(found["reconstruction_error"], scores.reconstruction_error, atol=1e-11)
    np.testing.assert_allclose(found["hotelling_t2"], scores.hotelling_t2, rtol=1e-9)
    np.testing.assert_array_equal(found["novelty"], scores.novelty)
    assert set(found["model_version"]) == {version}


def beside(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Have something happen once, when parts are made and not yet entered."""
    finish, waiting = batch.Batch._finish, [then]

    def late(self: batch.Batch, *arguments: Any) -> None:
        while waiting:
            waiting.pop()()
        finish(self, *arguments)

    monkeypatch.setattr(batch.Batch, "_finish", late)
