"""A model that is re-fitted as files land, as several tests make it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.config import Config
from kpca_stream.refit_results import RefitResult
from kpca_stream.refitting import refit_config
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import silent
from tests.jobs import configured

Array = NDArray[Any]

N_COLUMNS, WEEK_ROWS, N_WEEKS = 8, 200, 4


def week(number: int, n_rows: int = WEEK_ROWS) -> Array:
    """Rows of sensors that three causes move together."""
    rng, mixing = np.random.default_rng(number), np.random.default_rng(99).standard_normal((3, N_COLUMNS))
    return np.asarray(
        rng.standard_normal((n_rows, 3)) @ mixing + 0.1 * rng.standard_normal((n_rows, N_COLUMNS))
    )


def land(folder: Path, number: int, rows: Array) -> Path:
    """A file among those to train on, an hour after the one before it."""
    path = folder / "weeks" / f"week-{number:02}.npy"
    path.parent.mkdir(exist_ok=True)
    np.save(path, rows)
    when = 1_700_000_000 + 3600 * number
    os.utime(path, (when, when))
    return path


def landed(folder: Path, n_weeks: int = N_WEEKS) -> None:
    """The first weeks."""
    for number in range(n_weeks):
        land(folder, number, week(number))


def model(folder: Path, method: str = "nystrom", **changes: Any) -> Config:
    """Re-fitted from a tenth of new rows on; `changes` are keys with two underscores for a dot."""
    refit = {key: changes.pop(key) for key in ("when", "gate", "keep") if key in changes}
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return configured(
        folder,
        {
            "data.train.path": str(folder / "weeks"),
            "kernel.gamma": 0.02,
            "solver": {"method": method, "n_components": 3, "precision": "float64", "tol": 1e-8},
            "nystrom": {"landmarks": 60, "method": "uniform"},
            "gram.storage": "auto",
            "score": None,
            "refit": refit,
            **dotted,
        },
    )


def refit(config: Config, *, force: bool = False, dry_run: bool = False) -> RefitResult:
    return refit_config(config, silent(), force=force, dry_run=dry_run)


def registry(folder: Path) -> Registry:
    return Registry.of(folder / "models", "rows")
