"""The command that tries kernels and their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kpca_stream.cli.commands import _config_options, _load, _pipeline, example
from kpca_stream.cli.invocation import Invocation
from kpca_stream.telemetry import Reporter


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
        return _pipeline().tune_config(_load(path, settings), told, plot=plot)

    return Invocation("tune", **output).perform(call)
