"""KernelPCA's parameters, checked, as the settings of a fit."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kpca_stream.approximation import NystromSettings
from kpca_stream.errors import ConfigError
from kpca_stream.fitsettings import FitSettings, Wording
from kpca_stream.numerics.resolve import KernelSpec, block_kernel

SOLVERS = {
    "auto": "auto",
    "dense": "dense",
    "lanczos": "lanczos",
    "arpack": "lanczos",
    "randomized": "lanczos",
    "nystrom": "nystrom",
}
PRECISIONS = ("auto", "float32", "float64", "mixed")
STORAGES = ("auto", "memory", "zarr", "recompute")
LANDMARK_METHODS = ("auto", "kmeans", "rpcholesky", "uniform")
MAX_PASSES = 50


class _Settings(FitSettings):
    """The same, named as the parameters are."""

    wording: ClassVar[Wording] = Wording(
        {"method": "eigen_solver", "max_passes": "max_iter", "landmark_method": "landmarks"}, "{}={!r}"
    )


def settings_of(model: Any) -> FitSettings:
    """The fit that an estimator's parameters describe.

    Raises
    ------
    ConfigError
        For the first parameter that is wrong.
    """
    solver = _one_of("eigen_solver", model.eigen_solver, tuple(SOLVERS))
    return _Settings(
        kernel=_kernel_spec(model),
        n_components=_components(model.n_components),
        max_components=_whole("max_components", model.max_components),
        method=SOLVERS[solver],  # type: ignore[arg-type]
        precision=_one_of("precision", model.precision, PRECISIONS),
        tol=_not_negative("tol", model.tol),
        max_passes=MAX_PASSES if model.max_iter is None else _whole("max_iter", model.max_iter),
        storage=_one_of("storage", model.storage, STORAGES),
        memory_limit=_size("memory_limit", model.memory_limit),
        merge_duplicates=_merging(model.merge_duplicates),
        nystrom=_landmarks(model),
        on_indefinite="asked",
        seed=_seed(model.random_state),
    )


def _landmarks(model: Any) -> NystromSettings:
    n_landmarks = _whole("n_landmarks", model.n_landmarks)
    if isinstance(model.landmarks, str):
        method: Any = _one_of("landmarks", model.landmarks, LANDMARK_METHODS)
        return NystromSettings(n_landmarks=n_landmarks, method=method)
    return NystromSettings(n_landmarks=n_landmarks, given=np.asarray(model.landmarks))


def _kernel_spec(model: Any) -> KernelSpec:
    if isinstance(model.kernel, str):
        return KernelSpec(model.kernel, model.gamma, model.degree, model.coef0)
    if not callable(model.kernel):
        raise ConfigError(f"kernel: got {model.kernel!r}, expected a name or a function of two rows")
    function = model.kernel
    if model.kernel_params:
        function = functools.partial(function, **model.kernel_params)
        if getattr(model.kernel, "takes_blocks", False):
            block_kernel(function)
    return KernelSpec(getattr(model.kernel, "__name__", "callable"), function=function)


def _components(n_components: Any) -> int | float | None:
    if n_components is None:
        return None
    if _is_whole(n_components):
        return int(n_components)
    if isinstance(n_components, float | np.floating) and 0 < n_components < 1:
        return float(n_components)
    raise ConfigError(
        f"n_components: got {n_components!r}, expected a whole number ≥ 1, a share in (0, 1), or None"
    )


def _merging(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return _one_of("merge_duplicates", value, ("auto", True, False))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _whole(name: str, value: Any) -> int:
    if not _is_whole(value):
        raise ConfigError(f"{name}: got {value!r}, expected a whole number ≥ 1")
    return int(value)


def _one_of(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise ConfigError(f"{name}: got {value!r}, expected one of {', '.join(map(str, choices))}")
    return value


def _not_negative(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise ConfigError(f"{name}: got {value!r}, expected a number ≥ 0")
    return float(value)


def _size(name: str, value: Any) -> int:
    if _is_whole(value):
        return int(value)
    # Imported here: only a size given as text needs the configuration's reader.
    from kpca_stream.config import parse_size

    try:
        return parse_size(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
