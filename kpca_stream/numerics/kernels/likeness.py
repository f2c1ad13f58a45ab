"""Whether two kernels are the same function of two rows."""

from __future__ import annotations

import numpy as np

from kpca_stream.numerics.kernels.base import Kernel

NUMBERS = ("gamma", "degree", "coef0", "shift", "label")


def same_formula(a: Kernel, b: Kernel, *, numbers: tuple[str, ...] = NUMBERS) -> bool:
    """Whether two kernels have the same name and `numbers`."""
    pairs = [(getattr(a, name, None), getattr(b, name, None)) for name in numbers]
    return a.name == b.name and all(x == y for x, y in pairs)


def same_preparation(a: Kernel, b: Kernel, *, names: tuple[str, ...] = ("centre", "multiplier")) -> bool:
    """Whether the same is done to rows first, as far as `names` go."""
    pairs = [(getattr(a.preparation, name), getattr(b.preparation, name)) for name in names]
    return all(np.array_equal(x, y) if x is not None and y is not None else x is y for x, y in pairs)


def same_features(a: Kernel, b: Kernel) -> bool:
    """Whether two kernels map rows into one feature space, but for where its origin lies.

    A constant taken off moves the origin, and so do column means where the kernel does not see them.
    """
    names = ("multiplier",) if a.centred and b.centred else ("centre", "multiplier")
    formula = same_formula(a, b, numbers=tuple(name for name in NUMBERS if name != "shift"))
    return formula and same_preparation(a, b, names=names)
