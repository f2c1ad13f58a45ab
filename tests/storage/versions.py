"""Versions that tell which one they are in every part, for tests of many hands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kpca_stream.errors import KpcaStreamError
from kpca_stream.numerics.kernels import Linear, Preparation
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.storage.frozen import Basis
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.rows import ArrayRows

anywhere = pytest.mark.parametrize("models", ["folder", "bucket"], indirect=True)
"""For laws of a registry that hold wherever it lies."""
N_ROWS, N_COMPONENTS = 60, 2


def tagged(tag: int) -> Basis:
    """A basis whose every number is `tag`."""
    full = np.full(N_COMPONENTS, float(tag))
    return Basis(
        kernel=Linear(Preparation()),
        precision="float64",
        columns=("a", "b", "c"),
        n_rows=N_ROWS,
        total_weight=float(N_ROWS),
        rows=ArrayRows(np.full((N_ROWS, 3), float(tag))),
        coefficients=ArrayRows(np.full((N_ROWS, N_COMPONENTS), float(tag))),
        weights=None,
        eigenvalues=full,
        centring=full,
        reduced_grand_mean=float(tag),
        row_means=np.full(N_ROWS, float(tag)),
        grand_mean=float(tag),
        trace=float(tag),
        thresholds=Thresholds(0.99, 1.0, 1.0, np.full(1001, float(tag)), np.ones(1001)),
        facts={"tag": tag},
    )


def publish(registry: Registry) -> int:
    """The next version, which tells its own number."""
    taken = (int(name) for name in registry.place.names("versions") if name.isdecimal())
    tag = max(taken, default=0) + 1
    return registry.publish(tagged(tag), lambda number: {"fit": str(number), "tag": tag})


def read_whole(registry: Registry) -> int:
    """Which version the champion is; an error if any part of it is of another one."""
    version, manifest, basis = registry.opened()
    rows = basis.rows
    parts = [basis.coefficients.load(), basis.centring, basis.eigenvalues, basis.thresholds.error_quantiles]
    numbers = {float(value) for part in parts for value in np.unique(part)}
    numbers |= {float(np.unique(rows.load()).item())} if rows is not None else set()
    if numbers | {float(basis.facts["tag"]), float(manifest["tag"]), float(manifest["version"])} != {
        float(version)
    }:
        raise KpcaStreamError(f"version {version} is mixed: {numbers}, {manifest}, {basis.facts}")
    return version


def contents(folder: Path) -> dict[str, bytes]:
    """Files of a folder by their names."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
