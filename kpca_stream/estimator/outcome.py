"""What a fit found, as scikit-learn's attributes, and scores in the shape and type that was asked for."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Self

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.fitting import Fit
from kpca_stream.inputs import TemporaryFolder
from kpca_stream.model import FittedBasis
from kpca_stream.numerics.eigensolve import Eigenpairs
from kpca_stream.nystrom import brackets_of
from kpca_stream.spectrum import completed, repeated
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.rows import ZarrRows

Array = NDArray[Any]


class Outcome:
    """The part of an estimator that keeps what a fit found."""

    n_components: float | None
    gamma: float | str | None
    remove_zero_eig: bool
    n_features_in_: int
    _weights: Array | None
    _model: FittedBasis

    @property
    def basis_(self) -> FittedBasis:
        """What was fitted, as `load_basis` gives it: components of eigenvalue 0 are left out."""
        check_is_fitted(self)
        return self._model

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def _forget(self, *names: str) -> None:
        """What a fit by another solver left, and this one does not have."""
        for name in names:
            self.__dict__.pop(name, None)

    def _take_approximate(self, basis: Basis) -> Self:
        self._forget("eigenvectors_", "residual_norms_")
        asked = self.n_components or 0
        if basis.n_components < asked:
            warn_of_fewer(basis.n_components, asked)
        self.eigenvalues_ = basis.eigenvalues
        self.eigenvalue_bounds_ = brackets_of(basis)
        self.n_passes_ = basis.facts["n_passes"]
        self.X_fit_ = None if basis.rows is None else basis.rows.load()
        self._take_basis(basis, FittedBasis(basis))
        return self

    def _take_basis(self, basis: Basis, model: FittedBasis) -> None:
        given = self.gamma if isinstance(self.gamma, int | float) else 1.0 / self.n_features_in_
        self.gamma_ = getattr(basis.kernel, "gamma", given)
        self.explained_variance_ = self.eigenvalues_ / (basis.total_weight - 1)
        self.explained_variance_ratio_ = (
            self.eigenvalues_ / basis.trace if basis.trace > 0 else 0 * self.eigenvalues_
        )
        self.row_means_ = basis.row_means
        self.grand_mean_ = basis.grand_mean
        self._model = model

    def _take(self, found: Fit, pairs: Eigenpairs, model: FittedBasis, places: Array | None) -> None:
        self._forget("eigenvalue_bounds_")
        basis = found.basis
        if places is not None:
            pairs = self._of_all_rows(found, pairs, places)
        keep_zeros = self.n_components is not None and not self.remove_zero_eig
        kept = slice(None) if keep_zeros else pairs.eigenvalues > 0
        self.eigenvalues_ = pairs.eigenvalues[kept]
        self.eigenvectors_ = pairs.eigenvectors[:, kept]
        self.residual_norms_ = pairs.residual_norms[kept]
        self.n_passes_ = pairs.n_passes
        self._take_basis(basis, model)
        if places is not None:
            self.row_means_ = basis.row_means[places]
        if (
            self.remove_zero_eig
            and self.n_components is not None
            and len(self.eigenvalues_) < self.n_components
        ):
            warn_of_fewer(len(self.eigenvalues_), self.n_components)

    def _of_all_rows(self, found: Fit, pairs: Eigenpairs, places: Array) -> Eigenpairs:
        """The pairs where each row stands for itself again, those of eigenvalue 0 completed."""
        own = np.ones(len(places)) if self._weights is None else self._weights
        pairs = repeated(pairs, places, own)
        asked = found.plan.settings.n_components
        return completed(pairs, asked) if isinstance(asked, int) else pairs

    def _training_scores(self) -> Array:
        """z_ij = √μ_j a_ij/√w_i, (n_samples, n_components), of an exact fit."""
        scores = np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))
        return scores if self._weights is None else scores / np.sqrt(self._weights)[:, None]

    def _with_zeros(self, scores: Any) -> Any:
        """Scores of components of eigenvalue 0 are 0."""
        n_components = len(self.eigenvalues_)
        n_missing = n_components - scores.shape[1]
        if not n_missing:
            return scores
        pad = functools.partial(np.pad, pad_width=((0, 0), (0, n_missing)))
        if not isinstance(scores, da.Array):
            return pad(scores)
        chunks = (scores.chunks[0], (n_components,))
        meta = np.empty((0, n_components))
        return da.map_blocks(pad, scores, dtype=scores.dtype, chunks=chunks, meta=meta)

    def _as_output(self, scores: Any) -> Any:
        # That which was asked for: landmarks may need similarities in another one.
        asked = self._model.basis.facts["precision"]
        return scores.astype(np.float32) if asked == "float32" else scores


def without_store(work: TemporaryFolder, basis: Basis) -> Basis:
    """The store of a fit with storage="zarr" is gone after it, and rows that it held with it."""
    held = isinstance(basis.rows, ZarrRows) and work.path.name in str(basis.rows.array.store_path)
    return basis.in_memory() if held else basis


def warn_of_fewer(n_kept: int, n_asked: float) -> None:
    """Say that components were left out for their eigenvalue 0."""
    warnings.warn(
        f"only {n_kept} of {n_asked} components have a positive eigenvalue; these are kept",
        KpcaStreamWarning,
        stacklevel=3,
    )
