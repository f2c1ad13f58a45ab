"""Passes over the rows against a few landmarks: additive statistics, and the embedding they lead to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream import passes
from kpca_stream.errors import DataError
from kpca_stream.numerics.features import FeatureMap, representable
from kpca_stream.numerics.forecast import Shape
from kpca_stream.numerics.kernels import Kernel, Operand, Precomputed, as_landmarks, as_operand
from kpca_stream.numerics.landmark_products import collected, projected, similarities
from kpca_stream.numerics.nystrom import Embedding, Statistics, embed
from kpca_stream.numerics.rowcut import RowCut
from kpca_stream.storage.checkpoint import Ledger
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows, Rows
from kpca_stream.storage.sources.table import steps
from kpca_stream.telemetry import Advance

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RowPass:
    """Training rows against landmarks, as tasks see them.

    Parameters
    ----------
    rows : Rows
        The training rows (n, d); for a precomputed kernel the matrix (n, n).
    weights : ndarray of shape (n,), optional
    kernel : Kernel
    landmarks : ndarray of shape (m, d)
        For a precomputed kernel their positions, (m, 1).
    dtype : dtype
        Of the similarities.
    store : RunStore, optional
        Brings the landmarks to the workers, and keeps the checkpoints.
    at_once : int, optional
        Upper limit of tasks alive at once.
    progress : callable, optional
    """

    rows: Rows
    weights: Array | None
    kernel: Kernel
    landmarks: Array
    dtype: np.dtype[Any]
    store: RunStore | None = None
    at_once: int | None = None
    progress: Advance | None = None

    @property
    def cut(self) -> RowCut:
        """The tasks and their blocks."""
        shape = Shape(*self.rows.shape, 1, self.kernel.name, self.dtype.itemsize)
        return RowCut.of(shape, len(self.landmarks))

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """First row and end of each task."""
        return list(steps(0, self.rows.shape[0], self.cut.task_rows))

    def run(
        self,
        function: Callable[..., Any],
        arguments: Callable[[int, int], tuple[Any, ...]],
        fold: Callable[[int, int, Any], None],
        commit: passes.Commit | None = None,
    ) -> None:
        """For tasks of rows a to b, in their order: ``fold(a, b, function(task, Z, *arguments(a, b)))``.

        Z are the landmarks.
        """
        cut, landmarks, tasks = self.cut, self._published(), self.tasks

        def call(index: int) -> passes.Call:
            a, b = tasks[index]
            weights = None if self.weights is None else self.weights[a:b]
            task = RowTask(self.rows.part(a, b), a, weights, self.kernel, self.dtype, cut)
            return passes.Call(function, (task, landmarks, *arguments(a, b)), label=f"rows {a}:{b}")

        passes.run(
            passes.Lazy(len(tasks), call),
            lambda index, result: fold(*tasks[index], result),
            commit=commit,
            at_once=self.at_once,
            progress=self.progress,
        )

    def _published(self) -> Any:
        if self.store is None:
            return passes.shared(ArrayRows(self.landmarks))
        return self.store.publish("landmarks", self.landmarks)


@dataclass(frozen=True, eq=False)
class RowTask:
    """What a task needs beside the landmarks: some rows, the first of which is row `start`."""

    rows: Rows
    start: int
    weights: Array | None
    kernel: Kernel
    dtype: np.dtype[Any]
    cut: RowCut

    def operand(self, landmarks: Rows) -> Operand:
        """The landmarks made ready."""
        return as_landmarks(self.kernel, landmarks.load(), self.dtype)

    def blocks(self) -> Iterator[tuple[slice, Operand]]:
        """The rows block by block, made ready; slices count from the first row of the task."""
        for a, b in steps(0, self.rows.shape[0], self.cut.read_rows):
            loaded = ArrayRows(self.rows.part(a, b).load())
            for c, d in steps(a, b, self.cut.block_rows):
                address = self.start + c, self.start + d
                part = loaded.part(c - a, d - a)
                yield slice(c, d), as_operand(self.kernel, part, address, self.dtype)


def accumulate(
    row_pass: RowPass,
    centre: Array,
    *,
    name: str = "statistics",
    checkpoint_seconds: float = passes.COMMIT_SECONDS,
    on_restored: Callable[[int], None] | None = None,
) -> Statistics:
    """Statistics of all rows, in one pass: n·m kernel values.

    Parameters
    ----------
    row_pass : RowPass
        With a store, sums are kept as they grow and once they are whole.
    centre : ndarray of shape (m,)
        What they are accumulated about, such as `FeatureMap.centre`; rounded to float32.
    name : str
        Of the checkpoint.
    checkpoint_seconds : float
        Least time between two checkpoints.
    on_restored : callable, optional
        Is told how many tasks an earlier run had left done, where it had any.

    Raises
    ------
    DataError
        If sums overflow.
    """
    centre, n_tasks = representable(centre), len(row_pass.tasks)
    ledger = _ledger(row_pass, centre, name)
    nothing = _arrays(Statistics.nothing(centre))
    shapes = {key: array.shape for key, array in nothing.items()}
    held, first = ledger.restored(shapes) or (nothing, 0)
    if first and on_restored is not None:
        on_restored(first)
    total, tau, offset = held["scalars"].tolist()
    sums = Statistics(total, held["s"], held["G"], tau, offset, centre)
    if first < n_tasks:
        commit = passes.Commit(lambda n: ledger.save(_arrays(sums), n), first, checkpoint_seconds)
        row_pass.run(statistics_of, lambda *_: (centre,), lambda _a, _b, part: sums.add(part), commit)
        ledger.save(_arrays(sums), n_tasks)
    if not (np.isfinite(sums.tau) and np.isfinite(sums.G).all()):
        raise too_large(row_pass.kernel, row_pass.dtype)
    return sums


def too_large(kernel: Kernel, dtype: np.dtype[Any]) -> DataError:
    """What to say where similarities overflow."""
    more = ", or use precision: float64" if dtype != np.float64 else ""
    return DataError(
        f"kernel {kernel.name}: got values whose sums of squares {dtype} cannot hold, expected smaller ones; "
        f"scale the rows (scale: standard), or lower gamma or degree{more}"
    )


def _ledger(row_pass: RowPass, centre: Array, name: str) -> Ledger:
    if row_pass.store is None:
        return Ledger(None, name, [])
    weights, cut = row_pass.weights, row_pass.cut
    arrays = [row_pass.landmarks, centre, np.zeros(0) if weights is None else weights]
    sums = [zlib.crc32(np.ascontiguousarray(array).data) for array in arrays]
    sizes = [cut.n_rows, cut.task_rows, cut.read_rows, cut.block_rows]
    return Ledger(row_pass.store.checkpoints, f"{name}-{row_pass.dtype}", sums + sizes)


def _arrays(sums: Statistics) -> dict[str, Array]:
    return {"scalars": np.array([sums.total, sums.tau, sums.offset]), "s": sums.s, "G": sums.G}


def project_rows(row_pass: RowPass, D: Array, mean: Array, fold: Callable[[int, int, Array], None]) -> None:
    """(k_Z(x) − mean)ᵀ D of all rows, task by task: ``fold(first, end, values)``, in row order.

    With `Embedding.B` and `Embedding.mean` these are the training scores.
    """
    directions = passes.shared(D)
    row_pass.run(rows_projected, lambda *_: (directions, mean), fold)


def multiply(row_pass: RowPass, embedding: Embedding, V: Array) -> Array:
    """K̂~·V for V (n, w): the approximate centred Gram matrix, Z Zᵀ of the weighted scores; two passes."""
    root = np.ones(len(V)) if row_pass.weights is None else np.sqrt(row_pass.weights)
    mean, weighted = embedding.mean, root[:, None] * V
    gathered = np.zeros((len(mean), V.shape[1]))

    def add(_a: int, _b: int, part: Array) -> None:
        np.add(gathered, part, out=gathered)

    row_pass.run(rows_collected, lambda a, b: (weighted[a:b], mean), add)
    product = np.empty(V.shape)

    def put(a: int, b: int, part: Array) -> None:
        product[a:b] = part

    project_rows(row_pass, embedding.B @ (embedding.B.T @ gathered), mean, put)
    return root[:, None] * product


def landmark_block(
    rows: Rows,
    weights: Array,
    features: FeatureMap,
    width: int,
    dtype: np.dtype[Any],
    *,
    at_once: int | None = None,
    progress: Advance | None = None,
) -> Array:
    """Vectors (n, ≤ width) close to the leading eigenvectors of the centred Gram matrix.

    Two passes over the rows against m landmarks, n·m kernel values each.
    """
    kernel, landmarks = features.kernel, features.landmarks
    row_pass = RowPass(rows, weights, kernel, landmarks, dtype, None, at_once, progress)
    embedding = embed(features, accumulate(row_pass, features.centre)).leading(width).whitened()
    found: list[Array] = []
    project_rows(row_pass, embedding.B, embedding.mean, lambda _a, _b, part: found.append(part))
    return np.concatenate(found) * np.sqrt(weights)[:, None]


def landmark_matrix(rows: Rows, kernel: Kernel, landmarks: Array) -> Array:
    """K_mm of landmarks, (m, m) in float64; of a given matrix, read at their positions (m, 1)."""
    if not isinstance(kernel, Precomputed):
        return kernel.matrix(landmarks, landmarks)
    positions = [int(position) for position in np.ravel(landmarks)]
    return np.concatenate([rows.part(p, p + 1).load()[:, positions] for p in positions]).astype(np.float64)


def statistics_of(task: RowTask, landmarks: Rows, centre: Array) -> Statistics:
    """The task: statistics of its rows."""
    with np.errstate(over="ignore", invalid="ignore"):  # told by the caller
        return Statistics.of(_similar(task, landmarks, centre), centre)


def _similar(
    task: RowTask, landmarks: Rows, centre: Array
) -> Iterator[tuple[Array, Array | None, Array, Array]]:
    Z, near = task.operand(landmarks), centre.astype(task.dtype)
    buffer = np.empty((min(task.cut.block_rows, task.rows.shape[0]), len(centre)), task.dtype)
    for block, A in task.blocks():
        weights = None if task.weights is None else task.weights[block]
        terms = task.kernel.diagonal(A), task.kernel.offset(A)
        yield similarities(task.kernel, A, Z, near, buffer), weights, *terms


def rows_projected(task: RowTask, landmarks: Rows, D: Array, mean: Array) -> Array:
    """The task: `projected` of its rows, (n_rows, k)."""
    Z = task.operand(landmarks)
    return np.concatenate([projected(task.kernel, A, Z, D, mean, task.dtype) for _, A in task.blocks()])


def rows_collected(task: RowTask, landmarks: Rows, V: Array, mean: Array) -> Array:
    """The task: `collected` of its rows and their part of V, (m, w)."""
    Z, total = task.operand(landmarks), np.zeros((len(mean), V.shape[1]))
    for block, A in task.blocks():
        total += collected(task.kernel, A, Z, V[block], mean, task.dtype)
    return total
