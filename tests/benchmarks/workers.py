"""Workers: two processes of one thread against one, for every part of a fit and for scoring.

``python -m tests.benchmarks.workers``. Clusters, d = 50, float32. Client and scheduler need the same cores as
the workers do, so that 2 is out of reach on two of them. Bytes that workers moved to disk must be 0. Tiles
are built in the workers' memory, and a pass computes them again; each part is taken several times in a
cluster, and its median counts. What goes through files is bound by the disk and by the speed of memory too:
beside a pass over stored tiles stands one over a raw file, by one thread and by two.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.cluster import connect_as, single_threaded_blas
from kpca_stream.config import Cluster, Config
from kpca_stream.pipeline import fit_config
from kpca_stream.scorer import Scorer
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.statistics import RowPass, accumulate
from kpca_stream.telemetry import silent
from tests.benchmarks.bare import BarePass, write_raw
from tests.benchmarks.child import in_child
from tests.benchmarks.data import cluster_gamma, clusters
from tests.benchmarks.harness import Answer, Figure, Question, in_turns, main, median_of, rounds
from tests.benchmarks.operators import block, prepare

Array = NDArray[Any]

PARTS = ("Gram build", "pass", "Nyström", "scoring")
FILES = ("build to files", "pass over files", "pass over a raw file")
LEAST = 1.6
N_FEATURES, N_LANDMARKS = 50, 1000
MEMORY = 6 * 2**30
REPEATS = 3
"""Of each part in a cluster: the first one is slower, since workers import and touch new memory."""


def answer(*, quick: bool) -> Answer:
    """Times of one process over those of two, and what was moved to disk."""
    sizes = {"n_samples": 16_000 if quick else 80_000, "n_rows": 40_000 if quick else 400_000}
    sides = {
        str(n_workers): lambda n_workers=n_workers: in_child(
            "workers:seconds_of", n_workers=n_workers, **sizes
        )
        for n_workers in (1, 2)
    }
    found = in_turns(sides, rounds(quick=quick))
    rows = [
        {"processes": side, **{f"{part} s": median_of(results, part) for part in (*PARTS, *FILES)}}
        for side, results in found.items()
    ]
    gain = {part: median_of(found["1"], part) / median_of(found["2"], part) for part in (*PARTS, *FILES)}
    figures = [Figure(f"{part}: one process / two", gain[part], LEAST, is_least=True) for part in PARTS]
    beside = gain["pass over files"] / gain["pass over a raw file"]
    spilled = max(result["spilled"] for results in found.values() for result in results)
    return Answer(
        rows,
        [
            *figures,
            Figure("pass over files: its gain / that of a raw file", beside, 0.9, is_least=True),
            Figure("bytes moved to disk", spilled, 0),
        ],
    )


def seconds_of(n_workers: int, n_samples: int, n_rows: int) -> dict[str, Any]:
    """Seconds of every part on so many processes of one thread."""
    with tempfile.TemporaryDirectory() as place, single_threaded_blas():
        folder = Path(place)
        for name, share in (("rows", 1), ("half", 2)):
            np.save(folder / f"{name}.npy", clusters(n_samples // share, N_FEATURES))
        np.save(folder / "many.npy", clusters(n_rows, N_FEATURES))
        section = Cluster(kind="local", n_workers=n_workers)
        with connect_as(section, memory=MEMORY):
            parts = {"Gram build": _build, "pass": _pass, "Nyström": _nystrom, "scoring": _scoring}
            found = {name: median([part(folder, n) for n in range(REPEATS)]) for name, part in parts.items()}
            # Last, since the system goes on writing these files for a while.
            return {**found, **_in_files(folder, n_workers), "spilled": _spilled()}


def _build(folder: Path, repeat: int) -> float:
    """Tiles that workers keep, of half of the rows."""
    gram, V = _gram(folder / "half.npy", "memory", repeat)
    return _timed(lambda: gram.multiply(V))


def _pass(folder: Path, repeat: int) -> float:
    """Tiles of all rows, which are computed in each pass."""
    gram, V = _gram(folder / "rows.npy", "recompute", repeat)
    return _timed(lambda: gram.multiply(V))


def _in_files(folder: Path, n_threads: int) -> dict[str, float]:
    """The store's tiles, and a raw file of as many: both lie in the memory that the system keeps files in."""
    gram, V = _gram(folder / "half.npy", "zarr")
    raw, V32 = folder / "raw", V.astype(np.float32)
    bare = BarePass(np.load(folder / "half.npy"), cluster_gamma(N_FEATURES), gram.grid, n_threads)
    write_raw(raw, gram.grid.n_tiles * gram.grid.tile_rows**2 * 4)
    found = {"build to files": _timed(lambda: gram.multiply(V))}
    passes = [
        {
            "pass over files": _timed(lambda: gram.multiply(V + 1 + repeat)),  # noqa: B023
            "pass over a raw file": _timed(lambda: bare.multiply_stored(raw, V32)),
        }
        for repeat in range(REPEATS)
    ]
    found |= {name: median_of(passes, name) for name in passes[0]}
    raw.unlink()
    return found


def _gram(rows: Path, storage: str, repeat: int = 0) -> tuple[Gram, Array]:
    """The Gram matrix of some rows, and a block to multiply it by."""
    ready = prepare(
        rows,
        cluster_gamma(N_FEATURES),
        store=rows.with_suffix(f".{storage}-{repeat}"),
        storage=storage,
        method="lanczos",
        precision="float32",
        memory_limit=MEMORY,
    )
    gram = ready.gram()
    gram.terms()  # the first task of a process imports what all others use
    return gram, block(ready.looked.n_samples)


def _nystrom(folder: Path, repeat: int) -> float:
    store = folder / f"many-{repeat}.zarr"
    ready = prepare(folder / "many.npy", cluster_gamma(N_FEATURES), store=store, precision="float32")
    rows = ready.looked.rows
    landmarks = rows.part(0, N_LANDMARKS).load()
    row_pass = RowPass(rows, None, ready.kernel, landmarks, np.dtype(np.float32))
    return _timed(lambda: accumulate(row_pass, np.zeros(N_LANDMARKS)))


def _scoring(folder: Path, repeat: int) -> float:
    config = _config(folder, f"scores-{repeat}")
    fit_config(config, silent())
    return _timed(Scorer(config, silent()).work_off)


def _config(folder: Path, scores: str) -> Config:
    return Config.model_validate(
        {
            "name": "scored",
            "data": {"train": {"path": str(folder / "rows.npy"), "rows": "0:4000"}},
            "kernel": {"name": "rbf", "gamma": cluster_gamma(N_FEATURES)},
            "gram": {"path": str(folder / "small.zarr")},
            "models": {"path": str(folder / "models")},
            "score": {
                "input": {"path": str(folder / "many.npy"), "part_rows": 10_000, "settle_seconds": 0},
                "output": str(folder / scores),
            },
        }
    )


def _spilled() -> int:
    """Bytes that the workers hold on disk, or did at the last look."""
    from distributed import get_client

    workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(worker["metrics"].get("spilled_bytes", {}).get("disk", 0)) for worker in workers)


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


QUESTION = Question("Workers: one process of one thread against two, clusters, d = 50", answer)

if __name__ == "__main__":
    main(QUESTION)
