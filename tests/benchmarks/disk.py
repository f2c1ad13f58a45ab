"""Disk: the Gram matrix in Zarr, built and read again, beside a raw file.

``python -m tests.benchmarks.disk``. Clusters, n = 50,000, d = 50, float32: 5 GB twice over. The build is the
first pass, multiplication included, until its files are flushed; beside it a raw, flushed write of as many
bytes, and the evaluation of all tiles alone. A later pass reads and multiplies; beside it the same from one
raw file, same tiles and threads: once from the disk, and once from the memory that the system keeps files in.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from dask.system import CPU_COUNT
from numpy.typing import NDArray

from kpca_stream.cluster import connect, single_threaded_blas
from kpca_stream.stages.gram import Gram
from tests.benchmarks.bare import BarePass, flush, forget, write_raw
from tests.benchmarks.child import cost_of, in_child, size_of
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import MB, Answer, Figure, Question, main, median_seconds
from tests.benchmarks.operators import block, prepare

Array = NDArray[Any]
N_FEATURES = 50


def answer(*, quick: bool) -> Answer:
    """The build, and later passes."""
    found = in_child("disk:measure", n_samples=8000 if quick else 50_000)
    floor = max(found["raw write"], found["evaluation"])
    rows = [
        _row("build", found, "build", "raw write"),
        _row("build", found, "build", "evaluation"),
        _row("pass from disk", found, "pass, cold", "raw, cold"),
        _row("pass from memory", found, "pass, warm", "raw, warm"),
    ]
    figures = [
        Figure("build / the slower of raw write and evaluation", found["build"] / floor, 1.3),
        Figure("a later pass / raw read and multiply, from disk", rows[2]["ratio"], 2.0),
        Figure("a later pass / raw read and multiply, from memory", rows[3]["ratio"], 2.0),
    ]
    return Answer(rows, figures)


def _row(name: str, found: dict[str, Any], side: str, other: str) -> dict[str, Any]:
    return {
        "what": name,
        "ours s": found[side],
        "beside": other,
        "its s": found[other],
        "ratio": found[side] / found[other],
        "GB": found["bytes"] / 1e9,
        "peak MB": found["peak"] / MB,
    }


def measure(n_samples: int) -> dict[str, Any]:
    """The child's side: medians of all, in turns, and the peak of all."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, single_threaded_blas(), connect("threads"):
        cost = cost_of(lambda: found.update(_measured(_Disk(Path(name), n_samples))))
    return {**cost, **found}


def _measured(disk: _Disk) -> dict[str, Any]:
    builds = {"build": disk.build, "raw write": disk.write_raw, "evaluation": disk.bare.evaluate}
    found = median_seconds(builds, before=disk.clear)
    disk.clear()
    disk.build()
    disk.write_raw()
    cold = {"pass, cold": disk.read, "raw, cold": disk.read_raw}
    warm = {"pass, warm": disk.read, "raw, warm": disk.read_raw}
    found |= median_seconds(cold, before=disk.forget)
    found |= median_seconds(warm)
    return {**found, "bytes": size_of(disk.store / "tiles")}


class _Disk:
    """A run's store and a raw file of the same tiles."""

    def __init__(self, folder: Path, n_samples: int) -> None:
        self.X, self.gamma = clusters(n_samples, N_FEATURES), cluster_gamma(N_FEATURES)
        self.V = block(n_samples)
        self.store, self.raw = folder / "gram.zarr", folder / "raw"
        self.gram = self._new()
        self.bare = BarePass(self.X, self.gamma, self.gram.grid, CPU_COUNT)

    def clear(self) -> None:
        """Neither of them; the rows are looked at, and wait."""
        shutil.rmtree(self.store, ignore_errors=True)
        self.raw.unlink(missing_ok=True)
        self.gram = self._new()
        flush(self.store)

    def build(self) -> None:
        """The first pass over a new store."""
        self.gram.multiply(self.V)
        flush(self.store)

    def read(self) -> None:
        """A later pass."""
        self.gram.multiply(self.V)

    def write_raw(self) -> None:
        """The same bytes to the raw file."""
        write_raw(self.raw, self.gram.grid.n_tiles * self.gram.grid.tile_rows**2 * 4)

    def read_raw(self) -> None:
        """Its tiles, and their products."""
        self.bare.multiply_stored(self.raw, self.V)

    def forget(self) -> None:
        """Have both read from the disk."""
        forget(self.store)
        forget(self.raw)

    def _new(self) -> Gram:
        return prepare(
            self.X, self.gamma, store=self.store, storage="zarr", method="lanczos", precision="float32"
        ).gram()


QUESTION = Question("Disk: Gram matrix in Zarr, clusters, n = 50,000, d = 50, float32", answer)

if __name__ == "__main__":
    main(QUESTION)
