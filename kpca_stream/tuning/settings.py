"""What a configuration says to try, and how to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from kpca_stream.config import Around as ConfiguredAround
from kpca_stream.config import Config, Labels
from kpca_stream.errors import ConfigError
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.tuning.candidates import Around, Grid
from kpca_stream.tuning.labels import read_labels
from kpca_stream.tuning.trying import TuneSettings


def grid_of(config: Config) -> Grid:
    """The values to try; where section tune names none, those of the kernel and the solver.

    Raises
    ------
    ConfigError
        If solver.n_components is a share, and nothing else is said.
    """
    asked, kernel, solver = config.tune, config.kernel, config.solver
    n_components = asked.n_components or (solver.n_components,)
    if any(isinstance(number, float) for number in n_components):
        raise ConfigError(
            f"tune.n_components: got the share {solver.n_components} of solver.n_components, expected whole "
            "numbers, since a share is another number for every kernel; give some"
        )
    return Grid(
        kernels=tuple(KernelSpec(name) for name in asked.kernels or (kernel.name,)),
        gamma=_gamma(asked.gamma),
        degree=asked.degree or (kernel.degree,),
        coef0=asked.coef0 or (kernel.coef0,),
        n_components=tuple(int(number) for number in n_components),
        alpha=asked.alpha,
    )


def _gamma(
    asked: ConfiguredAround | tuple[float | Literal["median", "scale"], ...] | None,
) -> Around | tuple[float | str, ...] | None:
    return Around(asked.around, asked.factor, asked.n) if isinstance(asked, ConfiguredAround) else asked


def labels_of(asked: Labels, trained_on: str, columns: Sequence[str]) -> NDArray[Any]:
    """The labels, which must be none of the columns that they shall be told by.

    Raises
    ------
    ConfigError
        If they are.
    """
    if asked.path == trained_on and asked.column is not None and str(asked.column) in columns:
        raise ConfigError(
            f"tune.labels.column: got {asked.column}, which is one of the columns that it shall be told by; "
            "expected another one: leave it out of data.columns"
        )
    return read_labels(asked.path, asked.rows, asked.column)


def tune_settings_of(config: Config) -> TuneSettings:
    """How candidates are judged."""
    asked = config.tune
    return TuneSettings(
        estimator=asked.estimator,
        folds=asked.folds,
        sample_rows=asked.sample_rows,
        seed=config.seed,
        scale=config.data.scale == "standard",
        on_missing=config.data.on_missing,
        memory=config.limits.memory,
    )
