"""Two bases compared on rows that both scored: the transform that keeps scores comparable, and what changed.

With S_old (n, k) and S_new (n, k) the scores of the same n rows, an orthogonal R makes S_new·R the closest to
S_old that is allowed. R acts on directions of unit length in feature space, so that

- they stay orthonormal and span the same space: ‖z(x)‖ and the reconstruction error e(x) are what they were;
- a flipped sign changes no variance. A rotation mixes components of a cluster only, so that the variance of a
  column stays between the smallest and the largest of its cluster, and columns of different clusters stay
  uncorrelated; inside of one they are no longer;
- T² = zᵀ diag(μ)⁻¹ z (n − 1) is that of unrotated scores z·Rᵀ. Taken of rotated ones with the same μ it is
  off by a factor between μ_last/μ_first and μ_first/μ_last of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from kpca_stream.errors import ConfigError, DataError

Array = NDArray[Any]
How = Literal["none", "signs", "rotation"]

HOWS = ("none", "signs", "rotation")
CLOSE = 0.1
"""Eigenvalues of a cluster differ by at most this share of its largest."""
GAIN = 1e-12
"""A rotation that lowers the squared displacement by less than this share is rounding."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """How a new basis is laid over an old one, and how far they are apart.

    Parameters
    ----------
    how : {"none", "signs", "rotation"}
    transform : ndarray of shape (k_new, k_new)
        R, orthogonal: aligned scores are S_new·R, aligned coefficients α·R.
    clusters : tuple of (int, int)
        From which to before which component they may move.
    angles : ndarray of shape (min(k_old, k_new),)
        Principal angles between the two spans in feature space, in radians, smallest first.
    angles_exact : bool
        Whether they come from products in feature space; else they are estimated from the scores.
    eigenvalue_changes : ndarray of shape (min(k_old, k_new),)
        μ_new/μ_old − 1 of what was given as eigenvalues.
    displacement_before, displacement_after : float
        ‖S_new − S_old‖/‖S_old‖ and ‖S_new·R − S_old‖/‖S_old‖, of the components that both have.
    """

    how: How
    transform: Array
    clusters: tuple[tuple[int, int], ...]
    angles: Array
    angles_exact: bool
    eigenvalue_changes: Array
    displacement_before: float
    displacement_after: float

    @property
    def largest_angle(self) -> float:
        """In radians."""
        return float(self.angles.max(initial=0.0))

    @property
    def rotates(self) -> bool:
        """Whether components are mixed or reordered, and not only flipped."""
        return not np.array_equal(np.abs(self.transform), np.eye(len(self.transform)))


def align(
    old_scores: Array,
    new_scores: Array,
    old_eigenvalues: Array,
    new_eigenvalues: Array,
    *,
    how: How,
    close: float = CLOSE,
    cross: Array | None = None,
) -> Alignment:
    """Lay a new basis over an old one.

    Parameters
    ----------
    old_scores, new_scores : ndarray of shape (n_rows, k_old), (n_rows, k_new)
        Of the same rows.
    old_eigenvalues, new_eigenvalues : ndarray of shape (k_old,), (k_new,)
        Positive, largest first; explained variances μ/(N − 1) where the bases were fitted on different
        numbers of rows, else the changes tell mostly of these.
    how : {"none", "signs", "rotation"}
        ``rotation``: sign and order of components, and their rotation inside a cluster.
    close : float
        Neighbours are one cluster where, in the old or in the new basis, they differ by no more than this
        share of the larger; a chain of them that spans more in both is cut at its widest gap.
    cross : ndarray of shape (k_old, k_new), optional
        ⟨v_i, w_j⟩ of old and new directions in feature space, where known; else estimated.

    Returns
    -------
    Alignment
        Of components that only one of them has nothing is changed.

    Raises
    ------
    DataError
        If the scores are not of the same rows or not finite, or an eigenvalue is not positive.
    """
    _check(old_scores, new_scores, old_eigenvalues, new_eigenvalues, how)
    k = min(len(old_eigenvalues), len(new_eigenvalues))
    old, new = old_scores[:, :k], new_scores[:, :k]
    found = clusters(old_eigenvalues[:k], new_eigenvalues[:k], close)
    transform = np.eye(len(new_eigenvalues))
    transform[:k, :k] = _transform(old, new, found, how)
    return Alignment(
        how=how,
        transform=transform,
        clusters=tuple(found),
        angles=principal_angles(estimated_cross(old_scores, new_scores) if cross is None else cross),
        angles_exact=cross is not None,
        eigenvalue_changes=new_eigenvalues[:k] / old_eigenvalues[:k] - 1,
        displacement_before=displacement(old, new),
        displacement_after=displacement(old, new @ transform[:k, :k]),
    )


def signs(old_scores: Array, new_scores: Array) -> Array:
    """±1 for each component (k,): what brings its new scores (n_rows, k) closest to the old ones."""
    products = np.einsum("ij,ij->j", old_scores, new_scores)
    return np.where(products < 0, -1.0, 1.0)


def rotation(old_scores: Array, new_scores: Array) -> Array:
    """The orthogonal R (k, k) with the smallest ‖S_new·R − S_old‖: U Vᵀ of the SVD of S_newᵀ S_old.

    Where flipped signs do as well, these.
    """
    flips = np.diag(signs(old_scores, new_scores))
    U, _, Vt = linalg.svd(new_scores.T @ old_scores)
    R = np.asarray(U @ Vt)
    flipped, rotated = (float(np.sum((new_scores @ T - old_scores) ** 2)) for T in (flips, R))
    return R if rotated < flipped - GAIN * float(np.sum(old_scores**2)) else flips


def clusters(old_eigenvalues: Array, new_eigenvalues: Array, close: float) -> list[tuple[int, int]]:
    """Runs of components whose eigenvalues (k,) come close, as pairs of first and one past last.

    The distance of neighbours is log(μ_j/μ_{j+1}); a run reaches over no more than −log(1 − close), all of it
    in the old or all of it in the new basis.
    """
    gaps = np.maximum([-np.diff(np.log(values)) for values in (old_eigenvalues, new_eigenvalues)], 0.0)
    reach = -np.log1p(-close) * (1 + 1e-12)
    return list(_cut(gaps, len(old_eigenvalues), reach))


def _cut(gaps: Array, n: int, reach: float) -> Iterator[tuple[int, int]]:
    """Runs of n components, cut where gaps (2, n − 1) are widest in both bases, until within `reach`."""
    pieces = [(0, n)] if n else []
    while pieces:
        first, last = pieces.pop()
        inside = gaps[:, first : last - 1]
        if last - first == 1 or inside.sum(axis=1).min() <= reach:
            yield first, last
            continue
        widths = list(zip(inside.min(axis=0), inside.sum(axis=0), strict=True))  # of equal ones the sum tells
        middle = first + 1 + widths.index(max(widths))
        pieces += [(middle, last), (first, middle)]


def displacement(old_scores: Array, new_scores: Array) -> float:
    """‖S_new − S_old‖/‖S_old‖ (Frobenius): how far rows move, of how far they are from the centre."""
    size = float(np.linalg.norm(old_scores))
    moved = float(np.linalg.norm(new_scores - old_scores))
    return moved / size if size > 0 else float(moved > 0)


def principal_angles(cross: Array) -> Array:
    """Arccosines of the singular values of ⟨v_i, w_j⟩ (k_old, k_new), in radians, smallest first."""
    return np.asarray(np.arccos(np.clip(linalg.svdvals(cross), 0.0, 1.0)))


def estimated_cross(old_scores: Array, new_scores: Array) -> Array:
    """⟨v_i, w_j⟩ in feature space, (k_old, k_new), as scores of the same rows tell it.

    w_j = Σ_i ⟨v_i, w_j⟩ v_i + rest, and the scores by the rest are uncorrelated with those by v, since the
    v_i are eigenvectors: least squares S_old·C ≈ S_new finds C. Exact for the rows that v was fitted on, or
    where both span the same space, else off by about 1/√n_rows of what the rest holds.
    """
    centred_old, centred_new = (scores - scores.mean(axis=0) for scores in (old_scores, new_scores))
    return np.asarray(linalg.lstsq(centred_old, centred_new)[0])


def _transform(old: Array, new: Array, found: list[tuple[int, int]], how: How) -> Array:
    k = old.shape[1]
    if how == "none":
        return np.eye(k)
    if how == "signs":
        return np.diag(signs(old, new))
    R = np.zeros((k, k))
    for first, last in found:
        R[first:last, first:last] = rotation(old[:, first:last], new[:, first:last])
    return R


def _check(old: Array, new: Array, old_eigenvalues: Array, new_eigenvalues: Array, how: str) -> None:
    if how not in HOWS:
        raise ConfigError(f"align: got {how!r}, expected one of {', '.join(HOWS)}")
    shapes = (len(old), len(old_eigenvalues)), (len(old), len(new_eigenvalues))
    if (old.shape, new.shape) != shapes or not len(old):
        raise DataError(
            f"scores to align: got shapes {old.shape} and {new.shape} for {len(old_eigenvalues)} and "
            f"{len(new_eigenvalues)} eigenvalues, expected some rows, the same, by both; score them anew"
        )
    if not (np.isfinite(old).all() and np.isfinite(new).all()):
        raise DataError("scores to align: got infinite or missing ones, expected numbers; leave the rows out")
    for values in (old_eigenvalues, new_eigenvalues):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise DataError(
                f"eigenvalues to align: smallest is {values.min(initial=np.inf)}, expected positive ones; "
                "leave zero components out"
            )
