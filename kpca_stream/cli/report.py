"""The command that reports on a model."""

from __future__ import annotations

from typing import Any

import click

from kpca_stream.cli.commands import _config_options, _load, _pipeline, example
from kpca_stream.cli.invocation import Invocation
from kpca_stream.telemetry import Reporter


@click.command(
    short_help="Write an HTML page about the model.",
    epilog=example("report model.yaml --set report.path=monday.html"),
)
@_config_options
def report(path: str, settings: tuple[str, ...], **output: bool) -> int:
    """Write a page about the published model and its scores: one HTML file."""

    def call(told: Reporter) -> Any:
        return _pipeline().report_config(_load(path, settings), told)

    return Invocation("report", **output).perform(call)
