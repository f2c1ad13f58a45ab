"""The command that tries kernels and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpca_stream.cli.commands import PROGRAM, _config_options, _load, _pipeline, example
from kpca_stream.cli.invocation import Invocation
from kpca_stream.telemetry import Reporter

if TYPE_CHECKING:
    from kpca_stream.config import Config
    from kpca_stream.tune_results import Trial


@click.command(
    short_help="Try kernels and their numbers.",
    epilog=example("tune model.yaml --set tune.n_components=[5,10] --plot tune.png"),
)
@_config_options
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw it, as .png or .svg.")
def tune(path: str, settings: tuple[str, ...], plot: Path | None, **output: bool) -> int:
    """Try kernels and their numbers on a sample: what section tune says.

    Each is judged by how well rows that were held back come back from their scores, or, with tune.labels, by
    an estimator of these. Distances in feature space are never compared: each kernel has a space of its own.
    """

    def call(told: Reporter) -> Any:
        config = _load(path, settings)
        found = _pipeline().tune_config(config, told, plot=plot)
        return replace(found, command=(PROGRAM, "run", path, *_settings(settings, config, found.best)))

    return Invocation("tune", **output).perform(call)


def _settings(given: Sequence[str], config: Config, best: Trial) -> Iterator[str]:
    """Those of the call, the best's numbers, and a run's store for these: one store takes one kernel."""
    numbers = {name: getattr(best, name) for name in ("gamma", "degree", "coef0")}
    numbers = {name: f"{value:.6g}" for name, value in numbers.items() if value is not None}
    mark = "-".join([best.kernel.rpartition(":")[2], *numbers.values()])
    stores = {"gram.path": config.gram.path, "gram.work": config.gram.work}
    changes = {
        "kernel.name": best.kernel,
        **{f"kernel.{name}": number for name, number in numbers.items()},
        "solver.n_components": str(best.n_components),
        **{
            key: f"{place.rstrip('/').removesuffix('.zarr')}-{mark}.zarr"
            for key, place in stores.items()
            if place
        },
    }
    for setting in [*given, *(f"{key}={value}" for key, value in changes.items())]:
        yield from ("--set", setting)
