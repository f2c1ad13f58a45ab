"""The package's own operators, put together as a fit does, to time single passes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.fitplan import FitPlan
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.kernels import Kernel
from kpca_stream.numerics.resolve import KernelSpec, resolve_kernel
from kpca_stream.planning import make_plan
from kpca_stream.preliminaries import look_at
from kpca_stream.stages.centering import CentredGram
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.source import open_source
from kpca_stream.telemetry import silent

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows that were looked at, their plan and their kernel."""

    plan: FitPlan
    looked: Sweep
    kernel: Kernel
    store: RunStore | None

    def gram(self) -> Gram:
        """K' of the rows, with all tiles yet to make."""
        return Gram(
            self.looked.rows,
            self.kernel,
            self.plan.grid,
            self.plan.tile_dtype,
            self.plan.storage,
            store=self.store,
            at_once=self.plan.at_once,
        )

    def centred(self, gram: Gram) -> CentredGram:
        """K̃ of the rows."""
        diagonal, _ = gram.terms()
        epsilon = float(np.finfo(self.plan.tile_dtype).eps)
        return CentredGram(gram.multiply, diagonal, np.ones(len(diagonal)), epsilon=epsilon)


def prepare(
    rows: Array | Path, gamma: float | str, *, store: Path | None = None, **settings: Any
) -> Prepared:
    """Look at rows (n_samples, n_features), in memory or in a file, for an rbf kernel.

    Parameters
    ----------
    rows : ndarray or Path
    gamma : float or str
    store : Path, optional
        Of a run's store; rows in memory are written there.
    **settings
        Of `FitSettings`.
    """
    chosen = FitSettings(kernel=KernelSpec("rbf", gamma), **settings)
    opened = None if store is None else RunStore.open(store)
    source = open_source(rows)
    looked = look_at(source, chosen, opened, silent())
    plan = make_plan(
        chosen, looked.n_samples, looked.n_features, source.original_dtype, with_store=opened is not None
    )
    kernel = resolve_kernel(chosen.kernel, looked.moments, looked.sample, scale=False)
    return Prepared(plan, looked, kernel, opened)


def block(n_samples: int) -> Array:
    """A block of vectors (n_samples, 24), as wide as a fit's for 10 components; float32, seed 0."""
    return np.random.default_rng(0).standard_normal((n_samples, 24), dtype=np.float32)
