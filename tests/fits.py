"""Small fits and plans, as several tests make them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.planning import make_plan
from kpca_stream.storage.source import open_source

Array = NDArray[Any]
Method = Literal["dense", "lanczos"]

solvers = pytest.mark.parametrize("eigen_solver", ["dense", "lanczos"])


def rows(n_samples: int = 150, n_features: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n_samples, n_features))


def fitted(X: Array, spec: KernelSpec | None = None, **settings: Any) -> Fit:
    kernel = spec or KernelSpec("rbf", gamma=0.2)
    return fit(open_source(X), FitSettings(**{"kernel": kernel, "n_components": 3, **settings}))


def plan(n_samples: int, dtype: Any = np.float64, **settings: Any) -> FitPlan:
    return make_plan(FitSettings(**settings), n_samples, 10, np.dtype(dtype), with_store=True)


def spectrum(ratios: list[float], n_samples: int = 40) -> Array:
    """Rows whose linear kernel has eigenvalues in these ratios, with columns that sum to zero."""
    Q = np.linalg.qr(np.column_stack([np.ones(n_samples), rows(n_samples, len(ratios), seed=9)]))[0][:, 1:]
    return np.asarray(Q * np.sqrt(ratios))
