"""What the plots take: bases in their several forms, and scores as arrays or as folders of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca_stream.addresses import located
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.score_parts import score_parts

Array = NDArray[Any]

MEASURES = ("reconstruction_error", "hotelling_t2")
"""What tells a novel row."""


class Fitted(Protocol):
    """What is known of any basis: a `Basis`, or what `load_basis` gives."""

    @property
    def eigenvalues(self) -> Array:
        """Largest first, (n_components,)."""

    @property
    def explained_variance_ratio(self) -> Array:
        """Shares of the trace, (n_components,)."""

    @property
    def thresholds(self) -> Thresholds:
        """Of reconstruction error and T²."""

    @property
    def facts(self) -> dict[str, Any]:
        """How it was made."""


class Estimator(Protocol):
    """A `KernelPCA` that was fitted."""

    @property
    def basis_(self) -> Fitted:
        """What was fitted."""


Model = Fitted | Estimator | str | PathLike[str]
"""A basis, a fitted estimator, or the path of a basis."""


def fitted(model: Model) -> Fitted:
    """The stored values of a model, where it has these.

    Raises
    ------
    NotFittedError
        If it is an estimator that was not fitted.
    """
    if isinstance(model, str | PathLike):
        return open_basis(located(model if isinstance(model, str) else Path(model)))
    found = _own(model)
    known: Fitted = getattr(found, "frozen", found)
    return known


def _own(model: Any) -> Any:
    """The basis of an estimator; anything else as it is."""
    return model.basis_ if hasattr(type(model), "basis_") else model


def frozen(basis: Any) -> Basis:
    """The stored values of a basis, its rows among them.

    Raises
    ------
    ConfigError
        If it is none.
    """
    found = fitted(basis)
    if not isinstance(found, Basis):
        raise ConfigError(
            f"basis: got {type(basis).__name__}, expected what load_basis gives, a fitted KernelPCA, or the "
            "path of a basis"
        )
    return found


def check_measure(of: str) -> None:
    """Raise `ConfigError` unless `of` is one of `MEASURES`."""
    if of not in MEASURES:
        raise ConfigError(f"of: got {of!r}, expected one of {', '.join(MEASURES)}")


def score_blocks(scores: Any, first: int, second: int) -> Iterator[tuple[Array, Array, Array | None]]:
    """Two columns of scores, block by block, with the weights of rows; components are counted from 1.

    Parameters
    ----------
    scores : array of shape (n_rows, n_components), path, or model
        The path is that of a folder of parts; of a model its training rows are taken.
    """
    if isinstance(scores, str | PathLike):
        names = f"kpca_{first - 1}", f"kpca_{second - 1}"
        for part in score_parts(located(scores if isinstance(scores, str) else Path(scores))):
            check_components(part.n_components, first, second)
            for batch in part.batches(names):
                yield batch[names[0]], batch[names[1]], None
        return
    if hasattr(_own(scores), "training_scores"):
        for Z, weights in _own(scores).training_scores():
            check_components(Z.shape[1], first, second)
            yield Z[:, first - 1], Z[:, second - 1], weights
        return
    Z = np.asarray(scores)
    if Z.ndim != 2:
        raise DataError(f"scores: got {Z.ndim} dimensions, expected 2: rows x components")
    check_components(Z.shape[1], first, second)
    yield Z[:, first - 1], Z[:, second - 1], None


def check_components(n_components: int, *asked: int) -> None:
    """Raise `ConfigError` for components that there are not; they are counted from 1."""
    wrong = [number for number in asked if not 1 <= number <= n_components]
    if wrong:
        raise ConfigError(f"component {wrong[0]}: not there, expected a number from 1 to {n_components}")


def value_blocks(scores: Any, of: str) -> Iterator[Array]:
    """One measure of novelty, in order, block by block and part by part.

    Parameters
    ----------
    scores : path, scores, array of shape (n_rows,), or a sequence of these
        A folder of parts, in order of writing; or what `FittedBasis.score` gives; or the values.
    of : {"reconstruction_error", "hotelling_t2"}
    """
    for values in value_parts(scores, of):
        yield from values


def value_parts(scores: Any, of: str) -> Iterator[Iterable[Array]]:
    """The same, each part by itself."""
    check_measure(of)
    if isinstance(scores, str | PathLike):
        for part in score_parts(located(scores if isinstance(scores, str) else Path(scores))):
            yield (batch[of] for batch in part.batches((of,)))
    elif isinstance(scores, Sequence) and not hasattr(scores, of):
        for each in scores:
            yield from value_parts(each, of)
    else:
        values = getattr(scores, of, scores)
        if values is not None:
            yield (np.asarray(values, dtype=np.float64).reshape(-1),)
