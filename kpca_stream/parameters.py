"""Which kernels there are and which of their parameters make one that kernel PCA can use.

Plain checks of plain values: the configuration reports them at a line of a file, the kernels
themselves raise them.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kpca_stream.errors import ConfigError

KERNELS = ("linear", "rbf", "laplacian", "poly", "sigmoid", "cosine", "precomputed")
ALIASES = {"polynomial": "poly"}
KERNELS_WITH_GAMMA = frozenset({"rbf", "laplacian", "poly", "sigmoid"})
KERNELS_WITH_MEDIAN = frozenset({"rbf", "laplacian"})

_SCORE_COLUMNS = re.compile(r"source|row|kpca_\d+|reconstruction_error|hotelling_t2|novelty|model_version")


class Problem(NamedTuple):
    """One wrong parameter: its key and what is wrong with it."""

    key: str
    message: str


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice that is spelled most like `word`, or None where none is close."""
    matches = difflib.get_close_matches(str(word), [str(choice) for choice in choices], n=1, cutoff=0.5)
    return matches[0] if matches else None


def is_function_name(name: str) -> bool:
    """Whether `name` has the form ``package.module:function``."""
    module, colon, function = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *function.split(".")])


def canonical_kernel(name: str) -> str:
    """`name` with aliases replaced: ``polynomial`` is ``poly``."""
    return ALIASES.get(name, name)


def kernel_problems(name: str, gamma: float | str | None, degree: float, coef0: float) -> Iterator[Problem]:
    """Yield what is wrong with a kernel's parameters; nothing where all is right.

    Parameters that a kernel does not have (gamma of ``linear``) are ignored, as in scikit-learn.

    Parameters
    ----------
    name : str
        One of `KERNELS`, an alias, or ``package.module:function``.
    gamma : float or {"scale", "median"} or None
        Must be positive and finite as a number; ``"median"`` is for rbf and laplacian only.
    degree, coef0 : float
        Of ``poly``: a whole number >= 1 and a number >= 0, else the kernel is indefinite. ``coef0``
        of ``sigmoid`` may be any finite number.
    """
    kernel = canonical_kernel(name)
    if kernel not in KERNELS and not is_function_name(kernel):
        yield Problem("name", _unknown_kernel(name))
    if kernel in KERNELS_WITH_GAMMA:
        yield from _gamma_problems(kernel, gamma)
    if kernel == "poly":
        yield from _degree_problems(degree)
    if kernel in ("poly", "sigmoid"):
        yield from _coef0_problems(kernel, coef0)


def check_kernel_parameters(name: str, gamma: float | str | None, degree: float, coef0: float) -> None:
    """Raise `ConfigError` for the first wrong parameter of a kernel, see `kernel_problems`."""
    for problem in kernel_problems(name, gamma, degree, coef0):
        raise ConfigError(f"kernel {problem.key}: {problem.message}")


def _unknown_kernel(name: str) -> str:
    close = nearest(name, [*KERNELS, *ALIASES])
    hint = f"did you mean {close!r}? " if close else ""
    return f'unknown kernel, got {name!r}, {hint}expected {", ".join(KERNELS)} or "package.module:function"'


def _gamma_problems(kernel: str, gamma: object) -> Iterator[Problem]:
    expected = 'a number > 0, "scale" or null for 1/n_features'
    if kernel in KERNELS_WITH_MEDIAN:
        expected = 'a number > 0, "scale", "median" or null for 1/n_features'
    words = ("scale", "median") if kernel in KERNELS_WITH_MEDIAN else ("scale",)
    if gamma == "median" and kernel not in KERNELS_WITH_MEDIAN:
        yield Problem("gamma", f"no median rule for the {kernel} kernel, got 'median', expected {expected}")
    elif not (gamma is None or gamma in words or (_is_finite(gamma) and float(gamma) > 0)):  # type: ignore[arg-type]
        yield Problem("gamma", f"not a scale of the {kernel} kernel, got {gamma!r}, expected {expected}")


def _degree_problems(degree: object) -> Iterator[Problem]:
    if not (_is_finite(degree) and float(degree) >= 1 and float(degree).is_integer()):  # type: ignore[arg-type]
        message = f"makes poly indefinite, got {degree!r}, expected a whole number >= 1"
        yield Problem("degree", message)


def _coef0_problems(kernel: str, coef0: object) -> Iterator[Problem]:
    if not _is_finite(coef0):
        yield Problem("coef0", f"not a number, got {coef0!r}, expected a finite number")
    elif kernel == "poly" and float(coef0) < 0:  # type: ignore[arg-type]
        yield Problem("coef0", f"makes poly indefinite, got {coef0!r}, expected a number >= 0")


def _is_finite(value: object) -> bool:
    if isinstance(value, bool | str):
        return False
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False


def is_score_column(name: str) -> bool:
    """Whether scores have a column of this name already."""
    return _SCORE_COLUMNS.fullmatch(name) is not None
