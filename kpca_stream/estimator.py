"""KernelPCA, the scikit-learn face of the pipeline."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kpca_stream.cluster import connect
from kpca_stream.errors import ConfigError
from kpca_stream.fitting import Fit, FitSettings, fit
from kpca_stream.inputs import as_source, is_out_of_core
from kpca_stream.model import FittedBasis
from kpca_stream.numerics.resolve import KernelSpec, block_kernel
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.layout import RunStore

Array = NDArray[Any]

SOLVERS = {"auto": "auto", "dense": "dense", "lanczos": "lanczos", "arpack": "lanczos", "randomized": "lanczos"}
MAX_PASSES = 50


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel principal component analysis, exact, for data that need not fit in memory.

    K̃ a_j = μ_j a_j for the centred kernel matrix K̃ = H K H (Schölkopf, Smola and Müller 1998, Nonlinear
    component analysis as a kernel eigenvalue problem, section 2); scores of a row x are
    z_j(x) = a_jᵀ(k(x) − m)/√μ_j, m the row means of K.

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
        "linear", "poly", "rbf", "sigmoid", "cosine", "precomputed", "laplacian", "package.module:function" (a
        function of two row blocks), or a callable of two rows; `kpca_stream.block_kernel` marks one that takes
        two row blocks.
    gamma : float, "scale", "median" or None
        None is 1/n_features; "scale" 1/(n_features · X.var()); "median" 1/(2 · median²) of pairwise distances
        (laplacian: 1/median of the L1 distances).
    degree : int
        Of "poly".
    coef0 : float
        Of "poly" and "sigmoid".
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    eigen_solver : {"auto", "dense", "lanczos", "arpack", "randomized"}
        The last two give the same answers as "lanczos"; nothing is approximated.
    tol : float
        Largest residual norm relative to the first eigenvalue; 0 is 1e-6 in float32 and mixed, 1e-13 in float64.
    max_iter : int, optional
        Passes over the kernel matrix at most; default 50.
    iterated_power : object
        Steers nothing here; there for scikit-learn's sake.
    remove_zero_eig : bool
        Leave out components of eigenvalue 0 also where `n_components` is given.
    random_state : int, RandomState or None
        Of the first block of vectors and of the γ sample; None is 0, so that equal calls give equal results.
    copy_X : bool
        Steers nothing here, since X is never changed.
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

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
    eigenvectors_ : ndarray of shape (n_samples, n_components)
    gamma_ : float or None
        As used.
    X_fit_ : ndarray or handle of the rows that were fitted
    explained_variance_ : ndarray of shape (n_components,)
        μ_j/(n − 1).
    explained_variance_ratio_ : ndarray of shape (n_components,)
        μ_j/tr K̃, the share of all variance in feature space.
    row_means_ : ndarray of shape (n_samples,)
        Of K.
    grand_mean_ : float
        Of K.
    residual_norms_ : ndarray of shape (n_components,)
        ‖K̃a − μa‖.
    n_passes_ : int
        Products of the kernel matrix with a block of vectors.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from kpca_stream import KernelPCA
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> KernelPCA(2, kernel="poly", degree=2, gamma=1.0, coef0=0.0).fit(X).eigenvalues_.round(4)
    array([0.6667, 0.    ])
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: Any = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,  # noqa: N803  scikit-learn's name
        n_jobs: int | None = None,
        max_components: int = 200,
        precision: str = "auto",
        storage: str = "auto",
        memory_limit: int | str = "4GiB",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Fit the basis.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            NumPy array, pandas frame, Zarr or Dask array; for a precomputed kernel (n_samples, n_samples).
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row of weight w acts as w copies; rows of weight 0 are left out.

        Returns
        -------
        self
        """
        X = self._validated(X, reset=True)
        X, weights = self._weighted(X, sample_weight)
        settings = self._settings()
        with self._scheduler(), self._store() as store:
            source = as_source(X, self._folder, settings.memory_limit)
            self._take(fit(source, settings, store=store, weights=weights))
        self.X_fit_ = X
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and give the scores of the training rows, z_ij = √μ_j a_ij, shape (n_samples, n_components).

        With weights z_ij = √μ_j a_ij/√w_i, and rows of weight 0 are scored as new rows.
        """
        self.fit(X, y, sample_weight)
        if sample_weight is not None and len(self.eigenvectors_) < X.shape[0]:
            return np.asarray(self.transform(X))
        return self._as_output(self.eigenvectors_ * np.sqrt(self.eigenvalues_) / self._root_weights())

    def transform(self, X: Any) -> Any:
        """Scores of rows; lazy for a Dask array.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)

        Returns
        -------
        ndarray or dask.array.Array of shape (n_rows, n_components)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with self._scheduler():
            scores = self._model.transform(X)
        missing = len(self.eigenvalues_) - scores.shape[1]
        if missing and isinstance(scores, np.ndarray):
            scores = np.pad(scores, ((0, 0), (0, missing)))
        return self._as_output(scores)

    def reconstruction_error(self, X: Any, *, diagonal: Array | None = None) -> Any:
        """e(x), the squared distance of each row to the model in feature space, shape (n_rows,).

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        diagonal : ndarray of shape (n_rows,), optional
            k(x, x), needed for a precomputed kernel.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with self._scheduler():
            return self._model.reconstruction_error(X, diagonal=diagonal)

    def save(self, path: str | Path) -> None:
        """Write the positive components to a new folder `path`; `kpca_stream.load_basis` opens it.

        Raises
        ------
        DataError
            If the kernel is a function that cannot be found again by name.
        """
        check_is_fitted(self)
        self._model.save(path)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _settings(self) -> FitSettings:
        # Imported here: only a size given as text needs the configuration's reader.
        from kpca_stream.config import parse_size

        if self.eigen_solver not in SOLVERS:
            raise ConfigError(f"eigen_solver: got {self.eigen_solver!r}, expected one of {', '.join(SOLVERS)}")
        return FitSettings(
            kernel=self._kernel_spec(),
            n_components=_components(self.n_components),
            max_components=self.max_components,
            method=SOLVERS[self.eigen_solver],  # type: ignore[arg-type]
            precision=_one_of("precision", self.precision, ("auto", "float32", "float64", "mixed")),
            tol=_not_negative("tol", self.tol),
            max_passes=self.max_iter or MAX_PASSES,
            storage=_one_of("storage", self.storage, ("auto", "memory", "zarr", "recompute")),
            memory_limit=parse_size(self.memory_limit),
            on_indefinite="asked",
            seed=_seed(self.random_state),
        )

    def _kernel_spec(self) -> KernelSpec:
        if not callable(self.kernel):
            return KernelSpec(self.kernel, self.gamma, self.degree, self.coef0)
        function = self.kernel
        if self.kernel_params:
            function = functools.partial(function, **self.kernel_params)
            if getattr(self.kernel, "takes_blocks", False):
                block_kernel(function)
        return KernelSpec(getattr(self.kernel, "__name__", "callable"), function=function)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if is_out_of_core(X):
            if reset:
                self.n_features_in_ = X.shape[1]
            return X
        # NaN and infinity are refused by the sweep too, with row and column.
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=2 if reset else 1)

    def _weighted(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        if sample_weight is None:
            return X, None
        if is_out_of_core(X):
            weights = np.asarray(sample_weight, dtype=np.float64)
        else:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if weights.shape != (X.shape[0],) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ConfigError(f"sample_weight: got shape {weights.shape}, expected {X.shape[0]} finite numbers ≥ 0")
        if (weights > 0).all():
            return X, weights
        kept = weights > 0
        if self.kernel == "precomputed":
            return X[np.ix_(kept, kept)], weights[kept]
        return X[kept], weights[kept]

    def _scheduler(self) -> Any:
        if self.n_jobs is None:
            return nullcontext()
        return connect("threads", n_workers=None if self.n_jobs < 0 else self.n_jobs)

    @contextmanager
    def _store(self) -> Iterator[RunStore | None]:
        if self.storage != "zarr":
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="kpca-stream-") as folder:
            yield RunStore.open(Path(folder) / "gram.zarr")

    def _folder(self) -> Path:
        """A folder that lives as long as this estimator, for rows that memory does not hold."""
        self._rows_folder = tempfile.TemporaryDirectory(prefix="kpca-stream-")
        return Path(self._rows_folder.name) / "rows.zarr"

    def _take(self, found: Fit) -> None:
        basis, pairs = found.basis, found.pairs
        keep_zeros = self.n_components is not None and not self.remove_zero_eig
        kept = slice(None) if keep_zeros else pairs.eigenvalues > 0
        self.eigenvalues_ = pairs.eigenvalues[kept]
        self.eigenvectors_ = pairs.eigenvectors[:, kept]
        self.residual_norms_ = pairs.residual_norms[kept]
        self.n_passes_ = pairs.n_passes
        self.gamma_ = getattr(basis.kernel, "gamma", None)
        self.explained_variance_ = self.eigenvalues_ / max(basis.total_weight - 1, 1)
        self.explained_variance_ratio_ = self.eigenvalues_ / basis.trace if basis.trace > 0 else 0 * self.eigenvalues_
        self.row_means_ = basis.row_means
        self.grand_mean_ = basis.grand_mean
        self._weights = basis.weights
        self._model = FittedBasis(_without_store(basis, self.storage))

    def _root_weights(self) -> Array:
        return np.ones((1, 1)) if self._weights is None else np.sqrt(self._weights)[:, None]

    def _as_output(self, scores: Any) -> Any:
        return scores.astype(np.float32) if self._model.precision == "float32" else scores


def _without_store(basis: Basis, storage: str) -> Basis:
    """The store of a fit with storage="zarr" is gone after it, and its rows with it."""
    return basis.in_memory() if storage == "zarr" else basis


def _components(n_components: Any) -> int | float | None:
    if n_components is None:
        return None
    whole = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool) and n_components >= 1
    if not whole and not (isinstance(n_components, float | np.floating) and 0 < n_components < 1):
        raise ConfigError(f"n_components: got {n_components!r}, expected a whole number ≥ 1, a share in (0, 1), or None")
    return int(n_components) if whole else float(n_components)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ConfigError(f"{name}: got {value!r}, expected one of {', '.join(choices)}")
    return value


def _not_negative(name: str, value: float) -> float:
    if not value >= 0:
        raise ConfigError(f"{name}: got {value!r}, expected a number ≥ 0")
    return float(value)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
