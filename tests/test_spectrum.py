"""What a spectrum says: zeros, repeated and negative eigenvalues, and digits that float32 would lose."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import reference
from fits import Method, fitted, rows, solvers, spectrum
from numpy.typing import NDArray

from kpca_stream import KernelPCA
from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.numerics.resolve import KernelSpec

Array = NDArray[Any]


@solvers
@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "cosine", "precomputed"])
@pytest.mark.parametrize("value", [1.0, 1.37, -1e5, 1e-8])
def test_identical_rows_have_no_component(eigen_solver: str, name: str, value: float) -> None:
    """Where all rows are the same, every eigenvalue and every score is exactly 0, whatever the rounding."""
    X = np.full((30, 30), value)
    model = KernelPCA(3, kernel=name, eigen_solver=eigen_solver)
    scores = model.fit_transform(X)
    np.testing.assert_array_equal(model.eigenvalues_, np.zeros(3))
    np.testing.assert_array_equal(scores, np.zeros((30, 3)))
    np.testing.assert_array_equal(model.explained_variance_ratio_, np.zeros(3))
    np.testing.assert_array_equal(model.transform(X[:2]), np.zeros((2, 3)))
    assert KernelPCA(None, kernel=name).fit(X).eigenvalues_.shape == (0,)


@solvers
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_identical_rows_under_a_local_kernel_are_warned_of(eigen_solver: str, name: str) -> None:
    """The same, with a warning that K is constant and no γ would help."""
    with pytest.warns(KpcaStreamWarning, match=r"nearly constant.*no gamma would help"):
        model = KernelPCA(3, kernel=name, eigen_solver=eigen_solver).fit(np.full((30, 2), 1.37))
    np.testing.assert_array_equal(model.eigenvalues_, np.zeros(3))


@solvers
@pytest.mark.parametrize(
    ("precision", "ratio", "n_positive"),
    [
        ("float64", 1e-11, 2),
        ("float64", 1e-13, 1),
        ("mixed", 1e-10, 2),
        ("float32", 1e-5, 2),
        ("float32", 1e-8, 1),
    ],
)
def test_zero_is_relative_to_the_first_eigenvalue(
    eigen_solver: str, precision: str, ratio: float, n_positive: int
) -> None:
    """Below 1e-12 of the first (float32: 2e-7) an eigenvalue is 0; mixed is judged after its float64 step."""
    X = 1e3 * spectrum([1.0, ratio])
    tol = 1e-12 if precision == "mixed" else 0
    model = KernelPCA(2, precision=precision, eigen_solver=eigen_solver, tol=tol).fit(X)
    assert (model.eigenvalues_ > 0).sum() == n_positive
    assert np.isfinite(model.transform(X)).all()
    if n_positive == 2:
        tolerance = 0.05 if precision == "float32" else 1e-3
        assert model.eigenvalues_[1] / model.eigenvalues_[0] == pytest.approx(ratio, rel=tolerance)


@solvers
def test_rows_on_a_line_have_one_component(eigen_solver: str) -> None:
    """Of three rows on a line the first component is exact, and the others are 0 in all that is told."""
    case = cases.on_a_line()
    model = KernelPCA(3, eigen_solver=eigen_solver)
    scores = model.fit_transform(case.X)
    assert model.eigenvalues_[0] == pytest.approx(84 / 9, rel=1e-12)
    np.testing.assert_array_equal(model.eigenvalues_[1:], 0)
    np.testing.assert_allclose(np.abs(scores[:, 0]), np.sqrt(2) * np.array([4, 1, 5]) / 3, rtol=1e-12)
    new = model.transform([[3.0, 3.0]])
    assert abs(new[0, 0]) == pytest.approx(np.sqrt(2) * 2 / 3, rel=1e-12)
    np.testing.assert_array_equal(new[0, 1:], 0)
    np.testing.assert_array_equal(scores[:, 1:], 0)


@solvers
def test_fewer_components_than_asked_are_warned_of(eigen_solver: str) -> None:
    """Where zero eigenvalues are removed, fewer components than asked are a warning that says so."""
    X = rows(60, 2)
    with pytest.warns(KpcaStreamWarning, match="only 2 of 5 components have a positive eigenvalue"):
        model = KernelPCA(5, remove_zero_eig=True, eigen_solver=eigen_solver).fit(X)
    assert model.transform(X).shape == (60, 2)


@solvers
@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian", "cosine", "sigmoid"])
def test_one_feature_will_do(eigen_solver: str, name: str) -> None:
    """A single column is fitted and scored; a cosine then has at most the two signs."""
    X = np.linspace(-1, 2, 40)[:, None]
    spec: dict[str, Any] = {"gamma": 0.001, "coef0": 0} if name == "sigmoid" else {}
    model = KernelPCA(1, kernel=name, eigen_solver=eigen_solver, **spec)
    scores = model.fit_transform(X)
    assert model.eigenvalues_[0] > 0
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-10)


@solvers
@pytest.mark.parametrize("n_components", [2, 4, 5])
def test_repeated_eigenvalues_are_found_whole(eigen_solver: str, n_components: int) -> None:
    """On a ring eigenvalues come in pairs, and no copy is missed."""
    case = cases.ring()
    model = KernelPCA(n_components, eigen_solver=eigen_solver, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues[:n_components], rtol=1e-9)
    np.testing.assert_allclose(model.eigenvectors_.T @ model.eigenvectors_, np.eye(n_components), atol=1e-10)


@solvers
def test_repeated_rows_have_few_components(eigen_solver: str) -> None:
    """500 rows of 5 kinds have four positive eigenvalues, those of five weighted rows."""
    case = cases.repeated_rows()
    model = KernelPCA(8, eigen_solver=eigen_solver, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_[:4], case.eigenvalues, rtol=1e-9)
    np.testing.assert_array_equal(model.eigenvalues_[4:], 0)
    kinds, counts = np.unique(case.X, axis=0, return_counts=True)
    weighted = KernelPCA(4, **case.parameters).fit(kinds, sample_weight=counts)
    np.testing.assert_allclose(weighted.eigenvalues_, case.eigenvalues, rtol=1e-9)


@solvers
@pytest.mark.parametrize("n_components", [4, 5, None])
def test_a_negative_eigenvalue_among_the_asked_is_an_error(
    eigen_solver: str, n_components: int | None
) -> None:
    """A component of clearly negative eigenvalue is a ValueError that names kernel and ratio."""
    case = cases.indefinite()
    if n_components == 4 or (n_components is None and eigen_solver == "lanczos"):
        n_components = 6  # the fourth eigenvalue is 0, and lanczos takes a number
    model = KernelPCA(n_components, eigen_solver=eigen_solver, **case.parameters)
    with pytest.raises(
        ValueError, match=r"kernel sigmoid .*significant negative eigenvalues, .* = 0.4881.*ask for fewer"
    ):
        model.fit(case.X)


@solvers
@pytest.mark.parametrize("n_components", [1, 3, 4])
def test_a_negative_eigenvalue_elsewhere_is_a_warning(eigen_solver: str, n_components: int) -> None:
    """Where only positive components are asked for, the ratio over the whole spectrum is a warning."""
    case = cases.indefinite()
    model = KernelPCA(n_components, eigen_solver=eigen_solver, **case.parameters)
    with pytest.warns(KpcaStreamWarning, match=r"kernel sigmoid .* = 0.4881"):
        scores = model.fit_transform(case.X)
    np.testing.assert_allclose(model.eigenvalues_[:3], case.eigenvalues[:n_components], rtol=1e-6)
    assert np.isfinite(scores).all()
    assert (model.eigenvalues_ >= 0).all()


@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_a_command_refuses_indefinite_kernels_unless_told(method: Method) -> None:
    """on_indefinite: error refuses any clearly negative eigenvalue, warn goes on with the positive ones."""
    case = cases.indefinite()
    spec = KernelSpec("sigmoid", gamma=4.0, coef0=0.0)
    with pytest.raises(DataError, match=r"or set kernel.on_indefinite: warn"):
        fitted(case.X, spec, n_components=2, method=method)
    with pytest.warns(KpcaStreamWarning, match="only positive ones are used"):
        found = fitted(case.X, spec, n_components=6, method=method, on_indefinite="warn")
    np.testing.assert_allclose(found.basis.eigenvalues, case.eigenvalues, rtol=1e-6)


def test_lanczos_sees_the_lower_end() -> None:
    """Few components of many rows: the most negative eigenvalue is seen all the same, to a percent."""
    X = rows(900, 3, seed=5) + 0.5
    K = np.tanh(2.0 * X @ X.T - 1.0)
    values = np.linalg.eigvalsh(reference.centred(K))
    with pytest.warns(KpcaStreamWarning) as told:
        KernelPCA(2, kernel="sigmoid", gamma=2.0, coef0=-1.0, eigen_solver="lanczos").fit(X)
    ratio = float(str(told[0].message).split("= ")[1].split(";")[0])
    assert ratio == pytest.approx(-values[0] / values[-1], rel=0.01)


def test_a_negative_definite_matrix_is_refused() -> None:
    """A kernel with no positive eigenvalue at all is an error, never a model of absolute values."""
    X = rows(30)
    with pytest.raises(ValueError, match=r"significant negative eigenvalues, .* = infinite"):
        KernelPCA(1, kernel="precomputed").fit(-np.exp(-reference.squared_distances(X, X)) + 0.0)


def test_a_kernel_near_the_identity_is_warned_of() -> None:
    """Wine, unscaled: the warning says which γ would help, and the eigenvalues are right all the same."""
    case = cases.nearly_identity()
    with pytest.warns(KpcaStreamWarning, match=r"close to the identity.*gamma near .* \(median\) would help"):
        model = KernelPCA(5, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-9)


@solvers
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_a_nearly_constant_kernel_is_warned_of_and_right(
    eigen_solver: str, dtype: Any, tolerance: float
) -> None:
    """A matrix of ones but for 1e-7 keeps its signal, also in float32, with a warning."""
    case = cases.nearly_constant()
    model = KernelPCA(3, eigen_solver=eigen_solver, **case.parameters)
    with pytest.warns(KpcaStreamWarning, match=r"nearly constant.*gamma near .* \(median\) would help"):
        model.fit(case.X.astype(dtype))
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=tolerance)


@solvers
def test_float32_rows_far_from_the_origin(eigen_solver: str) -> None:
    """Rows at 4096 that differ by 0.05 keep their distances in float32."""
    case = cases.far_from_the_origin()
    model = KernelPCA(4, eigen_solver=eigen_solver, **case.parameters).fit(case.X)
    np.testing.assert_allclose(model.eigenvalues_, case.eigenvalues, rtol=1e-5)
    np.testing.assert_allclose(model.transform(case.X), model.fit_transform(case.X), atol=1e-4)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "cosine", "poly"])
def test_mixed_precision_is_as_good_as_float64(name: str) -> None:
    """Float32 passes and a float64 step give float64's eigenvalues, and residuals below the tolerance."""
    X = rows(700, 6, seed=3) * np.linspace(2, 1, 6)
    parameters: dict[str, Any] = {"kernel": name, "eigen_solver": "lanczos"}
    mixed = KernelPCA(4, precision="mixed", **parameters).fit(X)
    double = KernelPCA(4, precision="float64", **parameters).fit(X)
    np.testing.assert_allclose(mixed.eigenvalues_, double.eigenvalues_, rtol=1e-9)
    assert mixed.transform(X).dtype == np.float64
    np.testing.assert_allclose(mixed.transform(X[:50]), double.transform(X[:50]), atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "float64", "mixed"])
def test_reported_residuals_are_true(precision: str) -> None:
    """‖K̃a − μa‖ as reported is that of the float64 matrix, to the rounding of the passes."""
    X = rows(600, 3, seed=2)
    model = KernelPCA(4, kernel="rbf", gamma=0.3, eigen_solver="lanczos", precision=precision, tol=1e-5).fit(
        X
    )
    K = reference.centred(reference.kernel("rbf", X, X, gamma=0.3))
    a = model.eigenvectors_
    true = np.linalg.norm(K @ a - a * model.eigenvalues_, axis=0)
    rounding = 1e-6 if precision == "float32" else 1e-12
    np.testing.assert_allclose(model.residual_norms_, true, atol=rounding * model.eigenvalues_[0])
    assert (true <= 1.2e-5 * model.eigenvalues_[0]).all()


def test_a_tolerance_below_rounding_is_met_as_far_as_it_goes() -> None:
    """Float32 cannot meet 1e-12: the fit ends, and says what it reached."""
    with pytest.warns(
        KpcaStreamWarning, match=r"as small as rounding in float32 allows.*precision='float64'"
    ):
        KernelPCA(2, kernel="rbf", precision="float32", eigen_solver="lanczos", tol=1e-12).fit(rows(600))
