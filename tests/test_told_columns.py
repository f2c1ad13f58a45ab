"""Columns that count for nothing, or are left out, are told."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream import KernelPCA
from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.pipeline import fit_config
from kpca_stream.telemetry import silent
from tests.jobs import configured

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3)) * [1.0, 1.0, 1000.0]


def fitted(folder: Path, rows: Any, changes: dict[str, Any] | None = None) -> list[str]:
    """The warnings of a fit."""
    np.save(folder / "train.npy", rows)
    sections = {"score": None, "kernel": {"name": "rbf", "gamma": "median"}, **(changes or {})}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", KpcaStreamWarning)
        fit_config(configured(folder, sections), silent())
    return [str(each.message) for each in seen]


def test_a_column_that_hides_the_others_is_told(tmp_path: Path) -> None:
    """With its share of the variance, and the setting that has all count alike."""
    (told,) = fitted(tmp_path, X)
    assert told.startswith("column '2' has 100 % of the variance, so that the other 2 hardly count")
    assert "data.scale: standard" in told


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        (X, {"data.scale": "standard"}),
        (X, {"kernel": {"name": "cosine"}}),
        (X * [1.0, 1.0, 0.03], {}),
        (X * [0.0, 0.0, 1.0], {}),
        (X[:, 2:], {}),
    ],
    ids=["scaled", "cosine", "below the share", "others constant", "alone"],
)
def test_where_units_do_not_matter_nothing_is_told(
    tmp_path: Path, rows: Any, changes: dict[str, Any]
) -> None:
    """Scaled columns, a kernel of directions, a smaller share and columns that hide nothing are no matter."""
    assert fitted(tmp_path, rows, changes) == []


def test_the_estimator_tells_nothing_of_units() -> None:
    """`KernelPCA` has no setting for it, as scikit-learn's has none."""
    KernelPCA(2, kernel="rbf", gamma=1e-6).fit(X)


@pytest.mark.parametrize("columns", [None, ["a", "b"], ["a"]])
def test_columns_of_text_are_told(tmp_path: Path, columns: list[str] | None) -> None:
    """A column of text is a warning where all of numbers are taken; who chose columns needs no telling."""
    lines = [f"{a},{b},word" for a, b in RNG.standard_normal((40, 2))]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,label", *lines]))
    chosen = {} if columns is None else {"data.columns": columns}
    told = fitted(tmp_path, X, {"data.train.path": str(tmp_path / "train.csv"), **chosen})
    assert len(told) == (columns is None)
    assert all("left out 'label', which hold no numbers" in text for text in told)
