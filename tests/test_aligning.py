"""A new basis laid over an old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg

from kpca_stream.aligning import aligned, compared, cross_products, sample_of
from kpca_stream.approximation import NystromSettings
from kpca_stream.errors import DataError
from kpca_stream.numerics.alignment import align
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.stages.scoring import score_rows
from kpca_stream.storage.basis import open_basis, save_basis
from kpca_stream.storage.frozen import Basis
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import silent
from kpca_stream.verification import verify_store
from tests.fits import fitted, rows

Array = NDArray[Any]

RBF = KernelSpec("rbf", gamma=0.02)
METHODS = ["lanczos", "dense", "nystrom"]


def basis_of(X: Array, method: str = "dense", spec: KernelSpec = RBF, **settings: Any) -> Basis:
    landmarks = {"nystrom": NystromSettings(n_landmarks=60)} if method == "nystrom" else {}
    return fitted(X, spec, **{"n_components": 4, "method": method, **landmarks, **settings}).basis


def weeks() -> tuple[Array, Array]:
    """Rows that look the same in all directions, and some more of them: eigenvalues are close."""
    X = rows(500, 4)
    return X[:400], X


@pytest.mark.parametrize("method", METHODS)
def test_an_aligned_basis_is_as_sound_as_before(method: str, tmp_path: Path) -> None:
    """Rotated, stored and opened again, a basis passes every check, and e, T² and thresholds are the same."""
    before, after = weeks()
    old, new = basis_of(before, method), basis_of(after, method)
    found = compared(old, new, sample_of(old), how="rotation", close=0.3)
    assert found.rotates
    save_basis(aligned(new, found), tmp_path / "basis.zarr")
    stored = open_basis(tmp_path / "basis.zarr")
    report = verify_store(tmp_path / "basis.zarr", silent())
    assert report.ok, report
    assert "rotation" in [check.name for check in report.checks]
    plain, turned = (score_rows(basis, ArrayRows(rows(70, 4, seed=5))) for basis in (new, stored))
    np.testing.assert_allclose(turned.scores, plain.scores @ found.transform, atol=1e-12)
    np.testing.assert_allclose(turned.reconstruction_error, plain.reconstruction_error, atol=1e-10)
    np.testing.assert_allclose(stored.hotelling_t2(turned.scores), plain.hotelling_t2, rtol=1e-9)
    np.testing.assert_array_equal(stored.thresholds.t2_quantiles, new.thresholds.t2_quantiles)
    np.testing.assert_array_equal(stored.eigenvalues, new.eigenvalues)


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_a_refit_come_closer(method: str) -> None:
    """On rows that were not fitted, rotation moves scores less than half as far as flipped signs do."""
    before, after = weeks()
    old, new = basis_of(before, method), basis_of(after, method)
    new = new.rotated(np.diag([-1.0, 1.0, -1.0, 1.0]))
    fresh = ArrayRows(rows(300, 4, seed=8))
    expected = score_rows(old, fresh).scores
    moved = [
        np.linalg.norm(
            score_rows(aligned(new, compared(old, new, sample_of(old), how=how, close=0.3)), fresh).scores
            - expected
        )
        for how in ("none", "signs", "rotation")
    ]
    assert moved[2] < 0.5 * moved[1] < 0.5 * moved[0]


def test_only_flipped_signs_leave_no_rotation_behind(tmp_path: Path) -> None:
    """A flip is kept in the coefficients alone, to the bit, and undone by another."""
    old = basis_of(weeks()[0])
    flipped = old.rotated(np.diag([1.0, -1.0, 1.0, -1.0]))
    assert flipped.rotation is None
    found = compared(old, flipped, sample_of(old))
    back = aligned(flipped, found)
    np.testing.assert_array_equal(back.coefficients.load(), old.coefficients.load())
    np.testing.assert_array_equal(back.centring, old.centring)
    save_basis(flipped, tmp_path / "basis.zarr")
    assert verify_store(tmp_path / "basis.zarr", silent()).ok


def test_a_second_rotation_is_told_from_the_eigenvectors() -> None:
    """Rotations add up, and taken back together leave the basis as it was fitted."""
    old = basis_of(weeks()[0])
    R, S = (linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0] for seed in (0, 1))
    twice = old.rotated(R).rotated(S)
    np.testing.assert_allclose(twice.rotation, R @ S)
    np.testing.assert_allclose(twice.unrotated().coefficients.load(), old.coefficients.load(), atol=1e-13)
    assert old.unrotated() is old


def test_a_rotation_that_is_none_fails_verification(tmp_path: Path) -> None:
    """A stored matrix that is not orthogonal is found by its name."""
    old = basis_of(weeks()[0])
    save_basis(old.rotated(linalg.expm(0.01 * np.ones((4, 4)))), tmp_path / "basis.zarr")
    report = verify_store(tmp_path / "basis.zarr", silent())
    assert next(check.name for check in report.checks if not check.ok) == "rotation"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly"])
def test_a_basis_has_no_angle_to_itself(method: str, name: str) -> None:
    """Its directions are orthonormal in feature space, by products of its own rows."""
    basis = basis_of(rows(200, 4) + 3, method, KernelSpec(name, gamma=0.02))
    cross = cross_products(basis, basis)
    assert cross is not None
    np.testing.assert_allclose(cross, np.eye(4), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_angles_of_linear_bases_are_those_of_principal_axes(method: str) -> None:
    """For the linear kernel, feature space is that of the rows, each about their own means."""
    X = rows(300, 6) * [5, 4, 3, 2, 1.5, 1] + 2
    Y = rows(300, 6, seed=1) @ linalg.qr(rows(6, 6, seed=2) * 0.2 + np.eye(6))[0] * [5, 4, 3, 2, 1.5, 1] - 1
    linear = KernelSpec("linear")
    old, new = (basis_of(Z, method, linear, n_components=3) for Z in (X, Y))
    V, W = (linalg.svd(Z - Z.mean(axis=0))[2][:3].T for Z in (X, Y))
    found = compared(old, new, sample_of(old))
    assert found.angles_exact
    np.testing.assert_allclose(found.angles, np.sort(linalg.subspace_angles(V, W)), atol=1e-6)


def test_angles_are_estimated_where_products_take_too_long() -> None:
    """Beyond the values allowed, the estimate by the sample comes close to the exact angles."""
    before, after = weeks()
    old, new = basis_of(before), basis_of(after[100:])
    exact = compared(old, new, sample_of(old))
    estimate = compared(old, new, sample_of(old), most_values=100)
    assert (exact.angles_exact, estimate.angles_exact) == (True, False)
    np.testing.assert_allclose(estimate.angles, exact.angles, atol=0.05)


def test_other_feature_spaces_have_no_exact_angles() -> None:
    """With another bandwidth or scale there are no products between two feature spaces."""
    before, after = weeks()
    old = basis_of(before)
    assert cross_products(old, basis_of(after, spec=KernelSpec("rbf", gamma=0.03))) is None
    assert cross_products(old, basis_of(after, scale=True)) is None
    assert not compared(
        old, basis_of(after, spec=KernelSpec("rbf", gamma=0.021)), sample_of(old)
    ).angles_exact


def test_other_columns_are_refused() -> None:
    """Bases of other columns are not compared."""
    with pytest.raises(DataError, match="got 4 and 3 columns"):
        compared(basis_of(rows(50, 4)), basis_of(rows(50, 3)), ArrayRows(rows(50, 4)))


def test_a_sample_is_of_the_fitted_rows_and_always_the_same() -> None:
    """So many distinct rows of the basis, whatever their chunks; all of them where there are fewer."""
    X = rows(5000, 3)
    basis = basis_of(X[:2500])
    sample = sample_of(basis, 700).load()
    np.testing.assert_array_equal(sample, sample_of(basis, 700).load())
    assert sample.shape == (700, 3)
    assert np.isin(sample[:, 0], X[:2500, 0]).all()
    assert len(np.unique(sample[:, 0])) == 700
    assert sample_of(basis, 10**6).shape == (2500, 3)
    many = sample_of(basis_of(X, "nystrom"), 3000).load()
    assert many.shape == (3000, 3)


def test_given_matrices_keep_no_sample() -> None:
    """The basis of a precomputed kernel has no rows to compare by, and its scores can still be laid over."""
    X = rows(60, 3)
    basis = basis_of(X @ X.T, spec=KernelSpec("precomputed"), n_components=3)
    with pytest.raises(DataError, match="keeps no rows"):
        sample_of(basis)
    assert cross_products(basis, basis) is None
    scores = score_rows(basis, ArrayRows(X @ X.T)).scores
    assert align(scores, -scores, basis.eigenvalues, basis.eigenvalues, how="signs").displacement_after == 0
