"""From what was asked for to a kernel with all its numbers, once, at the fit."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.numerics.kernels import (
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Own,
    Polynomial,
    Precomputed,
    Preparation,
    Rbf,
    RowPairs,
    Sigmoid,
)
from kpca_stream.numerics.moments import Moments
from kpca_stream.parameters import (
    KERNELS_WITH_GAMMA,
    canonical_kernel,
    check_kernel_parameters,
    is_function_name,
)

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

IDENTITY_ENTRY = 1e-6
CONSTANT_ENTRY = 1 - 1e-6
SHIFT_ENTRY = 0.9
"""Where all sampled entries are larger, exp − 1 is used: float32 would lose more than a digit of K̃."""


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """A kernel as asked for.

    Parameters
    ----------
    name : str
        One of ``linear``, ``rbf``, ``laplacian``, ``poly`` (alias ``polynomial``), ``sigmoid``, ``cosine``,
        ``precomputed``, or ``package.module:function``.
    gamma : float, {"scale", "median"} or None
        None is 1/n_features; "scale" 1/(n_features · variance of all values); "median" 1/(2 · median²) of the
        pairwise distances of a sample (laplacian: 1/median of the L1 distances).
    degree, coef0 : int, float
        Of ``poly``; ``coef0`` also of ``sigmoid``.
    function : callable, optional
        A kernel of one's own; `name` then is its label.
    """

    name: str = "linear"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    function: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Refuse parameters that make a kernel indefinite or empty."""
        if self.function is None:
            check_kernel_parameters(self.name, self.gamma, self.degree, self.coef0)


def block_kernel(function: Function) -> Function:
    """Mark a function of two row blocks, (n, d) and (m, d) to (n, m), as a kernel; also a decorator."""
    function.takes_blocks = True  # type: ignore[attr-defined]
    return function


def resolve_kernel(spec: KernelSpec, moments: Moments, sample: Array, *, scale: bool) -> Kernel:
    """The kernel for these rows.

    Parameters
    ----------
    spec : KernelSpec
        What was asked for.
    moments : Moments
        Of all rows.
    sample : ndarray of shape (n_sampled, n_features)
        The rows that "median" and the warnings look at.
    scale : bool
        Whether rows are standardised.

    Raises
    ------
    ConfigError
        If γ cannot be told from the sample.

    Warns
    -----
    KpcaStreamWarning
        If the sample shows K near the identity or nearly constant.
    """
    preparation = _preparation(spec, moments, scale=scale)
    points = preparation(sample)
    if canonical_kernel(spec.name) not in KERNELS_WITH_GAMMA or spec.function is not None:
        return make_kernel(spec, preparation, gamma=0.0)
    gamma = _gamma(spec, moments, preparation, points)
    return _checked_against(sample, make_kernel(spec, preparation, gamma=gamma), points)


def make_kernel(spec: KernelSpec, preparation: Preparation, *, gamma: float, shift: float = 0.0) -> Kernel:
    """The kernel of a name and its resolved numbers."""
    name = canonical_kernel(spec.name)
    if spec.function is not None:
        return Own(preparation, _block_function(spec.function), name)
    if is_function_name(name):
        return Own(preparation, _find(name), name)
    makers: dict[str, Callable[[], Kernel]] = {
        "linear": lambda: Linear(preparation),
        "cosine": lambda: Cosine(preparation),
        "rbf": lambda: Rbf(preparation, gamma, shift),
        "laplacian": lambda: Laplacian(preparation, gamma, shift),
        "poly": lambda: Polynomial(preparation, gamma, int(spec.degree), float(spec.coef0)),
        "sigmoid": lambda: Sigmoid(preparation, gamma, float(spec.coef0)),
        "precomputed": lambda: Precomputed(preparation),
    }
    return makers[name]()


def _preparation(spec: KernelSpec, moments: Moments, *, scale: bool) -> Preparation:
    name = canonical_kernel(spec.name)
    if name == "precomputed":
        return Preparation()
    if scale:
        deviation = np.where(moments.constant, np.inf, np.sqrt(moments.variance))
        return Preparation(moments.mean, 1.0 / deviation)
    moves = name in ("linear", "rbf", "laplacian") and spec.function is None
    # Rows that are the same must be left with zeros, not with the rounding of their mean.
    centre = np.where(moments.constant, moments.minimum, moments.mean)
    return Preparation(centre) if moves else Preparation()


def _gamma(spec: KernelSpec, moments: Moments, preparation: Preparation, points: Array) -> float:
    n_features = len(moments.mean)
    if spec.gamma is None:
        return 1.0 / n_features
    if spec.gamma == "scale":
        return 1.0 / (n_features * _total_variance(moments, preparation))
    if spec.gamma == "median":
        return _median_gamma(canonical_kernel(spec.name), points)
    return float(spec.gamma)


def _total_variance(moments: Moments, preparation: Preparation) -> float:
    variance = moments.total_variance
    if preparation.multiplier is not None:
        # Standardised columns have mean 0 and variance 1, constant ones 0 and 0.
        variance = float((~moments.constant).mean())
    if not variance > 0:
        raise ConfigError('gamma: "scale" needs values that vary, got variance 0; give a number')
    return variance


def _median_gamma(name: str, points: Array) -> float:
    distances = pdist(points, "cityblock") if name == "laplacian" else pdist(points, "euclidean")
    median = float(np.median(distances)) if len(points) > 1 else 0.0
    if not median > 0:
        raise ConfigError(
            f'gamma: "median" needs rows that differ, got a median distance of {median:g} over {len(points)} '
            "sampled rows; give a number"
        )
    return 1.0 / median if name == "laplacian" else 1.0 / (2.0 * median**2)


def _checked_against(sample: Array, kernel: Kernel, points: Array) -> Kernel:
    if not isinstance(kernel, Rbf | Laplacian) or len(sample) < 2:
        return kernel
    # Of all pairs: on the diagonal, where K is largest, nothing is small.
    K = kernel.matrix(sample, sample)
    smallest = float(K.min())
    if np.count_nonzero(K < IDENTITY_ENTRY) * 2 > len(K) * (len(K) - 1):
        _warn(kernel, points, "K is close to the identity: most rows are alike to none but themselves")
    elif smallest > CONSTANT_ENTRY:
        _warn(kernel, points, "K is nearly constant: every row is alike to every other")
    if smallest > SHIFT_ENTRY:
        return type(kernel)(kernel.preparation, kernel.gamma, 1.0)
    return kernel


def _warn(kernel: Rbf | Laplacian, points: Array, what: str) -> None:
    try:
        remedy = f"gamma near {_median_gamma(kernel.name, points):.3g} (median) would help"
    except ConfigError:
        remedy = "most rows are the same, so that no gamma would help"
    warnings.warn(
        f"{kernel.name} with gamma={kernel.gamma:.6g}: {what}; {remedy}", KpcaStreamWarning, stacklevel=2
    )


def _block_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if getattr(function, "takes_blocks", False) else RowPairs(function)


def _find(name: str) -> Callable[..., Any]:
    """The function ``package.module:function``, which takes two row blocks."""
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing runs the user's code, which may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"kernel name: {name!r} cannot be found ({reason}); expected an importable module and a function "
            "in it"
        ) from error
    if not callable(found):
        raise ConfigError(
            f"kernel name: {name!r} is a {type(found).__name__}; expected a function of two row blocks"
        )
    return found  # type: ignore[no-any-return]


def find_name(kernel: Own) -> str:
    """The ``package.module:function`` under which a stored kernel is found again.

    Raises
    ------
    DataError
        If the function is a lambda, local, or of the main program.
    """
    function = kernel.function.function if isinstance(kernel.function, RowPairs) else kernel.function
    home = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    for name in (kernel.label, home):
        if is_function_name(name) and not name.startswith("__main__:") and _leads_to(name, function):
            return name
    raise DataError(
        f"kernel {kernel.label} cannot be found again by name, so that the basis cannot be saved; "
        "expected a function at the top of an importable module"
    )


def _leads_to(name: str, function: Callable[..., Any]) -> bool:
    try:
        return _find(name) is function
    except ConfigError:
        return False
