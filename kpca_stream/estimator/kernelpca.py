"""KernelPCA, the scikit-learn face of the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kpca_stream.approximation import DEFAULT_LANDMARKS
from kpca_stream.arguments import settings_of
from kpca_stream.estimator.adding import Adding
from kpca_stream.estimator.backward import Backward
from kpca_stream.estimator.intake import Intake
from kpca_stream.estimator.outcome import Outcome, warn_of_fewer, without_store
from kpca_stream.fitting import Fit, fit
from kpca_stream.inputs import as_source, own_copy, places_among, without_zero_weights
from kpca_stream.model import FittedBasis
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.source import Source

Array = NDArray[Any]


class KernelPCA(
    Intake,
    Adding,
    Outcome,
    Backward,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Kernel principal component analysis for data that need not fit in memory; exact, or by landmarks.

    K̃ a_j = μ_j a_j for the centred kernel matrix K̃ = H K H (Schölkopf, Smola and Müller 1998, Nonlinear
    component analysis as a kernel eigenvalue problem, section 2); scores of a row x are
    z_j(x) = a_jᵀ(k(x) − m)/√μ_j, m the row means of K.

    With ``eigen_solver="nystrom"`` rows are compared with some landmarks only, in one pass: eigenvalues are
    then at most the exact ones, and `eigenvalue_bounds_` tells by how much. Such a model takes more rows with
    `partial_fit`, and keeps its kernel and landmarks meanwhile.

    Takes what scikit-learn's ``KernelPCA`` takes, with the same meanings, but for these refusals: parameters
    that make a kernel indefinite or empty (γ ≤ 0; a negative ``coef0`` or a fractional ``degree`` of "poly"),
    a precomputed matrix that is not symmetric, and ``n_components=None`` on more rows than a dense solve can
    take.

    Parameters
    ----------
    n_components : int, float or None
        How many components; a share in (0, 1): the fewest, at most `max_components`, that certify this share
        of the variance; None: all with a positive eigenvalue (as `remove_zero_eig` says).
    kernel : str or callable
        "linear", "poly", "rbf", "sigmoid", "cosine", "precomputed", "laplacian", "package.module:function"
        (a function of two row blocks), or a callable of two rows; `kpca_stream.block_kernel` marks one that
        takes two row blocks.
    gamma : float, "scale", "median" or None
        None is 1/n_features; "scale" 1/(n_features · X.var()); "median" 1/(2 · median²) of pairwise distances
        (laplacian: 1/median of the L1 distances).
    degree : int
        Of "poly".
    coef0 : float
        Of "poly" and "sigmoid".
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    alpha : float
        Of the kernel ridge regression from scores to rows: how much it is smoothed.
    fit_inverse_transform : bool
        Learn the way from scores back to rows, for `inverse_transform`. Up to 5,000 training rows as in
        scikit-learn; beyond, on `n_landmarks` of them, in one more pass.
    eigen_solver : {"auto", "dense", "lanczos", "arpack", "randomized", "nystrom"}
        "arpack" and "randomized" give the same answers as "lanczos"; only "nystrom" approximates.
    tol : float
        Largest residual norm relative to the first eigenvalue; 0 is 1e-6 in float32 and mixed, 1e-13 in
        float64.
    max_iter : int, optional
        Passes over the kernel matrix at most; default 50.
    iterated_power : object
        Steers nothing here; there for scikit-learn's sake.
    remove_zero_eig : bool
        Leave out components of eigenvalue 0 also where `n_components` is given.
    random_state : int, RandomState or None
        Of the first block of vectors and of the γ sample; None is 0, so that equal calls give equal results.
    copy_X : bool
        Steers nothing here: X is never changed, and of an array in memory the model keeps its own copy.
    n_jobs : int, optional
        Threads; -1 all processors; None whatever Dask scheduler is active.
    max_components : int
        Most components that a share may take.
    precision : {"auto", "float32", "float64", "mixed"}
        Of the passes; "mixed" iterates in float32 and refines in float64. "auto": float32 for float32 input,
        else float64 to 5,000 rows and mixed beyond.
    storage : {"auto", "memory", "zarr", "recompute"}
        Where kernel tiles are between passes.
    memory_limit : int or str
        Bytes that a fit may take, or a size as "4GiB".
    n_landmarks : int
        Of "nystrom", at most.
    landmarks : {"auto", "kmeans", "rpcholesky", "uniform"} or array of shape (m, n_features)
        How these are chosen, or what they are; for a precomputed kernel the positions of rows, (m,). "auto":
        "kmeans" for the kernels rbf and laplacian, "rpcholesky" for others.
    merge_duplicates : bool or "auto"
        Fit rows that occur more than once as one with a weight, which changes nothing but the cost; "auto":
        where they are at least half of all. Those of a precomputed kernel never are.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Not of "nystrom", which keeps nothing of each training row.
    gamma_ : float
        As used; for kernels without γ 1/n_features where none was given, as in scikit-learn.
    X_fit_ : ndarray or handle of the rows that were fitted
        Of "nystrom" the landmarks.
    explained_variance_ : ndarray of shape (n_components,)
        μ_j/(n − 1).
    explained_variance_ratio_ : ndarray of shape (n_components,)
        μ_j/tr K̃, the share of all variance in feature space.
    row_means_ : ndarray of shape (n_samples,)
        Of K.
    grand_mean_ : float
        Of K.
    residual_norms_ : ndarray of shape (n_components,)
        ‖K̃a − μa‖; not of "nystrom".
    eigenvalue_bounds_ : ndarray of shape (n_components, 2)
        Only of "nystrom": where the exact eigenvalue is for certain, if the kernel is positive semidefinite.
    X_transformed_fit_ : ndarray of shape (n_samples, n_components)
        Only with `fit_inverse_transform`: the training scores that the ridge is in terms of; those of the
        landmarks, (m, n_components), where they are too many.
    dual_coef_ : ndarray of shape (n_samples, n_features)
        Only with `fit_inverse_transform`: (K + αI)⁻¹X, K of the training scores; of landmarks
        (m, n_features).
    n_passes_ : int
        Products of the kernel matrix with a block of vectors.
    basis_ : FittedBasis
        As `kpca_stream.load_basis` gives it: scores with errors and novelty, and what plots take.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from kpca_stream import KernelPCA
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> KernelPCA(2, kernel="poly", degree=2, gamma=1.0, coef0=0.0).fit(X).eigenvalues_.round(4)
    array([0.6667, 0.    ])
    """

    def __init__(  # noqa: PLR0913  scikit-learn's and ours
        self,
        n_components: float | None = None,
        *,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: Any = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        max_components: int = 200,
        precision: str = "auto",
        storage: str = "auto",
        memory_limit: int | str = "4GiB",
        merge_duplicates: bool | str = False,
        n_landmarks: int = DEFAULT_LANDMARKS,
        landmarks: Any = "auto",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.max_components = max_components
        self.precision = precision
        self.storage = storage
        self.memory_limit = memory_limit
        self.merge_duplicates = merge_duplicates
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Fit the basis.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            NumPy array, pandas frame, SciPy sparse matrix, Zarr, Dask or xarray array; for a precomputed
            kernel (n_samples, n_samples). Sparse rows are made dense block by block, as they are used.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row of weight w acts as w copies; rows of weight 0 are left out. The rules for γ look at the
            rows that are left, once each.

        Returns
        -------
        self
        """
        settings = settings_of(self)
        X = self._validated(X, reset=True)
        X, weights, self._kept = without_zero_weights(X, sample_weight, square=self._is_precomputed)
        self._refuse_sparse_backward(X)
        # Landmarks are copies, and no other rows stay with an approximation.
        if not self._is_precomputed and self.eigen_solver != "nystrom":
            X = own_copy(X)
        with self._scheduler(), self._workspace() as work:
            source, folder = as_source(X, settings.memory_limit, getattr(self, "feature_names_in_", None))
            store = None if work is None else RunStore.open(work.path / "gram.zarr")
            found = fit(source, settings, store=store, weights=weights)
            basis = found.basis if work is None else without_store(work, found.basis)
            self._weights = weights
            self._forget("X_transformed_fit_", "dual_coef_")
            if found.pairs is None:
                self._begin_sums()
                self._take_approximate(basis)
            else:
                self._take(found, found.pairs, FittedBasis(basis, folder), _places(source, found))
                self.X_fit_ = X
            if self.fit_inverse_transform:
                scores = None if found.pairs is None else self._training_scores()
                limit = settings.memory_limit
                self._learn_backward(source, scores, weights, limit=limit, seed=settings.seed)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and give the scores of the training rows, z_ij = √μ_j a_ij, shape (n_samples, n_components).

        With weights z_ij = √μ_j a_ij/√w_i, and rows of weight 0 are scored as new rows.
        """
        self.fit(X, y, sample_weight)
        if self._kept is not None or self.eigen_solver == "nystrom":
            return np.asarray(self.transform(X))
        return np.asarray(self._as_output(self._training_scores()))

    def transform(self, X: Any) -> Any:
        """Scores of rows; lazy for a Dask array.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            For a precomputed kernel (n_rows, n_samples), its values between new and training rows, which
            come in the order of the fit.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows, n_components)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with self._scheduler():
            return self._as_output(self._with_zeros(self._model.transform(X)))

    def reconstruction_error(self, X: Any, *, diagonal: Any = None) -> Any:
        """e(x), the squared distance of each row to the model in feature space, shape (n_rows,).

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        diagonal : array of shape (n_rows,), optional
            k(x, x), needed for a precomputed kernel, and only there.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with self._scheduler():
            return self._model.reconstruction_error(X, diagonal=diagonal)

    def save(self, path: str | Path) -> None:
        """Write the components of positive eigenvalue to a new folder; `kpca_stream.load_basis` opens it.

        Raises
        ------
        DataError
            If the kernel is a function that cannot be found again by name.
        """
        check_is_fitted(self)
        if self._model.n_components < len(self.eigenvalues_):
            warn_of_fewer(self._model.n_components, len(self.eigenvalues_))
        self._model.save(path)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed
        return tags


def _places(source: Source, found: Fit) -> Array | None:
    """Where each row of the source is among the distinct ones, where rows were merged."""
    if found.n_distinct is None or found.basis.rows is None:
        return None
    return places_among(source, found.basis.rows)
