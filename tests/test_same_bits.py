"""The same call gives the same bits, and a small one leaves no trace."""

from __future__ import annotations

import gc
import pickle
import tempfile
from pathlib import Path
from typing import Any

import cases
import dask.array as da
import numpy as np
import pytest
from converters import as_dask, as_zarr, rows
from dask.callbacks import Callback
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kpca_stream import KernelPCA, inputs
from kpca_stream.errors import ConvergenceError

Array = NDArray[Any]


def test_the_same_call_twice() -> None:
    """Two fits of the same rows with the same parameters agree to the bit, whatever happens in between."""
    X = rows(700)
    first = KernelPCA(4, kernel="rbf", eigen_solver="lanczos").fit(X)
    np.random.default_rng().standard_normal(10)
    second = KernelPCA(4, kernel="rbf", eigen_solver="lanczos").fit(X)
    for name in ("eigenvectors_", "eigenvalues_", "row_means_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.transform(X), second.transform(X))


def test_random_state_is_taken_as_in_scikit_learn() -> None:
    """A number, a RandomState or None are accepted, and give the same answer to rounding."""
    X = rows(300)
    states = [0, 7, np.random.RandomState(3), None]
    found = [
        KernelPCA(3, kernel="rbf", eigen_solver="lanczos", random_state=state).fit_transform(X)
        for state in states
    ]
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], atol=1e-9)
    np.testing.assert_array_equal(found[0], found[3])


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
def test_the_callers_blas_threads(eigen_solver: str) -> None:
    """Bits do not depend on the BLAS threads that the caller set, and that setting is back afterwards."""
    X = rows(700, 30)
    controller = ThreadpoolController().select(user_api="blas")
    found = []
    for n_threads in (1, 2):
        with controller.limit(limits=n_threads):
            before = [library["num_threads"] for library in controller.info()]
            model = KernelPCA(4, kernel="rbf", eigen_solver=eigen_solver)
            found.append((model.fit_transform(X), model.transform(X), model.reconstruction_error(X)))
            assert [library["num_threads"] for library in controller.info()] == before
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_the_number_of_threads_changes_no_bit(n_jobs: int) -> None:
    """`n_jobs` steers how many tasks run at once, and nothing else."""
    X = rows(700)
    expected = KernelPCA(3, kernel="rbf", eigen_solver="lanczos", storage="recompute").fit(X)
    model = KernelPCA(3, kernel="rbf", eigen_solver="lanczos", storage="recompute", n_jobs=n_jobs).fit(X)
    np.testing.assert_array_equal(model.eigenvectors_, expected.eigenvectors_)


@pytest.mark.cluster
@pytest.mark.parametrize("storage", ["memory", "recompute", "zarr"])
@pytest.mark.parametrize("given", [np.asarray, lambda X: da.from_array(X, chunks=(900, 4))])
def test_an_active_client_gives_the_same_bits(two_processes: Any, storage: str, given: Any) -> None:
    """On the processes of the client that is active, fit and scoring give the bits that threads give."""
    assert two_processes.status == "running"
    X = rows(2600)
    parameters: dict[str, Any] = {
        "kernel": "rbf",
        "gamma": 0.2,
        "eigen_solver": "lanczos",
        "precision": "mixed",
    }
    model = KernelPCA(3, storage=storage, **parameters).fit(given(X))
    scores = np.asarray(model.transform(given(X)))
    alone = KernelPCA(3, storage="memory", n_jobs=2, **parameters).fit(X)
    np.testing.assert_array_equal(model.eigenvectors_, alone.eigenvectors_)
    np.testing.assert_allclose(scores, alone.transform(X), atol=1e-12)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


class TaskCounter(Callback):
    """Counts the tasks that Dask starts."""

    def __init__(self) -> None:
        super().__init__(pretask=self._count)  # type: ignore[no-untyped-call]
        self.n_tasks = 0

    def _count(self, *_: Any) -> None:
        self.n_tasks += 1


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_small_fit_runs_in_the_caller(temporary: Path, eigen_solver: str, dtype: Any) -> None:
    """150 rows are fitted and scored without a Dask graph and without a file."""
    X = rows().astype(dtype)
    with TaskCounter() as counter:
        model = KernelPCA(3, kernel="rbf", eigen_solver=eigen_solver).fit(X)
        model.transform(X)
        model.reconstruction_error(X)
    assert counter.n_tasks == 0
    assert list(temporary.iterdir()) == []


def test_nothing_is_left_behind(temporary: Path) -> None:
    """The store of a fit with storage="zarr" is gone after it."""
    model = KernelPCA(3, kernel="rbf", storage="zarr", eigen_solver="lanczos").fit(rows())
    assert model.transform(rows()).shape == (150, 3)
    assert list(temporary.iterdir()) == []


def test_not_converged_says_what_to_change() -> None:
    """Too few passes are an error that says how many components converged and names the parameters."""
    case = cases.flat_spectrum()
    model = KernelPCA(5, eigen_solver="lanczos", max_iter=3, **case.parameters)
    with pytest.raises(
        ConvergenceError, match=r"of 5 components converged in 3 passes .*raise max_iter, raise tol"
    ):
        model.fit(case.X)
    model.set_params(max_iter=None).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    assert (model.residual_norms_ <= 1e-12 * model.eigenvalues_[0]).all()


@pytest.mark.parametrize("convert", [as_dask, as_zarr])
def test_rows_beyond_the_memory_share_lie_on_disk(
    temporary: Path, tmp_path: Path, convert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that memory must not hold are written once, and kept as long as the model; a pickle holds them."""
    monkeypatch.setattr(inputs, "IN_MEMORY_SHARE", 1e-7)
    X = (10 * rows(300)).astype(np.int64)
    model = KernelPCA(3).fit(convert(X, tmp_path))
    assert len(list(temporary.iterdir())) == 1
    expected = X[:50] - X.mean(axis=0)
    scores = model.transform(X[:50])
    error = (expected**2).sum(axis=1) - (scores**2).sum(axis=1)
    np.testing.assert_allclose(model.reconstruction_error(X[:50]), error, rtol=1e-9)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  our own bytes
    del model
    gc.collect()
    assert list(temporary.iterdir()) == []
    np.testing.assert_array_equal(again.transform(X[:50]), scores)
