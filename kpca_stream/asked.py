"""What a configuration asks for: the settings, the rows, the registry and the scheduler of its commands."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from kpca_stream import passes
from kpca_stream.addresses import Address
from kpca_stream.cluster import connect_as, forecast_workers, return_freed_memory
from kpca_stream.config import Config
from kpca_stream.fitsettings import FitSettings
from kpca_stream.landmark_settings import landmark_settings
from kpca_stream.numerics.kernels import Preparation
from kpca_stream.numerics.resolve import KernelSpec, make_kernel
from kpca_stream.parameters import is_function_name
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.source import Source, open_source
from kpca_stream.telemetry import Reporter


def settings_of(config: Config) -> FitSettings:
    """The fit that a configuration describes."""
    make_importable()
    kernel, solver, gram = config.kernel, config.solver, config.gram
    return FitSettings(
        kernel=_kernel_spec(config),
        n_components=solver.n_components,
        max_components=solver.max_components,
        method=solver.method,
        allow_approximate=solver.allow_approximate,
        nystrom=landmark_settings(config),
        precision=solver.precision,
        tol=solver.tol,
        max_passes=solver.max_passes,
        storage=gram.storage,
        tiles_in_bucket=gram.is_in_bucket,
        tile_rows=None if gram.tile_rows == "auto" else gram.tile_rows,
        checkpoint_seconds=gram.checkpoint_seconds,
        memory_limit=config.limits.memory,
        disk_limit=config.limits.disk,
        core_hours=config.limits.core_hours,
        scale=config.data.scale == "standard",
        on_missing=config.data.on_missing,
        merge_duplicates=config.data.merge_duplicates,
        on_indefinite=kernel.on_indefinite,
        quantile=config.novelty.quantile,
        seed=config.seed,
    )


def _kernel_spec(config: Config) -> KernelSpec:
    kernel = config.kernel
    return KernelSpec(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)


def check_function(config: Config) -> None:
    """Find the kernel where it is a function of one's own, or raise `ConfigError`."""
    if is_function_name(config.kernel.name):
        make_importable()
        make_kernel(_kernel_spec(config), Preparation(), gamma=0.0)


def tiles_of(config: Config) -> Address | None:
    """The bucket that the tiles are to lie in; None where they lie in the run's own folder."""
    return Address.parse(config.gram.path) if config.gram.is_in_bucket else None


def registry_of(config: Config) -> Registry:
    """The versions of the configured model."""
    return Registry.of(config.models.path, config.name)


def training_source(config: Config) -> Source:
    """The configured rows to train on, opened."""
    return open_source(config.data.train.path, rows=config.data.train.rows, columns=config.data.columns)


def connected(config: Config, reporter: Reporter) -> AbstractContextManager[None]:
    """The configured scheduler is active while the block runs."""
    return_freed_memory()
    folder = str(Path.cwd()) if is_function_name(config.kernel.name) else None
    memory = config.limits.memory
    return connect_as(config.cluster, memory=memory, note=reporter.note, function_folder=folder)


def workers_of(config: Config, reporter: Reporter) -> tuple[int, int]:
    """Tasks at once and processes of a fit; a cluster is asked only where the configuration does not say."""
    known = forecast_workers(config.cluster)
    if known is not None:
        return known
    with connected(config, reporter):
        return passes.n_workers(), passes.n_processes()


def make_importable() -> None:
    """A kernel ``module:function`` may lie in the folder that the command is called in."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
