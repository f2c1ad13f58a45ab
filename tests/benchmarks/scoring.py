"""Scoring: clusters, d = 50, rbf, 10 components, float32, beside scikit-learn and beside its arithmetic.

``python -m tests.benchmarks.scoring``. Rows in memory against 20,000 training rows:
`FittedBasis.transform`, scikit-learn's `KernelPCA.transform` with a model of the same rows, and the
products and exponentials alone, in turns in one process, all after a first call. A few rows against a
loaded basis, in the same way: the median of many calls. Then ``kpca-stream score`` of a Zarr array of 5
million rows against 2,000 landmarks, in a process of its own, its start and imports included; its
arithmetic reads the rows too.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from numpy.typing import NDArray

from tests.benchmarks.bare import BareScoring
from tests.benchmarks.child import cost_of, in_child
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import Answer, Figure, Question, main, median_of, median_seconds

Array = NDArray[Any]

N_FEATURES = 50
N_COMPONENTS = 10
N_TRAINED = 20_000
N_SCORED = 20_000
BASES = (2_000, N_TRAINED)
FEW = (1, 100)
CALLS = {1: 101, 100: 31}
N_LANDMARKS = 2_000
N_ARRIVING = 5_000_000
N_FITTED = 100_000
FILE_ROWS = 16_384
BLOCK_ROWS, CHUNK_ROWS = 4096, 2048


def answer(*, quick: bool) -> Answer:
    """Many rows and few rows in memory, then a large file."""
    n_scored = N_SCORED // 10 if quick else N_SCORED
    bases = [n // 10 for n in BASES] if quick else BASES
    found = [in_child("scoring:compare", n_trained=n, n_scored=n_scored) for n in bases]
    file = _of_a_file(100_000 if quick else N_ARRIVING, times=1 if quick else 2)
    many = found[-1]["seconds"][str(n_scored)]
    figures = [
        Figure("time / scikit-learn's transform", many["kpca_stream"] / many["scikit-learn"], 0.2),
        Figure("time / its GEMMs and exps", many["kpca_stream"] / many["GEMMs and exps"], 1.3),
        *(
            Figure(
                f"{n} rows, basis of {basis:,}: time / scikit-learn's",
                each["seconds"][str(n)]["kpca_stream"] / each["seconds"][str(n)]["scikit-learn"],
                1.0,
            )
            for n in FEW
            for basis, each in zip(bases, found, strict=True)
        ),
        Figure("largest difference of a score", max(each["difference"] for each in found), 1e-4),
        Figure("the file: peak memory, GB", file["peak GB"], 1.0),
    ]
    rows = [
        _row(basis, int(n), seconds)
        for basis, each in zip(bases, found, strict=True)
        for n, seconds in each["seconds"].items()
    ]
    return Answer([*rows, file], figures)


def _row(basis: int, n_rows: int, seconds: dict[str, float]) -> dict[str, Any]:
    return {
        "rows": f"{n_rows:,}",
        "basis": f"{basis:,}",
        "kpca_stream ms": 1e3 * seconds["kpca_stream"],
        "scikit-learn ms": 1e3 * seconds["scikit-learn"],
        "GEMMs and exps ms": 1e3 * seconds["GEMMs and exps"],
        "peak GB": "-",
    }


def compare(n_trained: int, n_scored: int) -> dict[str, Any]:
    """The child's side: seconds of each for many and for few rows, and how far their scores are apart."""
    from kpca_stream import load_basis

    X = clusters(n_trained + n_scored, N_FEATURES)
    train, new = X[:n_trained], X[n_trained:]
    peer = _peer(train)
    with tempfile.TemporaryDirectory() as folder:
        _ours(train).save(Path(folder) / "basis.zarr")
        basis = load_basis(Path(folder) / "basis.zarr")
    sides = {"kpca_stream": basis.transform, "scikit-learn": peer.transform, "GEMMs and exps": _bare(train)}
    seconds = {n: _seconds(sides, new[:n]) for n in (*FEW, n_scored)}
    few = new[: FEW[-1]]
    ours, theirs = np.abs(basis.transform(few)), np.abs(peer.transform(few))
    difference = np.abs(ours[:, :3] - theirs[:, :3]).max() / theirs.max()
    return {"seconds": seconds, "difference": float(difference)}


def _seconds(sides: dict[str, Callable[[Array], object]], rows: Array) -> dict[str, float]:
    for side in sides.values():
        side(rows)
    return median_seconds(
        {name: partial(side, rows) for name, side in sides.items()}, CALLS.get(len(rows), 3)
    )


def _ours(train: Array) -> Any:
    from kpca_stream import KernelPCA

    model = KernelPCA(N_COMPONENTS, kernel="rbf", gamma=cluster_gamma(N_FEATURES), tol=1e-5, n_jobs=-1)
    return model.fit(train)


def _peer(train: Array) -> Any:
    from sklearn.decomposition import KernelPCA

    model = KernelPCA(
        N_COMPONENTS,
        kernel="rbf",
        gamma=cluster_gamma(N_FEATURES),
        eigen_solver="randomized",
        random_state=0,
        n_jobs=-1,
    )
    return model.fit(train)


def _bare(train: Array) -> Callable[[Array], object]:
    def run(rows: Array) -> None:
        _arithmetic(rows, train).run()

    return run


def _arithmetic(rows: Array, basis: Array) -> BareScoring:
    gamma, block_rows = cluster_gamma(N_FEATURES), min(BLOCK_ROWS, max(1, len(rows) // (2 * CPU_COUNT)))
    return BareScoring(rows, basis, gamma, N_COMPONENTS + 1, block_rows, CHUNK_ROWS, CPU_COUNT)


def _of_a_file(n_rows: int, *, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_file(folder / "rows.zarr", n_rows)
        _configure(folder)
        in_child("commandline:perform", cwd=folder, command="fit", settings={})
        scored, bare = [], []
        for k in range(times):
            scored.append(_score(folder, f"scores{k}"))
            bare.append(in_child("scoring:alone", path=str(folder / "rows.zarr")))
    if any(each["result"]["n_rows"] != n_rows for each in scored):
        raise SystemExit(f"scored {scored[0]['result']}, expected {n_rows} rows")
    return {
        "rows": f"{n_rows:,}",
        "basis": f"{N_LANDMARKS:,} landmarks",
        "kpca_stream ms": 1e3 * median_of(scored, "seconds"),
        "scikit-learn ms": "-",
        "GEMMs and exps ms": 1e3 * median_of(bare, "seconds"),
        "peak GB": max(each["peak"] for each in scored) / 1e9,
    }


def _score(folder: Path, output: str) -> dict[str, Any]:
    began = time.perf_counter()
    found = in_child("commandline:perform", cwd=folder, command="score", settings={"score.output": output})
    return {**found, "seconds": time.perf_counter() - began}


def _configure(folder: Path) -> None:
    config = {
        "name": "benchmark",
        "data": {"train": {"path": "rows.zarr", "rows": f"0:{N_FITTED}"}, "merge_duplicates": False},
        "kernel": {"name": "rbf", "gamma": cluster_gamma(N_FEATURES)},
        "solver": {"method": "nystrom", "n_components": N_COMPONENTS, "precision": "float32", "tol": 0.01},
        "nystrom": {"landmarks": N_LANDMARKS, "method": "uniform"},
        "score": {"input": {"path": "rows.zarr"}, "output": "scores"},
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")


def _write_file(path: Path, n_rows: int) -> None:
    import zarr

    array = zarr.create_array(path, shape=(n_rows, N_FEATURES), chunks=(FILE_ROWS, N_FEATURES), dtype="f4")
    for start, rows in _arriving(n_rows):
        array[start : start + len(rows)] = rows


def _arriving(n_rows: int) -> Iterator[tuple[int, Array]]:
    """Rows of the clusters, moved a little from one chunk to the next so that none occurs twice."""
    base, rng = clusters(FILE_ROWS, N_FEATURES), np.random.default_rng(1)
    for start in range(0, n_rows, FILE_ROWS):
        moved = base + 0.05 * rng.standard_normal(N_FEATURES, dtype=np.float32)
        yield start, moved[: n_rows - start]


def alone(path: str) -> dict[str, Any]:
    """The child's side: the arithmetic of all rows, read block by block."""
    import zarr

    rows = zarr.open_array(path, mode="r")
    gamma, landmarks = cluster_gamma(N_FEATURES), np.asarray(rows[:N_LANDMARKS])
    bare = BareScoring(
        _Read(rows), landmarks, gamma, N_COMPONENTS + 1, FILE_ROWS, CHUNK_ROWS, n_threads=CPU_COUNT
    )
    return cost_of(bare.run)


class _Read:
    """Rows of a Zarr array, of which each thread reads a chunk once."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, rows: slice) -> Array:
        return np.asarray(self.array[rows])


QUESTION = Question("Scoring: clusters, d = 50, rbf, k = 10, float32", answer)

if __name__ == "__main__":
    main(QUESTION)
