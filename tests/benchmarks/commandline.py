"""Runs the real commands on real data, and measures them."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.child import cost_of, in_child, watch

STORE = "work/gram.zarr"
CHUNK_ROWS = 65_536


def configure(folder: Path, rows: NDArray[Any]) -> None:
    """Write `rows` (n_samples, n_features) as npy, and a configuration that reads them, to `folder`."""
    np.save(folder / "rows.npy", rows)
    text = "name: benchmark\ndata: {train: {path: rows.npy}}\n"
    (folder / "config.yaml").write_text(text, encoding="utf-8")


def configure_zarr(folder: Path, rows: NDArray[Any]) -> Path:
    """The same with a Zarr array, compressed and in chunks of whole rows; where it is."""
    import zarr

    path = folder / "rows.zarr"
    chunks = min(CHUNK_ROWS, len(rows)), rows.shape[1]
    zarr.create_array(path, shape=rows.shape, chunks=chunks, dtype=rows.dtype)[...] = rows
    text = "name: benchmark\ndata: {train: {path: rows.zarr}}\n"
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return path


def fit(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """``kpca-stream fit`` from nothing, in a process of its own: its result, time, peak memory and disk.

    Parameters
    ----------
    folder : Path
        As `configure` left it.
    settings : dict
        Keys and values for ``--set``.
    """
    for leftover in ("work", "models"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    return in_child("commandline:perform", cwd=folder, command="fit", settings=settings)


def plan(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What ``kpca-stream plan`` says of the same, refused or not."""
    found = in_child("commandline:perform", cwd=folder, command="plan", settings=settings)
    return dict(found["result"])


def perform(command: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The child's side: the command as `python -m kpca_stream` runs it.

    ``peak`` is that of the largest process, ``disk`` the most that the run's store held.
    """
    from kpca_stream.cli import main

    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    output = io.StringIO()
    with watch(Path(STORE)) as seen, redirect_stdout(output):
        cost = cost_of(lambda: main([command, "config.yaml", "--json", "--quiet", *overrides]))
    printed = json.loads(output.getvalue())
    if printed.get("result") is None:
        raise SystemExit(f"{command} {settings}: {printed.get('error')}")
    peak = max(cost["peak"], *seen.processes.values(), 0)
    return {**cost, "peak": peak, "disk": seen.folder, "result": printed["result"]}
