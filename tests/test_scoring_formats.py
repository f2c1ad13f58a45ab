"""One set of rows, whatever kind of file it comes in, has one set of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kpca_stream.pipeline import fit_config, score_config
from kpca_stream.telemetry import silent
from tests.jobs import configured
from tests.tables import WRITERS

RNG = np.random.default_rng(11)
X = RNG.standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5] + 7.0
X_NEW = RNG.standard_normal((5_000, 4)) * [3.0, 2.0, 1.0, 0.5] + 7.0
VALUES = ["kpca_0", "kpca_1", "kpca_2", "reconstruction_error", "hotelling_t2"]


@pytest.mark.parametrize("landmarks", [None, 200])
def test_scores_do_not_depend_on_the_kind_of_file(landmarks: int | None, tmp_path: Path) -> None:
    """Float64 rows of an npy, Zarr, Parquet, CSV, Arrow, Feather or HDF5 file are scored alike to 1e-12."""
    np.save(tmp_path / "train.npy", X)
    nystrom = {} if landmarks is None else {"solver.method": "nystrom", "nystrom.landmarks": landmarks}
    changes = {"kernel.gamma": 0.01, "score.input.part_rows": 2_000, **nystrom}
    fit_config(configured(tmp_path, changes), silent())
    found = {name: _scored(tmp_path, name, changes) for name in WRITERS}
    expected = found.pop("npy")
    assert len(expected) == len(X_NEW)
    for frame in found.values():
        scale = np.abs(expected[VALUES]).max().to_numpy()
        np.testing.assert_array_less(np.abs(frame[VALUES] - expected[VALUES]) / scale, 1e-12)
        pd.testing.assert_frame_equal(frame[["row", "novelty"]], expected[["row", "novelty"]])


def _scored(folder: Path, name: str, changes: dict[str, object]) -> pd.DataFrame:
    (folder / name).mkdir()
    path, output = WRITERS[name](folder / name, X_NEW), folder / f"scores of {name}"
    place = {"score.input.path": str(path), "score.output": str(output), "score.input.settle_seconds": 0}
    score_config(configured(folder, {**changes, **place}), silent())
    frames = [pd.read_parquet(part) for part in output.glob("*.parquet")]
    return pd.concat(frames).sort_values("row").reset_index(drop=True)
