"""Kernel PCA for data that do not fit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kpca_stream.environment import show_versions
    from kpca_stream.estimator import KernelPCA
    from kpca_stream.model import FittedBasis, load_basis
    from kpca_stream.numerics.resolve import block_kernel
    from kpca_stream.tuning import tune

__all__ = ["FittedBasis", "KernelPCA", "block_kernel", "load_basis", "show_versions", "tune"]

_HOMES = {
    "KernelPCA": "kpca_stream.estimator",
    "FittedBasis": "kpca_stream.model",
    "load_basis": "kpca_stream.model",
    "block_kernel": "kpca_stream.numerics.resolve",
    "show_versions": "kpca_stream.environment",
    "tune": "kpca_stream.tuning",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
