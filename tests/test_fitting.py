"""A fit's own rules: what is chosen, γ, shares, rows and thresholds."""

from __future__ import annotations

import warnings
from typing import Any

import cases
import numpy as np
import pytest
import reference
from fits import fitted, plan, rows, solvers
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from kpca_stream import KernelPCA
from kpca_stream.errors import ConfigError, ConvergenceError, DataError
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.stages.scoring import score_block
from kpca_stream.storage.rows import ArrayRows

Array = NDArray[Any]


@pytest.mark.parametrize(
    ("n_samples", "dtype", "settings", "precision"),
    [
        (100, np.float32, {}, "float32"),
        (100_000, np.float32, {}, "float32"),
        (5000, np.float64, {}, "float64"),
        (5001, np.float64, {}, "mixed"),
        (5000, np.uint16, {}, "float64"),
        (5001, np.int64, {}, "mixed"),
        (5001, np.float64, {"tol": 1e-8}, "float64"),
        (5001, np.float64, {"tol": 1e-6}, "mixed"),
        (5001, np.float64, {"precision": "float32"}, "float32"),
        (100, np.float32, {"precision": "mixed", "method": "lanczos"}, "mixed"),
        (100, np.float64, {"precision": "mixed", "method": "dense"}, "float64"),
        (6000, np.float64, {"method": "dense"}, "float64"),
    ],
)
def test_precision_follows_input_and_size(
    n_samples: int, dtype: Any, settings: dict[str, Any], precision: str
) -> None:
    """Float32 stays; else float64 to 5,000 rows, beyond them mixed but for a small tolerance or dense."""
    assert plan(n_samples, dtype, **settings).precision == precision


@pytest.mark.parametrize(
    ("precision", "tol", "expected"),
    [("float32", 0, 1e-6), ("mixed", 0, 1e-6), ("float64", 0, 1e-13), ("float64", 1e-3, 1e-3)],
)
def test_tolerance_zero_is_automatic(precision: Any, tol: float, expected: float) -> None:
    """Tolerance 0 means 1e-6 in float32 and mixed, and 1e-13 in float64."""
    assert plan(100, precision=precision, method="lanczos", tol=tol).tol == expected


@pytest.mark.parametrize(
    ("n_samples", "n_components", "method"),
    [
        (100, 5, "dense"),
        (3000, 10, "lanczos"),
        (3000, 600, "dense"),
        (3000, None, "dense"),
        (3000, 0.9, "lanczos"),
        (20_000, 5000, "lanczos"),
    ],
)
def test_dense_is_for_few_rows_or_many_components(
    n_samples: int, n_components: float | None, method: str
) -> None:
    """Dense is taken where it is faster, and never beyond 5,000 rows unasked."""
    assert plan(n_samples, n_components=n_components, memory_limit=2**40).method == method


def test_all_components_of_many_rows_are_refused() -> None:
    """None beyond what dense can take is refused with the memory it would need; by name it is taken."""
    with pytest.raises(
        ConfigError, match=r"of 20000 rows needs a dense solve of 17.9 GiB.* solver.method: dense"
    ):
        plan(20_000, n_components=None)
    with pytest.raises(ConfigError, match=r"or set eigen_solver='dense'"):
        KernelPCA(kernel="rbf").fit(np.zeros((5001, 1)))
    refusal = plan(20_000, n_components=None, method="dense").refusals()[0]
    assert refusal.startswith("needs 2")
    assert "limits.memory is 4.0 GiB" in refusal
    assert plan(20_000, n_components=None, method="dense", memory_limit=2**35).refusals() == ()


def test_refusals_name_the_way_out_as_the_caller_writes_it() -> None:
    """Too little memory or disk is told with keys of the configuration, or with Python's parameters."""
    settings: dict[str, Any] = {
        "n_components": 5,
        "method": "lanczos",
        "disk_limit": 2**30,
        "storage": "zarr",
    }
    refusals = plan(100_000, memory_limit=2**20, **settings).refusals()
    assert "raise limits.memory" in refusals[0]
    assert refusals[1].endswith("set gram.storage: recompute or raise limits.disk")
    memory = plan(100_000, n_components=5, storage="memory").refusals()[0]
    assert memory.endswith("set gram.storage: recompute (or zarr), or raise limits.memory")
    with pytest.raises(
        ConfigError, match=r"ask for fewer components or precision='float32', or raise memory"
    ):
        KernelPCA(300, eigen_solver="lanczos", memory_limit="220MiB").fit(rows(4000, 50))


def test_a_remedy_is_named_only_where_it_helps() -> None:
    """What would still need more than the limit is not advised: then the limit alone is named."""
    for settings in ({}, {"method": "lanczos", "n_components": 3}, {"method": "nystrom"}):
        (alone,) = plan(60, memory_limit=100 * 2**20, **settings).refusals()
        assert alone.endswith("limits.memory is 100.0 MiB: raise limits.memory")
    helped = plan(4000, memory_limit=300 * 2**20, n_components=None).refusals()[0]
    assert helped.endswith("set solver.method: lanczos with a number of components, or raise limits.memory")


@pytest.mark.parametrize("n_samples", [2, 7, 600])
def test_median_gamma(n_samples: int) -> None:
    """Rule "median" is 1/(2·median²) of pairwise distances, for laplacian 1/median of the L1 ones."""
    X = 3 * rows(n_samples)
    assert KernelPCA(1, kernel="rbf", gamma="median").fit(X).gamma_ == pytest.approx(
        1 / (2 * np.median(pdist(X)) ** 2), rel=1e-12
    )
    assert KernelPCA(1, kernel="laplacian", gamma="median").fit(X).gamma_ == pytest.approx(
        1 / np.median(pdist(X, "cityblock")), rel=1e-12
    )


def test_scale_gamma() -> None:
    """Rule "scale" is 1/(d · var(X)) over all values, as in scikit-learn's support vector machines."""
    X = rows() * [1, 5, 0.1, 3] + [0, 9, 0, 1]
    for name in ("rbf", "laplacian", "poly"):
        gamma = KernelPCA(1, kernel=name, gamma="scale").fit(X).gamma_
        assert gamma == pytest.approx(1 / (4 * X.var()), rel=1e-12)


def test_rules_for_gamma_need_rows_that_differ() -> None:
    """A median distance or a variance of 0 gives no γ."""
    with pytest.raises(ConfigError, match='"median" needs rows that differ'):
        KernelPCA(1, kernel="rbf", gamma="median").fit(np.r_[np.zeros((9, 2)), np.ones((1, 2))])
    with pytest.raises(ConfigError, match='"scale" needs values that vary'):
        KernelPCA(1, kernel="rbf", gamma="scale").fit(np.ones((9, 2)))


@solvers
@pytest.mark.parametrize("share", [0.3, 0.8, 0.95])
def test_a_share_takes_the_fewest_components(eigen_solver: str, share: float) -> None:
    """The components of a share make it up, and one fewer would not."""
    X = rows(200, 3)
    model = KernelPCA(share, kernel="rbf", eigen_solver=eigen_solver).fit(X)
    ratios = model.explained_variance_ratio_
    assert ratios.sum() >= share
    assert ratios[:-1].sum() < share
    truth = reference.solve(reference.kernel("rbf", X, X, gamma=1 / 3), len(ratios))
    np.testing.assert_allclose(ratios, truth.eigenvalues / truth.trace, rtol=1e-9)


@solvers
def test_a_share_beyond_the_limit_is_an_error(eigen_solver: str) -> None:
    """More than max_components would be needed: the error says which share these reach."""
    X = rows(200, 3)
    reached = KernelPCA(4, kernel="rbf").fit(X).explained_variance_ratio_.sum()
    model = KernelPCA(0.99, kernel="rbf", max_components=4, eigen_solver=eigen_solver, max_iter=9)
    with pytest.raises(
        ConvergenceError, match=f"4 components certify {reached:.4f} of the variance, asked for 0.99"
    ):
        model.fit(X)


def test_a_constant_column_changes_nothing() -> None:
    """At a given γ a constant column leaves the eigenvalues as they are, and standardises to 0."""
    case = cases.constant_column()
    model = KernelPCA(3, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)
    without = KernelPCA(3, **case.parameters).fit(case.X[:, :3])
    np.testing.assert_allclose(model.eigenvalues_, without.eigenvalues_, rtol=1e-10)
    scaled, bare = (fitted(X, scale=True) for X in (case.X, case.X[:, :3]))
    np.testing.assert_allclose(scaled.basis.eigenvalues, bare.basis.eigenvalues, rtol=1e-10)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly", "cosine"])
def test_standardised_rows_are_those_of_a_scaler(name: str) -> None:
    """scale: standard is kept in the basis and applied at scoring."""
    X = rows() * [1, 50, 0.1, 3] + [0, 9, -4, 1]
    spec = KernelSpec(name, gamma=0.2, degree=2)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    found, expected = fitted(X, spec, scale=True), fitted((X - mean) / deviation, spec)
    np.testing.assert_allclose(found.basis.eigenvalues, expected.basis.eigenvalues, rtol=1e-10)
    a, b = (
        score_block(f.basis, ArrayRows(new)) for f, new in ((found, X), (expected, (X - mean) / deviation))
    )
    np.testing.assert_allclose(a.scores, b.scores, atol=1e-10)
    errors = np.asarray(a.reconstruction_error), np.asarray(b.reconstruction_error)
    np.testing.assert_allclose(*errors, atol=1e-10)
    np.testing.assert_allclose(found.basis.row_means, expected.basis.row_means, rtol=1e-9, atol=1e-12)


def test_dropped_rows_leave_the_model_of_the_others() -> None:
    """on_missing: drop fits the complete rows and counts the others."""
    X = rows(600, seed=805)
    X[17, 1] = X[256, 3] = np.nan
    X[300, 0] = np.inf
    with pytest.raises(DataError, match=r"3 rows have missing or infinite values; the first is .*row 17"):
        fitted(X)
    found = fitted(X, on_missing="drop")
    assert (found.n_dropped, found.basis.n_rows) == (3, 597)
    expected = fitted(X[np.isfinite(X).all(axis=1)])
    np.testing.assert_allclose(found.basis.eigenvalues, expected.basis.eigenvalues, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_complete_model_tells_no_row_by_rounding(dtype: Any) -> None:
    """Where all variance is kept, errors are rounding, and novelty rests on T² at the whole asked level."""
    X, X_new = (rows(n, 3, seed=n).astype(dtype) for n in (2000, 8000))
    found = fitted(X, KernelSpec("linear"), n_components=3, method="lanczos", quantile=0.95)
    scores = score_block(found.basis, ArrayRows(X_new))
    limits = found.basis.thresholds
    assert scores.reconstruction_error is not None
    assert (scores.reconstruction_error <= limits.reconstruction_error).all()
    assert (scores.hotelling_t2 > limits.hotelling_t2).mean() == pytest.approx(0.05, abs=0.015)


def test_fresh_rows_pass_the_thresholds_as_often_as_asked() -> None:
    """Thresholds from the fitted rows alone: of fresh ones about the asked share is told novel."""
    shares = []
    for seed in range(8):
        found = fitted(rows(400, 3, seed=seed), quantile=0.95, n_components=5)
        scores = score_block(found.basis, ArrayRows(rows(2000, 3, seed=100 + seed)))
        shares.append(float(scores.novelty.mean()))
    assert 0.03 < np.mean(shares) < 0.075


def test_nothing_is_warned_of_without_reason() -> None:
    """A sound fit is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("linear", "poly", "rbf", "laplacian", "cosine"):
            KernelPCA(3, kernel=name).fit(rows())


def test_tiles_stay_in_memory_as_far_as_the_limit_goes() -> None:
    """Chosen automatically, part of the tiles is held and the rest computed again, to the same bits."""
    X = rows(6000, 8)
    limit = {"tile_rows": 512, "memory_limit": 220 * 2**20, "precision": "float32"}
    part, none = (fitted(X, KernelSpec("rbf"), storage=storage, **limit) for storage in ("auto", "recompute"))
    assert 0 < part.plan.memory_tasks < part.plan.grid.n_tasks
    assert part.counts.made < none.counts.made
    assert np.array_equal(part.pairs.eigenvectors, none.pairs.eigenvectors)
