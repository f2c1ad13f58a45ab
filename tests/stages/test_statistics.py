"""Passes against landmarks: sums, the vectors that they lead to, and what may interrupt them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import reference
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError
from kpca_stream.numerics import rowcut
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels import Polynomial, Precomputed, Preparation, Rbf
from kpca_stream.numerics.nystrom import Statistics, embed
from kpca_stream.stages.statistics import (
    RowPass,
    RowTask,
    accumulate,
    landmark_block,
    landmark_matrix,
    multiply,
    project_rows,
)
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows, Rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def _blas_as_in_a_fit() -> Iterator[None]:
    with single_threaded_blas():
        yield


def rows(n_samples: int = 300) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((n_samples, 3))


def features(X: NDArray[np.float64], n_landmarks: int) -> FeatureMap:
    return FeatureMap.of(Rbf(Preparation(X.mean(axis=0)), 0.2), X[:n_landmarks], np.float64)


def test_with_all_rows_as_landmarks_the_block_is_the_eigenvectors() -> None:
    """Where nothing is approximated, the block spans the leading eigenvectors of the centred Gram matrix."""
    X = rows(60)
    block = landmark_block(ArrayRows(X), np.ones(60), features(X, 60), 5, np.dtype(np.float64))
    vectors = np.linalg.eigh(reference.centred(reference.kernel("rbf", X, X, gamma=0.2)))[1][:, ::-1]
    np.testing.assert_allclose(np.abs(block.T @ vectors[:, :5]), np.eye(5), atol=1e-6)


def test_weights_count_as_copies() -> None:
    """A row of weight 2 acts as two rows: √2 times the entry of either."""
    X = rows(40)
    weights = np.where(np.arange(40) < 5, 2.0, 1.0)
    dtype = np.dtype(np.float64)
    merged = landmark_block(ArrayRows(X), weights, features(X, 40), 4, dtype)
    copies = np.concatenate([X, X[:5]])
    whole = landmark_block(ArrayRows(copies), np.ones(45), features(X, 40), 4, dtype)
    np.testing.assert_allclose(np.abs(merged / np.sqrt(weights)[:, None]), np.abs(whole[:40]), atol=1e-6)


def test_row_blocks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of vectors does not depend on how rows are cut into tasks."""
    X = rows()
    arguments = (ArrayRows(X), np.ones(300), features(X, 50), 6, np.dtype(np.float64))
    expected = landmark_block(*arguments)
    monkeypatch.setattr(rowcut, "BLOCK_ROWS", 37)
    np.testing.assert_allclose(np.abs(landmark_block(*arguments)), np.abs(expected), atol=1e-9)


@dataclass
class Stop:
    """Stops a pass as a kill would, once so many tasks have been folded and kept."""

    after: int
    done: list[int] = field(default_factory=list)

    def __call__(self, done: int, _total: int) -> None:
        self.done.append(done)
        if done >= self.after:
            raise KeyboardInterrupt


def small_tasks(monkeypatch: pytest.MonkeyPatch, block: int = 16, tasks: int = 2) -> None:
    """Tasks of so many blocks of 16 rows."""
    monkeypatch.setattr(rowcut, "BLOCK_ROWS", block)
    monkeypatch.setattr(rowcut, "task_seconds", lambda _: 0.0 if tasks == 1 else 1e-9)
    monkeypatch.setattr(rowcut, "row_seconds", lambda *_: 1e-9 / (block * tasks))


def row_pass(X: NDArray[np.float64], weights: NDArray[np.float64] | None = None, **options: Any) -> RowPass:
    kernel = Rbf(Preparation(X.mean(axis=0)), 0.2)
    return RowPass(ArrayRows(X), weights, kernel, X[:30], np.dtype(options.pop("dtype", float)), **options)


def centre_of(a_pass: RowPass) -> NDArray[np.float64]:
    return FeatureMap.of(a_pass.kernel, a_pass.landmarks, a_pass.dtype).centre


def equal(first: Statistics, second: Statistics) -> bool:
    """Whether two sums have the same bits."""
    values = (first.total, first.tau) == (second.total, second.tau)
    return values and np.array_equal(first.G, second.G) and np.array_equal(first.s, second.s)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_definition(
    dtype: str, *, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums over all tasks, about 0, are Σ w k, Σ w k kᵀ and Σ w k(x, x)."""
    small_tasks(monkeypatch)
    X = rows()
    weights = np.linspace(1, 3, 300) if weighted else None
    w = np.ones(300) if weights is None else weights
    found = accumulate(row_pass(X, weights, dtype=dtype), np.full(30, 0.4)).about(np.zeros(30))
    K = reference.kernel("rbf", X, X[:30], gamma=0.2)
    tolerance = {"float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(found.s, w @ K, rtol=tolerance)
    np.testing.assert_allclose(found.G, K.T @ (w[:, None] * K), rtol=10 * tolerance)
    assert (found.total, found.tau) == pytest.approx((w.sum(), w.sum()))


def test_any_number_of_workers_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums do not depend on how many tasks run at once."""
    small_tasks(monkeypatch)
    a_pass = row_pass(rows(), dtype="float32")
    centre = centre_of(a_pass)
    found = []
    for n_workers in (1, 2, 5):
        with dask.config.set(scheduler="threads", num_workers=n_workers):
            found.append(accumulate(a_pass, centre))
    assert len(a_pass.tasks) == 10
    assert equal(found[0], found[1])
    assert equal(found[0], found[2])


def test_sums_of_two_parts_are_those_of_all() -> None:
    """Today's rows and tomorrow's, added, give the components of both."""
    X = rows()
    a_pass = row_pass(X)
    centre = centre_of(a_pass)
    features = FeatureMap.of(a_pass.kernel, a_pass.landmarks, a_pass.dtype)
    parts = [accumulate(replace(a_pass, rows=ArrayRows(part)), centre) for part in (X[:110], X[110:])]
    expected = embed(features, accumulate(a_pass, centre)).eigenvalues
    found = embed(features, parts[0] + parts[1]).eigenvalues
    np.testing.assert_allclose(found, expected, atol=1e-11 * expected[0])
    np.testing.assert_allclose(found[:10], expected[:10], rtol=1e-10)


@pytest.mark.parametrize("after", [2, 4, 6, 8])
def test_an_interrupted_pass_goes_on_with_the_same_bits(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was folded and kept is not done again, nor counted twice."""
    small_tasks(monkeypatch)
    store = RunStore.open(tmp_path / "g")
    stop = Stop(after)
    a_pass = row_pass(rows(), store=store, at_once=1, progress=stop)
    centre = centre_of(a_pass)
    expected = accumulate(replace(a_pass, store=None, progress=None), centre)
    with pytest.raises(KeyboardInterrupt):
        accumulate(a_pass, centre, checkpoint_seconds=0)
    told: list[int] = []
    resumed = replace(a_pass, progress=lambda done, _: told.append(done))
    assert equal(accumulate(resumed, centre, checkpoint_seconds=0), expected)
    assert told == list(range(after + 1, 11))
    told.clear()
    assert equal(accumulate(resumed, centre), expected)
    assert told == []  # the whole sums are read


@pytest.mark.parametrize("change", ["landmarks", "centre", "weights", "tasks", "dtype"])
def test_sums_of_another_pass_are_not_taken(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept sums count only for the same landmarks, centre, weights, tasks and precision."""
    small_tasks(monkeypatch)
    a_pass = row_pass(rows(), store=RunStore.open(tmp_path / "g"))
    centre = centre_of(a_pass)
    accumulate(a_pass, centre)
    if change == "landmarks":
        a_pass = replace(a_pass, landmarks=a_pass.landmarks + 1)
    elif change == "weights":
        a_pass = replace(a_pass, weights=np.full(300, 2.0))
    elif change == "tasks":
        small_tasks(monkeypatch, tasks=3)
    elif change == "dtype":
        a_pass = replace(a_pass, dtype=np.dtype(np.float32))
    centre = centre + 0.5 * (change == "centre")
    expected = accumulate(replace(a_pass, store=None), centre)
    assert equal(accumulate(a_pass, centre), expected)


def test_a_given_matrix_is_taken_by_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a precomputed kernel landmarks are positions, and the result is that of the kernel itself."""
    small_tasks(monkeypatch)
    X = rows(200)
    positions = np.array([[150], [3], [77], [4], [199], [20]])
    matrix = ArrayRows(reference.kernel("rbf", X, X, gamma=0.2))
    kernel = Precomputed(Preparation())
    given = RowPass(matrix, None, kernel, positions, np.dtype(float))
    K_mm = landmark_matrix(matrix, kernel, positions)
    features = FeatureMap.of(kernel, positions, np.float64, K=K_mm)
    found = embed(features, accumulate(given, features.centre))
    own = Rbf(Preparation(X.mean(axis=0)), 0.2)
    Z = X[positions[:, 0]]
    same = FeatureMap.of(own, Z, np.float64)
    np.testing.assert_allclose(K_mm, landmark_matrix(ArrayRows(X), own, Z), atol=1e-14)
    computed = RowPass(ArrayRows(X), None, own, Z, np.dtype(float))
    expected = embed(same, accumulate(computed, same.centre))
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-10)
    assert found.residual_trace == pytest.approx(expected.residual_trace)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_approximate_operator_has_the_embedding_as_eigenpairs(
    *, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K̂~ times the whitened scores is the scores times their eigenvalues, and 0 for what is constant."""
    small_tasks(monkeypatch)
    X = rows()
    weights = np.linspace(1, 3, 300) if weighted else None
    root = np.ones(300) if weights is None else np.sqrt(weights)
    a_pass = row_pass(X, weights)
    features = FeatureMap.of(a_pass.kernel, a_pass.landmarks, a_pass.dtype)
    embedding = embed(features, accumulate(a_pass, features.centre))
    whitened = embedding.leading(5).whitened()
    U = np.empty((300, 5))

    def put(a: int, b: int, scores: NDArray[np.float64]) -> None:
        U[a:b] = scores

    project_rows(a_pass, whitened.B, whitened.mean, put)
    U *= root[:, None]
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(
        multiply(a_pass, embedding, np.column_stack([U, root])),
        np.column_stack([U * embedding.eigenvalues[:5], np.zeros(300)]),
        atol=1e-8 * embedding.eigenvalues[0],
    )


def test_values_too_large_for_their_sums_are_refused() -> None:
    """Sums that overflow are an error that names the kernel and the remedies."""
    X = rows() * 1e12
    kernel = Polynomial(Preparation(), 1.0, 2, 1.0)
    a_pass = RowPass(ArrayRows(X), None, kernel, X[:5], np.dtype(np.float32))
    with pytest.raises(DataError, match=r"kernel poly: .*float32.*precision: float64"):
        accumulate(a_pass, np.zeros(5))


def test_tasks_carry_an_address_where_there_is_a_store(tmp_path: Path) -> None:
    """With a store the landmarks are read by the workers, and are gone when the run is over."""
    store = RunStore.open(tmp_path / "g")
    a_pass = row_pass(rows(), store=store)
    sizes = []

    def fold(_a: int, _b: int, size: int) -> None:
        sizes.append(size)

    for each in (a_pass, replace(a_pass, landmarks=np.repeat(a_pass.landmarks, 100, axis=0))):
        each.run(size_of_landmarks, lambda *_: (), fold)
    assert sizes[1] < sizes[0] + 100
    assert (tmp_path / "g" / "landmarks.npy").exists()
    store.finish()
    assert not (tmp_path / "g" / "landmarks.npy").exists()


def size_of_landmarks(_task: RowTask, landmarks: Rows) -> int:
    return len(pickle.dumps(landmarks))


KILLED = """
import sys
from pathlib import Path
from tests.stages.test_statistics import long_pass
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.stages.statistics import accumulate
with single_threaded_blas():
    a_pass, centre = long_pass(Path(sys.argv[1]), lambda done, total: print(done, flush=True))
    accumulate(a_pass, centre, checkpoint_seconds=0)
"""


def long_pass(folder: Path, progress: Any = None) -> tuple[RowPass, NDArray[np.float64]]:
    """A pass of some dozen tasks that keeps its sums in `folder`."""
    X = np.random.default_rng(0).standard_normal((300_000, 3))
    kernel = Rbf(Preparation(X.mean(axis=0)), 0.2)
    store = RunStore.open(folder)
    a_pass = RowPass(ArrayRows(X), None, kernel, X[:600], np.dtype(np.float32), store, 2, progress)
    return a_pass, centre_of(a_pass)


@pytest.mark.slow
def test_a_pass_killed_five_times_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Killed at five seeded moments, a pass goes on each time, and no task is counted twice."""
    moments = np.sort(np.random.default_rng(7).choice(np.arange(1, 7), 5, replace=False)) * 2
    told: list[int] = []
    for moment in moments:
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "g")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(int(line))
                if told[-1] >= moment:
                    process.kill()
                    break
        assert process.returncode == -signal.SIGKILL
    assert told == sorted(told)
    rest: list[int] = []
    a_pass, centre = long_pass(tmp_path / "g", lambda done, _: rest.append(done))
    found = accumulate(a_pass, centre)
    assert rest[0] > moments[-1]
    assert equal(found, accumulate(replace(a_pass, store=None, progress=None), centre))
    assert found.total == 300_000
