"""Which kernels are tried: a grid of their numbers, with rules resolved once."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.numerics.kernels import Kernel, Laplacian, Rbf
from kpca_stream.numerics.resolve import KernelSpec, resolve_kernel
from kpca_stream.parameters import KERNELS_WITH_GAMMA, KERNELS_WITH_MEDIAN
from kpca_stream.stages.sweep import Sweep

ALPHAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)


@dataclass(frozen=True)
class Around:
    """Gammas about a middle one: `n` from it divided by `factor` to it times this, as powers."""

    middle: float | str
    factor: float = 32.0
    n: int = 7

    def values(self, middle: float) -> list[float]:
        """With the middle one known."""
        return [float(middle * self.factor**power) for power in np.linspace(-1, 1, self.n)]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values to try, each with each of the others; a kernel ignores those that it does not have.

    Parameters
    ----------
    kernels : tuple of KernelSpec
        Names and functions; their numbers are not looked at.
    gamma : tuple of float or str, or Around, optional
        None: `Around` the median rule, or "scale" where there is none.
    degree, coef0, alpha : tuple of float
    n_components : tuple of int
    """

    kernels: tuple[KernelSpec, ...]
    gamma: tuple[float | str, ...] | Around | None = None
    degree: tuple[float, ...] = (3,)
    coef0: tuple[float, ...] = (1.0,)
    n_components: tuple[int, ...] = (10,)
    alpha: tuple[float, ...] = ALPHAS


def candidates(grid: Grid, looked: Sweep, *, scale: bool) -> Iterator[Kernel]:
    """Kernels with all their numbers, each once."""
    for spec in grid.kernels:
        has_gamma = spec.function is None and spec.name in KERNELS_WITH_GAMMA
        gammas: Iterable[float | None] = (
            _gammas(spec, grid.gamma, looked, scale=scale) if has_gamma else [None]
        )
        degrees = grid.degree if spec.name == "poly" else (3,)
        coef0s = grid.coef0 if spec.name in ("poly", "sigmoid") else (1.0,)
        for gamma, degree, coef0 in itertools.product(gammas, degrees, coef0s):
            yield _resolved(replace(spec, gamma=gamma, degree=degree, coef0=coef0), looked, scale=scale)


def _gammas(
    spec: KernelSpec, asked: tuple[float | str, ...] | Around | None, looked: Sweep, *, scale: bool
) -> list[float]:
    if asked is None:
        asked = Around("median" if spec.name in KERNELS_WITH_MEDIAN else "scale")
    if isinstance(asked, Around):
        return asked.values(_gamma(spec, asked.middle, looked, scale=scale))
    return sorted({_gamma(spec, gamma, looked, scale=scale) for gamma in asked})


def _gamma(spec: KernelSpec, gamma: float | str, looked: Sweep, *, scale: bool) -> float:
    return float(getattr(_resolved(replace(spec, gamma=gamma), looked, scale=scale), "gamma", 0.0))


def _resolved(spec: KernelSpec, looked: Sweep, *, scale: bool) -> Kernel:
    with warnings.catch_warnings():
        # Kernels at the ends of a sweep are meant to be too wide and too narrow.
        warnings.simplefilter("ignore", KpcaStreamWarning)
        kernel = resolve_kernel(spec, looked.moments, looked.sample, scale=scale)
    return replace(kernel, shift=0.0) if isinstance(kernel, Rbf | Laplacian) else kernel
