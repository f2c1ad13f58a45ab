"""What a spectrum says: whether it is whole, whether the kernel is definite, which eigenvalues are zero."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConvergenceError, DataError, KpcaStreamWarning
from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics import tall
from kpca_stream.numerics.eigensolve import Eigenpairs
from kpca_stream.numerics.kernels import Kernel

Array = NDArray[Any]

ZERO = {"float32": 2e-7, "float64": 1e-12}
NEGATIVE = {"float32": 5e-3, "float64": 1e-5}
SHARE_ROUNDING = {"float32": 1e-6, "float64": 1e-9}
SIGN_TIE = {"float32": 1e-3, "float64": 1e-6}


def judged(
    pairs: Eigenpairs, plan: FitPlan, kernel: Kernel, *, trace: float, largest_entry: float
) -> Eigenpairs:
    """The pairs with eigenvalues that are zero set to 0, once the whole spectrum has passed.

    Parameters
    ----------
    pairs : Eigenpairs
    plan : FitPlan
    kernel : Kernel
    trace : float
        Of the centred Gram matrix.
    largest_entry : float
        Of the weighted Gram matrix, which says how large rounding is.

    Raises
    ------
    ConvergenceError
        If not all that was asked for converged.
    DataError
        If the kernel is not positive semidefinite and that is an error.
    """
    if not _is_whole(pairs, plan, trace):
        _refuse_unfinished(pairs, trace, plan)
    _warn_of_rounding(pairs, plan)
    n_samples, first = plan.shape.n_samples, float(pairs.eigenvalues[0])
    noise = float(np.finfo(plan.scoring_precision).eps) * n_samples * largest_entry
    passes_noise = 4 * float(np.finfo(plan.tile_dtype).eps) * n_samples**0.5 * largest_entry
    limit = max(NEGATIVE[plan.scoring_precision] * first, passes_noise, noise)
    if pairs.smallest < -limit:
        _tell_indefinite(pairs, kernel, plan, limit, largest=first if first > noise else 0.0)
    floor = ZERO[plan.scoring_precision] * first if first > noise else np.inf
    return replace(pairs, eigenvalues=np.where(pairs.eigenvalues <= floor, 0.0, pairs.eigenvalues))


def signed(pairs: Eigenpairs, weights: Array, precision: str) -> Eigenpairs:
    """With the signs that scores have by convention; a score is that of one copy of a row."""
    signs = signs_of(pairs.eigenvectors / np.sqrt(weights)[:, None], precision)
    return replace(pairs, eigenvectors=pairs.eigenvectors * signs)


def signs_of(scores: Array, precision: str) -> Array:
    """1 or −1, (k,): with it the first score (n, k) of nearly the largest size is positive."""
    sizes = np.abs(scores)
    first = np.argmax(sizes >= (1 - SIGN_TIE[precision]) * sizes.max(axis=0), axis=0)
    return np.where(scores[first, np.arange(len(first))] < 0, -1.0, 1.0)


def with_centred_direction(pairs: Eigenpairs, weights: Array) -> Eigenpairs:
    """As many pairs, among them that of eigenvalue 0 along √w, where negative ones would come after it.

    Centring removes this direction, so that products of centred vectors never show it.
    """
    place = int((pairs.eigenvalues >= 0).sum())
    if place == len(pairs.eigenvalues):
        return pairs
    unit = np.sqrt(weights / weights.sum())
    return replace(
        pairs,
        eigenvalues=np.insert(pairs.eigenvalues, place, 0.0)[:-1],
        eigenvectors=np.insert(pairs.eigenvectors, place, unit, axis=1)[:, :-1],
        residual_norms=np.insert(pairs.residual_norms, place, 0.0)[:-1],
    )


def completed(pairs: Eigenpairs, n_components: int) -> Eigenpairs:
    """As many pairs as asked for, where the operator has no more: the rest of the space has eigenvalue 0."""
    n_samples, n_found = pairs.eigenvectors.shape
    n_missing = min(n_components, n_samples) - n_found
    if n_missing <= 0:
        return pairs
    rest = np.random.default_rng(0).standard_normal((n_samples, n_missing))
    tall.project_out([pairs.eigenvectors], rest)
    zeros = np.zeros(n_missing)
    return replace(
        pairs,
        eigenvalues=np.concatenate([pairs.eigenvalues, zeros]),
        eigenvectors=np.hstack([pairs.eigenvectors, np.linalg.qr(rest)[0]]),
        residual_norms=np.concatenate([pairs.residual_norms, zeros]),
    )


def repeated(pairs: Eigenpairs, places: Array, weights: Array) -> Eigenpairs:
    """The pairs of all rows from those of the distinct ones.

    Parameters
    ----------
    pairs : Eigenpairs
        Of m distinct rows.
    places : ndarray of int of shape (n,)
        The distinct row that each row is a copy of.
    weights : ndarray of shape (n,)
        Of the rows; each takes its share of the distinct one's: a_i = a √(w_i/Σ w).
    """
    shares = weights / np.bincount(places, weights)[places]
    return replace(pairs, eigenvectors=pairs.eigenvectors[places] * np.sqrt(shares)[:, None])


def _is_whole(pairs: Eigenpairs, plan: FitPlan, trace: float) -> bool:
    share = plan.settings.n_components
    if not isinstance(share, float):
        return pairs.enough
    reached = float(pairs.eigenvalues.sum()) >= share * trace * (1 - SHARE_ROUNDING[plan.tile_dtype.name])
    return pairs.enough and reached and pairs.n_converged == len(pairs.eigenvalues)


def _refuse_unfinished(pairs: Eigenpairs, trace: float, plan: FitPlan) -> NoReturn:
    asked, name = plan.settings.n_components, plan.settings.wording
    if isinstance(asked, float) and pairs.n_converged == len(pairs.eigenvalues):
        kept = pairs.eigenvalues[: plan.settings.max_components]
        share = float(kept.sum()) / trace if trace > 0 else 0.0
        raise ConvergenceError(
            f"{len(kept)} components certify {share:.4f} of the variance, asked for {asked}: raise "
            f"max_components ({plan.settings.max_components}) or {name('max_passes')}, or ask for less"
        )
    worst = float(pairs.residual_norms.max()) / float(np.abs(pairs.eigenvalues).max())
    n_asked = len(pairs.eigenvalues) if asked is None or isinstance(asked, float) else asked
    raise ConvergenceError(
        f"{pairs.n_converged} of {n_asked} components converged in {pairs.n_passes} passes (largest residual "
        f"{worst:.1e}, tol {plan.tol:.1e}): raise {name('max_passes')}, raise tol, or ask for fewer "
        "components; finished passes are kept in the run's store, if there is one"
    )


def _warn_of_rounding(pairs: Eigenpairs, plan: FitPlan) -> None:
    first, worst = float(pairs.eigenvalues[0]), float(pairs.residual_norms.max(initial=0.0))
    if plan.method == "lanczos" and plan.settings.tol and worst > plan.tol * first > 0:
        name = plan.settings.wording
        warnings.warn(
            f"residual {worst / first:.1e} is as small as rounding in {plan.precision} allows for this "
            f"kernel; asked for tol {plan.tol:.1e}: raise it, or use {name('precision', 'float64')}",
            KpcaStreamWarning,
            stacklevel=2,
        )


def _tell_indefinite(
    pairs: Eigenpairs, kernel: Kernel, plan: FitPlan, limit: float, *, largest: float
) -> None:
    ratio = -pairs.smallest / largest if largest > 0 else np.inf
    among_asked = bool((pairs.eigenvalues < -limit).any())
    tell_indefinite(kernel, plan.settings, ratio, among_asked=among_asked)


def tell_indefinite(kernel: Kernel, settings: FitSettings, ratio: float, *, among_asked: bool) -> None:
    """Refuse a kernel whose negative eigenvalues are `ratio` of the largest, or warn of them, as asked.

    Raises
    ------
    DataError
        Where that is an error.
    """
    told = f"{ratio:.4g}" if np.isfinite(ratio) else "infinite"
    message = (
        f"kernel {getattr(kernel, 'label', kernel.name)} is not positive semidefinite: there are significant "
        f"negative eigenvalues, |negative|/largest = {told}"
    )
    action, name = settings.on_indefinite, settings.wording
    if action == "error" or not np.isfinite(ratio) or (action == "asked" and among_asked):
        remedy = "ask for fewer components" if action == "asked" else f"set {name('on_indefinite', 'warn')}"
        raise DataError(f"{message}; use another kernel or other parameters, or {remedy}")
    warnings.warn(f"{message}; only positive ones are used", KpcaStreamWarning, stacklevel=2)
