"""Laws of approximate kernel PCA, through KernelPCA, against a dense float64 reference."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import reference
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpca_stream import KernelPCA, load_basis
from kpca_stream.approximation import NystromSettings
from kpca_stream.errors import ConfigError, ConvergenceError, DataError, KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.forecast import Shape
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.numerics.rowcut import RowCut
from kpca_stream.storage.source import open_source
from kpca_stream.telemetry import silent
from kpca_stream.verification import verify_store

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore:residual trace:kpca_stream.errors.KpcaStreamWarning")


def clusters(n_samples: int = 800, n_features: int = 6, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((8, n_features))
    return np.asarray(centres[rng.integers(0, 8, n_samples)] + rng.standard_normal((n_samples, n_features)))


def model(n_components: Any = 4, **changes: Any) -> KernelPCA:
    """An approximate model in float64."""
    given = {"kernel": "rbf", "gamma": 0.05, "precision": "float64", "n_landmarks": 60, **changes}
    return KernelPCA(n_components, eigen_solver="nystrom", **given)


def exact_values(X: Array, weights: Array | None = None, gamma: float = 0.05) -> Array:
    return reference.spectrum(reference.kernel("rbf", X, X, gamma=gamma), weights)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [KernelPCA(2, kernel="rbf", eigen_solver="nystrom", n_landmarks=5)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "weights change which landmarks are chosen"
    },
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: KernelPCA, check: Any) -> None:
    """All checks that scikit-learn has for estimators pass, but for weights where landmarks are chosen."""
    check(estimator)


def test_all_rows_as_landmarks_give_exact_kernel_pca() -> None:
    """With every row a landmark, eigenvalues, scores and errors are those of exact kernel PCA to 1e-8."""
    X = clusters(300)
    found = model(landmarks=X).fit(X)
    exact = KernelPCA(4, kernel="rbf", gamma=0.05, eigen_solver="dense").fit(X)
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    new = clusters(50, seed=3)
    np.testing.assert_allclose(np.abs(found.transform(new)), np.abs(exact.transform(new)), atol=1e-7)
    np.testing.assert_allclose(found.reconstruction_error(new), exact.reconstruction_error(new), atol=1e-7)


@pytest.mark.parametrize("shape", [(2000, 16), pytest.param((48_000, 16), marks=pytest.mark.slow)])
def test_a_linear_kernel_with_enough_landmarks_is_pca(shape: tuple[int, int]) -> None:
    """As many landmarks as columns span all rows: eigenvalues are PCA's, and scores have mean 0."""
    X = np.random.default_rng(1).standard_normal(shape) * np.linspace(1, 4, shape[1]) + 7
    found = model(5, kernel="linear", gamma=None, landmarks="rpcholesky", n_landmarks=40).fit(X)
    pca = PCA(5, svd_solver="full").fit(X)
    np.testing.assert_allclose(found.explained_variance_, pca.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(found.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(found.transform(X).mean(axis=0), 0, atol=1e-8)


@pytest.mark.parametrize("seed", range(30))
def test_brackets_hold_for_every_component(seed: int) -> None:
    """Exact eigenvalues lie between the approximate one and that plus either certified bound."""
    rng = np.random.default_rng(seed)
    X = clusters(int(rng.integers(60, 250)), int(rng.integers(1, 7)), seed)
    settings = FitSettings(
        kernel=KernelSpec("rbf", float(rng.uniform(0.005, 0.1))),
        n_components=8,
        method="nystrom",
        precision="float64",
        on_indefinite="warn",
        nystrom=NystromSettings(n_landmarks=int(rng.integers(5, 50)), bound="probabilistic"),
        seed=seed,
    )
    found = fit(open_source(X), settings)
    values = found.basis.eigenvalues
    exact = exact_values(X, gamma=settings.kernel.gamma)[: len(values)]  # type: ignore[arg-type]
    slack = 1e-9 * exact[0]
    assert [bound.kind for bound in found.certificates] == ["trace", "probabilistic"]
    for bound in found.certificates:
        low, high = bound.brackets(values, np.asarray(found.basis.facts["rounding"])).T
        assert bound.certified
        assert (low - slack <= exact).all()
        assert (exact <= high + slack).all()


def test_any_order_and_split_of_the_rows_give_the_same() -> None:
    """Rows in any order, and added in any parts, give the same eigenvalues to 1e-10."""
    X = clusters()
    Z = X[:60]
    expected = model(landmarks=Z).fit(X).eigenvalues_
    rng = np.random.default_rng(2)
    for cuts in ([300], [61, 62, 63, 400], [700, 750]):
        shuffled = X[rng.permutation(len(X))]
        found = model(landmarks=Z)
        for part in np.split(shuffled, cuts):
            found.partial_fit(part)
        np.testing.assert_allclose(found.eigenvalues_, expected, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_added_later_count_as_if_fitted_at_once(*, weighted: bool) -> None:
    """Fit on A and then on B is the fit on both with the landmarks of A: eigenvalues, scores, means."""
    X, new = clusters(), clusters(40, seed=5)
    w = np.random.default_rng(3).uniform(0.5, 3, len(X)) if weighted else None
    found = model().fit(X[:500], sample_weight=None if w is None else w[:500])
    landmarks = found.X_fit_
    found.partial_fit(X[500:], sample_weight=None if w is None else w[500:])
    expected = model(landmarks=landmarks).fit(X, sample_weight=w)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(found.transform(new), expected.transform(new), atol=1e-9)
    np.testing.assert_allclose(found.grand_mean_, expected.grand_mean_, rtol=1e-10)
    np.testing.assert_allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=1e-9)


def test_rows_may_come_one_by_one() -> None:
    """Weighted rows that are added each for itself count as if they had come together."""
    X, w = clusters(90), np.random.default_rng(3).uniform(0.5, 3, 90)
    found = model(landmarks=X[:60]).partial_fit(X[:70], sample_weight=w[:70])
    for row in range(70, 90):
        found.partial_fit(X[row : row + 1], sample_weight=w[row : row + 1])
    expected = model(landmarks=X[:60]).fit(X, sample_weight=w)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(found.eigenvalue_bounds_, expected.eigenvalue_bounds_, rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_single_precision_keeps_the_leading_eigenvalues(offset: float) -> None:
    """Of float32 rows ten components are kept, to 1e-4 of what float64 makes of the same landmarks."""
    X = (clusters(5000, 10) + offset).astype(np.float32)
    found = model(10, precision="float32", n_landmarks=200, gamma=0.02).fit(X)
    rows = X.astype(np.float64)
    expected = model(10, landmarks=found.X_fit_, gamma=0.02).fit(rows)
    assert len(found.eigenvalues_) == 10
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-4)
    exact = np.linalg.eigvalsh(reference.centred(reference.kernel("rbf", rows[::10], rows[::10], gamma=0.02)))
    sampled = model(10, precision="float32", n_landmarks=200, gamma=0.02).fit(X[::10])
    low, high = sampled.eigenvalue_bounds_.T
    assert ((low <= exact[::-1][:10]) & (exact[::-1][:10] <= high)).all()


@pytest.mark.parametrize("precision", ["auto", "float64"])
@pytest.mark.parametrize(("n_samples", "n_landmarks"), [(300, 250), (6000, 10)])
def test_scores_are_of_the_type_of_the_rows(n_samples: int, n_landmarks: int, precision: str) -> None:
    """Float32 rows have float32 scores, and others float64 ones, whatever the landmarks needed."""
    X = clusters(n_samples)
    found = model(2, precision=precision, n_landmarks=n_landmarks)
    assert found.fit_transform(X).dtype == np.float64
    asked = np.float32 if precision == "auto" else np.float64
    assert found.fit_transform(X.astype(np.float32)).dtype == asked


def test_a_weight_of_two_is_a_row_twice() -> None:
    """Integer weights give what repeated rows give, thresholds aside; so does merging them."""
    X = clusters(200)
    copies = np.random.default_rng(0).integers(1, 4, len(X))
    repeated, Z = np.repeat(X, copies, axis=0), X[:40]
    weighted = model(landmarks=Z).fit(X, sample_weight=copies.astype(float))
    merged = model(landmarks=Z, merge_duplicates=True).fit(repeated)
    plain = model(landmarks=Z).fit(repeated)
    for found in (weighted, merged):
        np.testing.assert_allclose(found.eigenvalues_, plain.eigenvalues_, rtol=1e-10)
        np.testing.assert_allclose(found.reconstruction_error(X), plain.reconstruction_error(X), atol=1e-10)


def test_reconstruction_error_is_a_distance_in_the_embedding() -> None:
    """e(x) is k(x, x) − ‖f‖² beyond the landmarks and, within them, the distance to the components' span."""
    X, new = clusters(400), clusters(30, seed=9)
    found = model(landmarks=X[:50]).fit(X)
    K_zz = reference.kernel("rbf", X[:50], X[:50], gamma=0.05)
    values, U = np.linalg.eigh(K_zz)
    P = U / np.sqrt(values)
    f, f_new = (reference.kernel("rbf", rows, X[:50], gamma=0.05) @ P for rows in (X, new))
    centred = f - f.mean(axis=0)
    _, _, V = np.linalg.svd(centred, full_matrices=False)
    apart = f_new - f.mean(axis=0)
    inside = (apart**2).sum(axis=1) - ((apart @ V[:4].T) ** 2).sum(axis=1)
    expected = 1 - (f_new**2).sum(axis=1) + inside
    np.testing.assert_allclose(found.reconstruction_error(new), expected, atol=1e-9)


def test_the_explained_ratio_is_a_lower_bound() -> None:
    """The share that is told is at most the exact one, in sum, whatever the landmarks are."""
    X = clusters(300)
    spectrum = exact_values(X)
    for n_landmarks in (5, 20, 100):
        told = model(4, n_landmarks=n_landmarks).fit(X).explained_variance_ratio_.sum()
        assert told <= spectrum[:4].sum() / spectrum.sum() + 1e-12


def many() -> Array:
    """Rows that a pass by 300 landmarks cuts into several tasks."""
    X = clusters(40_000, 4)
    cut = RowCut.of(Shape(*X.shape, 1, "rbf", 8), 300)
    assert len(X) > 3 * cut.task_rows
    return X


@pytest.mark.parametrize("n_workers", [2, 4])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_any_number_of_workers_gives_the_same_bits(n_workers: int, precision: str) -> None:
    """The sums are folded in the order of the rows, whoever made them."""
    X = many()
    one, more = (
        model(n_jobs=n, precision=precision, landmarks=X[:300], tol=0.1).fit(X) for n in (1, n_workers)
    )
    assert np.array_equal(one.eigenvalues_, more.eigenvalues_)
    assert np.array_equal(one.transform(X[:50]), more.transform(X[:50]))


@pytest.mark.cluster
@pytest.mark.parametrize("storage", ["memory", "zarr"])
def test_processes_give_the_same_bits_as_threads(two_processes: Any, storage: str) -> None:
    """On two local processes a fit, and rows added to it, come to the bits that one thread comes to."""
    assert two_processes.status == "running"
    X = many()
    found = model(landmarks="kmeans", n_landmarks=300, storage=storage).fit(X).partial_fit(X[:10_000])
    alone = model(landmarks="kmeans", n_landmarks=300, n_jobs=1).fit(X).partial_fit(X[:10_000])
    assert np.array_equal(found.X_fit_, alone.X_fit_)
    assert np.array_equal(found.eigenvalues_, alone.eigenvalues_)
    assert np.array_equal(found.transform(X[:50]), alone.transform(X[:50]))


@pytest.mark.parametrize("landmarks", ["auto", "kmeans", "rpcholesky", "uniform"])
def test_every_choice_of_landmarks_is_near_the_exact_answer(landmarks: str) -> None:
    """Leading eigenvalues are below the exact ones by less than the bound, and by little."""
    X = clusters()
    found = model(landmarks=landmarks, n_landmarks=150).fit(X)
    exact = exact_values(X)[:4]
    assert (found.eigenvalues_ <= exact).all()
    np.testing.assert_allclose(found.eigenvalues_, exact, rtol=0.02)
    assert (exact <= found.eigenvalue_bounds_[:, 1]).all()


@pytest.mark.parametrize("kernel", ["poly", "cosine", "laplacian"])
def test_other_kernels(kernel: str) -> None:
    """Kernels without centres of clusters, or of another distance, are approximated from below as well."""
    X = clusters(300, 3)
    given = {"gamma": 0.1, "degree": 2, "coef0": 1.0}
    found = model(3, kernel=kernel, n_landmarks=120, **given).fit(X)
    K = reference.kernel(kernel, X, X, **given)
    exact = reference.spectrum(K)[:3]
    np.testing.assert_allclose(found.eigenvalues_, exact, rtol=0.05)
    assert (found.eigenvalues_ <= exact * (1 + 1e-9)).all()


def test_landmarks_that_repeat_or_depend_are_harmless() -> None:
    """Repeated landmarks, more of them than distinct rows, and a rank that is small change nothing."""
    X = np.repeat(clusters(30, 3), 5, axis=0)
    expected = exact_values(X)[:4]
    for landmarks in (X, X[:60], "kmeans", "rpcholesky", "uniform"):
        found = model(landmarks=landmarks, n_landmarks=100).fit(X)
        assert len(found.X_fit_) <= 30
        if not isinstance(landmarks, np.ndarray) or len(landmarks) == len(X):
            np.testing.assert_allclose(found.eigenvalues_, expected, rtol=1e-8)


def test_nearly_constant_kernels_keep_their_digits() -> None:
    """With a tiny γ the centred Gram matrix is 2γ times that of the linear kernel."""
    X = clusters(400, 5)
    with pytest.warns(KpcaStreamWarning, match="nearly constant"):
        found = model(3, gamma=1e-9, n_landmarks=100).fit(X)
    linear = np.linalg.eigvalsh((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))[::-1]
    np.testing.assert_allclose(found.eigenvalues_, 2e-9 * linear[:3], rtol=1e-5)


def test_an_indefinite_kernel_is_told() -> None:
    """A sigmoid kernel whose landmarks show negative eigenvalues is refused or, as asked, warned of."""
    X = clusters(200, 3)
    settings = FitSettings(
        kernel=KernelSpec("sigmoid", 0.5, coef0=1.0), n_components=2, method="nystrom", precision="float64"
    )
    with pytest.raises(DataError, match="significant negative eigenvalues"):
        fit(open_source(X), settings)
    with pytest.warns(KpcaStreamWarning, match="significant negative eigenvalues"):
        model(2, kernel="sigmoid", gamma=0.5, coef0=1.0).fit(X)


def test_a_share_takes_the_fewest_components_or_is_refused() -> None:
    """A share of the variance is certified by the bound on the trace; beyond reach it is an error."""
    X = clusters(300)
    found = model(0.5, n_landmarks=200).fit(X)
    shares = found.explained_variance_ratio_.cumsum()
    assert shares[-1] >= 0.5 > shares[-2]
    with pytest.raises(ConvergenceError, match=r"certify .* asked for 0.999.* n_landmarks"):
        model(0.999, n_landmarks=5).fit(X)
    assert len(model(None, n_landmarks=20).fit(X).eigenvalues_) <= 20


def test_a_given_matrix_is_approximated_by_positions() -> None:
    """With a precomputed kernel landmarks are positions, and new rows are compared with all."""
    X, new = clusters(200), clusters(20, seed=8)
    K, K_new = (reference.kernel("rbf", rows, X, gamma=0.05) for rows in (X, new))
    positions = np.arange(0, 200, 4)
    found = model(kernel="precomputed", gamma=None, landmarks=positions).fit(K)
    expected = model(landmarks=X[positions]).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(found.transform(K_new)), np.abs(expected.transform(new)), atol=1e-7)
    error = found.reconstruction_error(K_new, diagonal=np.ones(len(new)))
    np.testing.assert_allclose(error, expected.reconstruction_error(new), atol=1e-8)
    for landmarks in ("uniform", "rpcholesky"):
        assert model(kernel="precomputed", gamma=None, landmarks=landmarks).fit(K).eigenvalues_[0] > 0
    with pytest.raises(ConfigError, match="kmeans for a precomputed kernel"):
        model(kernel="precomputed", gamma=None, landmarks="kmeans").fit(K)
    with pytest.raises(ConfigError, match="positions of rows"):
        model(kernel="precomputed", gamma=None, landmarks=np.array([0, 200])).fit(K)


def test_fresh_rows_pass_the_thresholds_as_often_as_asked() -> None:
    """About one in a hundred of rows like the trained ones is called novel."""
    found = model(6, n_landmarks=200).fit(clusters(6000, 8))
    centres = 2 * np.random.default_rng(0).standard_normal((8, 8))
    rng = np.random.default_rng(77)
    new = centres[rng.integers(0, 8, 4000)] + rng.standard_normal((4000, 8))
    alarms = float(found._model.score(new).novelty.mean())
    assert 0.005 <= alarms <= 0.02


def test_too_few_landmarks_are_told_with_how_many_would_do() -> None:
    """Where more than 5 % of the trace are left, a warning says how many landmarks would bring it down."""
    with pytest.warns(
        KpcaStreamWarning, match=r"residual trace is .*: (about m = |more than )[\d,]+ landmarks"
    ):
        model(n_landmarks=10).fit(clusters())


def test_saved_pickled_and_cloned_models_are_the_same(tmp_path: Path) -> None:
    """A basis that was stored scores as its model does, verifies, and a pickle goes on adding rows."""
    X, new = clusters(), clusters(30, seed=6)
    found = model().fit(X[:600])
    found.save(tmp_path / "b.zarr")
    assert np.array_equal(load_basis(tmp_path / "b.zarr").transform(new), found.transform(new))
    report = verify_store(tmp_path / "b.zarr", silent())
    assert report.ok
    assert {"eigenpairs", "centring", "centre", "trace"} <= {check.name for check in report.checks}
    again = pickle.loads(pickle.dumps(found))  # noqa: S301  made here
    again.partial_fit(X[600:])
    np.testing.assert_array_equal(again.transform(new), found.partial_fit(X[600:]).transform(new))
    assert clone(found).get_params()["n_landmarks"] == 60


def test_dask_arrays_frames_and_names() -> None:
    """Lazy rows are scored lazily; columns of scores have names; frames come out where asked."""
    X = clusters(300)
    found = model(3).fit(X)
    lazy = found.transform(da.from_array(X, chunks=(70, 6)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), found.transform(X), atol=1e-12)
    assert list(found.get_feature_names_out()) == ["kernelpca0", "kernelpca1", "kernelpca2"]
    assert found.set_output(transform="pandas").transform(X).shape == (300, 3)


def test_another_solver_leaves_nothing_of_the_last_fit() -> None:
    """Attributes of an approximate fit go with an exact one, and the other way round."""
    X = clusters(200)
    found = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    found.set_params(eigen_solver="nystrom", n_landmarks=50).fit(X)
    assert not hasattr(found, "eigenvectors_")
    assert not hasattr(found, "residual_norms_")
    assert hasattr(found, "eigenvalue_bounds_")
    found.set_params(eigen_solver="dense").fit(X)
    assert not hasattr(found, "eigenvalue_bounds_")


@pytest.mark.parametrize("degree", [40, 200])
def test_values_that_overflow_are_told(degree: int) -> None:
    """Similarities whose sums of squares no number can hold are refused by the kernel's name."""
    with pytest.raises(DataError, match=r"kernel .*: got .*; scale the rows"):
        model(kernel="poly", gamma=100.0, degree=degree).fit(clusters(200))


def test_what_partial_fit_refuses() -> None:
    """Too few rows to choose landmarks from, other columns, and a solver that keeps no sums."""
    X = clusters(200)
    with pytest.raises(ConfigError, match="got 10 rows in the first call, expected at least n_landmarks=60"):
        model().partial_fit(X[:10])
    with pytest.raises(ValueError, match="5 features"):
        model().partial_fit(X).partial_fit(X[:, :5])
    assert not hasattr(KernelPCA(2), "partial_fit")
    with pytest.raises(ConfigError, match="n_landmarks: got 0"):
        model(n_landmarks=0).fit(X)
    with pytest.raises(ConfigError, match="landmarks: got 'kmean'"):
        model(landmarks="kmean").fit(X)
    for wrong in (np.zeros((0, 6)), np.zeros((4, 5)), np.zeros(6), 7.0):
        with pytest.raises(ConfigError, match=r"landmarks: got an array of shape .*expected real numbers"):
            model(landmarks=wrong).fit(X)
    with pytest.raises(ConfigError, match=r"got a sum of 0\.5"):
        model(landmarks=X[:60]).partial_fit(X[:5], sample_weight=np.full(5, 0.1))
