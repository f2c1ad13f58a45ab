"""Nyström runs of the command line, as several tests make them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.cli import main
from kpca_stream.results import json_schema
from tests.disturb import write_yaml

Run = Callable[..., dict[str, Any]]

M = 40


def correlated(n_samples: int = 400, n_features: int = 5, seed: int = 0) -> NDArray[Any]:
    """Rows of which a few landmarks tell most."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).standard_normal((2, n_features))
    noise = 0.1 * rng.standard_normal((n_samples, n_features))
    return np.asarray(rng.standard_normal((n_samples, 2)) @ mixing + noise)


def write_job(folder: Path, **sections: Any) -> None:
    """Rows to train on and new ones, and a configuration that compares them with landmarks."""
    np.save(folder / "x.npy", correlated())
    np.save(folder / "new.npy", correlated(60, seed=1))
    write_yaml(
        folder / "c.yaml",
        {
            "name": "rows",
            "data": {"train": {"path": "x.npy"}},
            "kernel": {"name": "rbf", "gamma": 0.1},
            "solver": {"method": "nystrom", "n_components": 3},
            "nystrom": {"landmarks": M},
            "gram": {"path": "gram.zarr"},
            "models": {"path": "models"},
            "score": {"input": {"path": "new.npy", "part_rows": 20}, "output": "scores"},
            **sections,
        },
    )


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls a command in this process: the JSON object that it prints, which meets the published schema."""

    def run(*arguments: str, code: int = 0, settings: tuple[str, ...] = ()) -> dict[str, Any]:
        changes = [part for setting in settings for part in ("--set", setting)]
        got = main([*arguments, *changes, "--json", "--quiet"])
        captured = capsys.readouterr()
        assert got == code, captured
        printed: dict[str, Any] = json.loads(captured.out)
        jsonschema.validate(printed, json_schema())
        return printed

    return run


def refused(printed: dict[str, Any]) -> str:
    """The message of a failure, which is one line."""
    message: str = printed["error"]["message"]
    assert "\n" not in message
    return message


def part(run: Run, rows: str, like: str | None = None, *more: str) -> str:
    """The basis of some of the rows, with the landmarks of another one."""
    name = rows.replace(":", "-")
    take = () if like is None else (f"nystrom.landmarks={{basis: {like}}}",)
    own = (f"data.train.rows={rows}", f"gram.path={name}.zarr", f"models.path={name}")
    return str(run("fit", "c.yaml", settings=(*own, *take, *more))["result"]["basis"])


def halves(run: Run) -> list[str]:
    """Two bases that share their landmarks, of all rows together."""
    first = part(run, "0:150")
    return [first, part(run, "150:400", first)]
