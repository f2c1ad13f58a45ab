"""Scores of two bases laid over each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.alignment import (
    HOWS,
    How,
    align,
    clusters,
    displacement,
    estimated_cross,
    principal_angles,
    rotation,
    signs,
)

Array = NDArray[Any]

DISTINCT = np.array([8.0, 4.0, 2.0, 1.0])
CLOSE = np.array([8.0, 7.9, 2.0, 1.99])


def scored(eigenvalues: Array, n_rows: int = 200, seed: int = 0) -> Array:
    """Scores whose columns are uncorrelated, with these variances."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_rows, len(eigenvalues))))[0]
    return np.asarray(Q * np.sqrt(eigenvalues * n_rows))


def turned(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_new", [3, 4, 6])
def test_the_transform_is_orthogonal_and_never_moves_scores_away(how: How, seed: int, n_new: int) -> None:
    """Whatever was scored, RᵀR = I, each score vector keeps its length, and the displacement never grows."""
    rng = np.random.default_rng(seed)
    values_old, values_new = (np.sort(rng.uniform(0.5, 2, k))[::-1] for k in (4, n_new))
    old, new = rng.standard_normal((60, 4)), rng.standard_normal((60, n_new))
    found = align(old, new, values_old, values_new, how=how, close=0.3)
    np.testing.assert_allclose(found.transform.T @ found.transform, np.eye(n_new), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(new @ found.transform, axis=1), np.linalg.norm(new, axis=1))
    assert found.displacement_after <= found.displacement_before * (1 + 1e-12)
    if how == "rotation":
        flipped = align(old, new, values_old, values_new, how="signs").displacement_after
        assert found.displacement_after <= flipped * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_rotated_copy_comes_back(seed: int) -> None:
    """Rotated and flipped inside its clusters, a basis is turned back to the old scores."""
    old = scored(CLOSE, seed=seed)
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, 2)
    R = linalg.block_diag(turned(angles[0]), turned(angles[1]) @ np.diag([1.0, -1.0]))
    found = align(old, old @ R, CLOSE, CLOSE, how="rotation")
    assert found.clusters == ((0, 2), (2, 4))
    np.testing.assert_allclose(old @ R @ found.transform, old, atol=1e-12 * np.abs(old).max())
    assert found.displacement_after < 1e-13
    np.testing.assert_allclose(found.angles, 0, atol=1e-6)


def test_signs_are_only_flipped() -> None:
    """`signs` gives ±1 on the diagonal and nothing else, whatever a rotation would gain."""
    old = scored(CLOSE)
    new = old @ linalg.block_diag(turned(0.4), -turned(0.2))
    found = align(old, new, CLOSE, CLOSE, how="signs")
    np.testing.assert_array_equal(found.transform, np.diag([1.0, 1.0, -1.0, -1.0]))
    assert not found.rotates
    np.testing.assert_array_equal(signs(old, -old), -np.ones(4))


def test_none_leaves_all_as_it_is() -> None:
    """With `none` the new scores stay, and only what changed is told."""
    old = scored(DISTINCT)
    found = align(old, -old, DISTINCT, 1.1 * DISTINCT, how="none")
    np.testing.assert_array_equal(found.transform, np.eye(4))
    assert found.displacement_before == found.displacement_after == pytest.approx(2)
    np.testing.assert_allclose(found.eigenvalue_changes, 0.1)


def test_the_same_scores_give_the_identity() -> None:
    """Where there is nothing to turn, no rounding does."""
    old = scored(CLOSE)
    found = align(old, old.copy(), CLOSE, CLOSE, how="rotation")
    np.testing.assert_array_equal(found.transform, np.eye(4))
    assert not found.rotates


def test_components_that_changed_places_change_back() -> None:
    """Two close components that come in the other order are brought into the old one."""
    old = scored(CLOSE)
    found = align(old, old[:, [1, 0, 2, 3]], CLOSE, CLOSE, how="rotation")
    np.testing.assert_allclose(found.transform, np.eye(4)[:, [1, 0, 2, 3]], atol=1e-14)
    assert found.rotates


def test_a_component_moves_inside_its_cluster_only() -> None:
    """Between eigenvalues that are apart nothing is mixed, however well it would fit."""
    old = scored(DISTINCT)
    new = old @ linalg.block_diag(turned(0.7), np.eye(2))
    found = align(old, new, DISTINCT, DISTINCT, how="rotation")
    np.testing.assert_array_equal(np.abs(found.transform), np.eye(4))
    assert found.displacement_after == pytest.approx(found.displacement_before)


def test_variances_stay_within_those_of_the_cluster() -> None:
    """The columns of a rotated cluster have variances between its smallest and largest eigenvalue."""
    values = np.array([8.0, 7.6, 7.4, 1.0])
    new = scored(values)
    old = new @ linalg.block_diag(linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0], np.eye(1))
    found = align(old, new, values, values, how="rotation")
    variances = ((new @ found.transform) ** 2).mean(axis=0)
    assert found.clusters == ((0, 3), (3, 4))
    assert (variances[:3] >= 7.4 - 1e-9).all()
    assert (variances[:3] <= 8.0 + 1e-9).all()
    assert variances.sum() == pytest.approx(values.sum())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([4, 2, 1], [4, 2, 1], [(0, 1), (1, 2), (2, 3)]),
        ([4, 3.9, 1], [4, 2, 1], [(0, 2), (2, 3)]),
        ([4, 2, 1], [4, 2, 1.95], [(0, 1), (1, 3)]),
        ([1, 1, 1], [3, 2, 1], [(0, 3)]),
        ([1.0, 0.95, 0.9, 0.81], [1.0, 0.95, 0.9, 0.81], [(0, 3), (3, 4)]),
        ([1, 1, 0.5, 0.5], [1, 0.6, 0.6, 0.4], [(0, 2), (2, 4)]),
        ([1.0], [2.0], [(0, 1)]),
        ([], [], []),
    ],
)
def test_clusters_are_runs_of_close_eigenvalues(
    old: list[float], new: list[float], expected: list[tuple[int, int]]
) -> None:
    """Close in either basis is close; a longer chain is cut at its widest gap."""
    assert clusters(np.array(old, dtype=float), np.array(new, dtype=float), 0.1) == expected


def test_no_cluster_spans_more_than_asked() -> None:
    """In a chain of eigenvalues that are all close to their neighbours each run holds the bound."""
    values = np.cumprod(np.random.default_rng(3).uniform(0.94, 1.0, 40))
    found = clusters(values, values, 0.1)
    assert [first for first, _ in found[1:]] == [last for _, last in found[:-1]]
    assert all(values[last - 1] >= 0.9 * values[first] * (1 - 1e-9) for first, last in found)


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_is_one_in_either_basis(seed: int) -> None:
    """Pairs that are close by turns in the old and in the new basis make no run that is close in neither."""
    old, new = np.cumprod(np.random.default_rng(seed).choice([1.0, 0.97, 0.5], (2, 40)), axis=1)
    found = clusters(old, new, 0.1)
    assert [first for first, _ in found[1:]] == [last for _, last in found[:-1]]
    spans = [max(values[last - 1] / values[first] for values in (old, new)) for first, last in found]
    assert min(spans) >= 0.9 * (1 - 1e-9)
    assert len(found) < 40


def test_thousands_of_components_are_cut_too() -> None:
    """As many components as there may be are cut into clusters, one by one where none are close."""
    values = 1.0 / np.arange(1.0, 3000.0) ** 2
    assert clusters(values, values, 1e-9) == [(i, i + 1) for i in range(2999)]
    assert clusters(values[:0], values[:0], 0.1) == []


def test_angles_are_those_of_the_directions() -> None:
    """From the rows a linear basis was fitted on, the angles are those between its directions and the new."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) * [4, 3, 2, 1, 0.5, 0.2]
    X -= X.mean(axis=0)
    V = linalg.svd(X, full_matrices=False)[2][:3].T
    W = linalg.qr(V + 0.3 * rng.standard_normal((6, 3)), mode="economic")[0]
    expected = np.sort(linalg.subspace_angles(V, W))
    np.testing.assert_allclose(principal_angles(estimated_cross(X @ V, X @ W)), expected, atol=1e-6)
    np.testing.assert_allclose(principal_angles(V.T @ W), expected, atol=1e-7)


def test_angles_of_other_rows_come_close() -> None:
    """From 2,000 rows that neither basis saw, the largest angle is known to a tenth."""
    rng = np.random.default_rng(1)
    scales = np.array([4, 3, 2, 1, 0.5, 0.2])
    V = np.eye(6)[:, :3]
    W = linalg.qr(V + 0.2 * rng.standard_normal((6, 3)), mode="economic")[0]
    X = rng.standard_normal((2000, 6)) * scales
    found = principal_angles(estimated_cross(X @ V, X @ W))[-1]
    assert found == pytest.approx(linalg.subspace_angles(V, W).max(), rel=0.1)


def test_products_in_feature_space_are_taken_where_given() -> None:
    """Angles come from them, and are said to be exact."""
    old = scored(DISTINCT)
    found = align(old, old, DISTINCT, DISTINCT, how="signs", cross=np.diag([1.0, 1.0, 1.0, np.cos(0.3)]))
    assert found.angles_exact
    assert found.largest_angle == pytest.approx(0.3)


def test_the_best_rotation_is_found() -> None:
    """No other rotation of the plane comes closer than that of Procrustes."""
    rng = np.random.default_rng(2)
    old, new = rng.standard_normal((2, 50, 2))
    best = displacement(old, new @ rotation(old, new))
    for angle in np.linspace(0, 2 * np.pi, 73):
        for mirror in (1.0, -1.0):
            assert best <= displacement(old, new @ turned(angle) @ np.diag([1.0, mirror])) + 1e-12


def test_displacement_is_a_share_of_the_old_scores() -> None:
    """Scores that double have moved by one; of no scores at all nothing moves."""
    old = scored(DISTINCT)
    assert displacement(old, 2 * old) == pytest.approx(1)
    assert displacement(0 * old, 0 * old) == 0
    assert displacement(0 * old, old) == 1


def test_what_cannot_be_compared_is_refused() -> None:
    """Other rows, missing scores, eigenvalues of zero and unknown ways are named."""
    old = scored(DISTINCT)
    with pytest.raises(DataError, match="expected some rows, the same"):
        align(old, old[:-1], DISTINCT, DISTINCT, how="signs")
    with pytest.raises(DataError, match="expected some rows"):
        align(old[:0], old[:0], DISTINCT, DISTINCT, how="signs")
    with pytest.raises(DataError, match="infinite or missing"):
        align(old, np.where(old > 0, np.nan, old), DISTINCT, DISTINCT, how="signs")
    with pytest.raises(DataError, match="expected positive"):
        align(old, old, DISTINCT, DISTINCT - 1, how="signs")
    with pytest.raises(ConfigError, match="expected one of none, signs, rotation"):
        align(old, old, DISTINCT, DISTINCT, how="turn")  # type: ignore[arg-type]
