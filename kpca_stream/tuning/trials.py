"""One trial of a kernel: fitted on some folds of a sample, judged on the one that was held back."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.eigensolve import dense
from kpca_stream.numerics.kernels import Kernel
from kpca_stream.numerics.preimage import Ridge, score_kernel
from kpca_stream.numerics.projection import Spanning, project
from kpca_stream.parameters import is_function_name
from kpca_stream.spectrum import NEGATIVE, ZERO
from kpca_stream.stages.centering import Means, centre

Array = NDArray[Any]

ESTIMATORS = ("logistic", "ridge")


@dataclass(frozen=True, eq=False)
class Question:
    """What a task is asked: how good a kernel is on the rows of one fold.

    Parameters
    ----------
    kernel : Kernel
    n_components : tuple of int
    alphas : tuple of float
    folds : ndarray of int of shape (n,)
        To which fold each row belongs.
    fold : int
        The one that is held back.
    labels : ndarray of shape (n,), optional
    estimator : str, optional
    """

    kernel: Kernel
    n_components: tuple[int, ...]
    alphas: tuple[float, ...]
    folds: Array
    fold: int
    labels: Array | None = None
    estimator: str = "logistic"


class Answer(NamedTuple):
    """Scores (len(n_components), len(alphas)), of an estimator (…, 1); NaN where there is none."""

    scores: Array
    problem: str = ""


def answer(question: Question, *blocks: Array) -> Answer:
    """The task: judge a kernel on one fold of the sample, which comes in blocks of rows."""
    X = np.concatenate(blocks)
    held = question.folds == question.fold
    shape = len(question.n_components), 1 if question.labels is not None else len(question.alphas)
    try:
        fitted = _Fitted.of(question.kernel, X[~held], max(question.n_components))
        Z = fitted.scores(X[held])
        if question.labels is not None:
            return _by_estimator(question, fitted.training_scores, Z, held)
        return _by_pre_images(question, fitted.training_scores, X[~held], Z, X[held])
    except (ConfigError, DataError) as error:
        return Answer(np.full(shape, np.nan), str(error))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Kernel PCA of few rows, in float64."""

    kernel: Kernel
    rows: Array
    eigenvalues: Array
    a: Array
    means: Means

    @classmethod
    def of(cls, kernel: Kernel, rows: Array, n_components: int) -> Self:
        ones = np.ones(len(rows))
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            K = kernel.matrix(rows, rows)
        np.fill_diagonal(K, kernel.diagonal(kernel.operand(rows, np.float64)))
        if not np.isfinite(K).all():
            raise DataError("kernel values overflow")
        pairs = dense(centre(K, ones), wanted=lambda theta: min(n_components, len(theta)))
        largest = float(pairs.eigenvalues[0])
        if not largest > 0:
            raise DataError("no component has a positive eigenvalue")
        if pairs.smallest < -NEGATIVE["float64"] * largest:
            raise DataError(f"indefinite: |negative|/largest = {-pairs.smallest / largest:.2g}")
        kept = pairs.eigenvalues > ZERO["float64"] * largest
        return cls(
            kernel, rows, pairs.eigenvalues[kept], pairs.eigenvectors[:, kept], Means.of(K @ ones, ones)
        )

    @property
    def training_scores(self) -> Array:
        return np.asarray(self.a * np.sqrt(self.eigenvalues))

    def scores(self, rows: Array) -> Array:
        coefficients = self.a / np.sqrt(self.eigenvalues)
        factors = np.column_stack([coefficients, np.ones(len(self.rows))])
        return project(
            self.kernel,
            self.kernel.operand(rows, np.float64),
            [Spanning(self.kernel.operand(self.rows, np.float64), factors)],
            centring=coefficients.T @ self.means.row_means,
            total_weight=float(len(self.rows)),
            dtype=np.float64,
        ).scores


def _by_pre_images(question: Question, Z_fitted: Array, X_fitted: Array, Z: Array, X: Array) -> Answer:
    """Squared distances to pre-images over those to the mean, in columns as they are scaled."""
    kernel, multiplier = score_kernel(question.kernel), question.kernel.preparation.multiplier
    size = 1.0 if multiplier is None else multiplier
    total = float((((X - X_fitted.mean(axis=0)) * size) ** 2).sum())
    scores = np.full((len(question.n_components), len(question.alphas)), np.nan)
    problem = ""
    for i, n_components in enumerate(question.n_components):
        for j, alpha in enumerate(question.alphas):
            try:
                ridge, _ = Ridge.exact(kernel, Z_fitted[:, :n_components], X_fitted, alpha)
            except ConfigError as error:
                problem = str(error)
                continue
            scores[i, j] = (((ridge(Z[:, :n_components]) - X) * size) ** 2).sum() / total
    return Answer(scores, problem)


def _by_estimator(question: Question, Z_fitted: Array, Z: Array, held: Array) -> Answer:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if question.labels is None:
        raise TypeError("no labels to judge by")
    scores = np.empty((len(question.n_components), 1))
    for i, n_components in enumerate(question.n_components):
        model = make_pipeline(StandardScaler(), make_estimator(question.estimator))
        model.fit(Z_fitted[:, :n_components], question.labels[~held])
        scores[i, 0] = model.score(Z[:, :n_components], question.labels[held])
    return Answer(scores)


def make_estimator(name: str) -> Any:
    """A scikit-learn estimator by its short name, or by that of a function that makes one.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if name == "ridge":
        from sklearn.linear_model import Ridge as LinearRidge

        return LinearRidge()
    if not is_function_name(name):
        raise ConfigError(f"estimator: got {name!r}, expected logistic, ridge or package.module:function")
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"estimator: {name!r} cannot be found ({error}); expected an importable module and its function"
        ) from error


def fold_numbers(n_rows: int, folds: int, seed: int, labels: Array | None) -> Array:
    """To which fold each row belongs, (n_rows,); of labels that are no measures each fold gets its share.

    Raises
    ------
    ConfigError
        If there are too few rows, or too few of a label.
    """
    if n_rows < 2 * folds:
        raise ConfigError(
            f"folds: got {folds} for {n_rows} rows, expected at most {n_rows // 2}; give more rows"
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    found = np.empty(n_rows, np.int64)
    if labels is None or labels.dtype.kind == "f":
        found[order] = np.arange(n_rows) % folds
        return found
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < folds:
        raise ConfigError(
            f"labels: got {names[np.argmin(counts)]} for {counts.min()} sampled rows, expected each for "
            f"at least folds={folds}; ask for fewer folds, more sampled rows, or leave rare ones out"
        )
    order = order[np.argsort(labels[order], kind="stable")]
    found[order] = np.arange(n_rows) % folds
    return found


def mean_and_spread(answers: Sequence[Answer]) -> tuple[Array, Array, str]:
    """Mean and standard deviation over folds, and the first problem."""
    scores = np.stack([each.scores for each in answers])
    problem = next((each.problem for each in answers if each.problem), "")
    return scores.mean(axis=0), scores.std(axis=0), problem
