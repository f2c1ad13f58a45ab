"""The command that cron, a timer or a scheduler calls: re-fit where it is due."""

from __future__ import annotations

from typing import Any

import click

from kpca_stream.cli.commands import _config_options, _load, example
from kpca_stream.cli.invocation import Invocation
from kpca_stream.telemetry import Reporter


@click.command(short_help="Fit a new version where one is due.", epilog=example("refit model.yaml --dry-run"))
@_config_options
@click.option("--force", is_flag=True, help="Fit though nothing makes it due.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done; write nothing.")
def refit(path: str, settings: tuple[str, ...], force: bool, dry_run: bool, **output: bool) -> int:  # noqa: FBT001  click's call
    """Fit a new version where one is due; promote it where it passes the gate.

    Safe to call at any time, and twice: a call that was killed is gone on with by the next one.
    """

    def call(told: Reporter) -> Any:
        from kpca_stream.refitting import refit_config

        return refit_config(_load(path, settings), told, force=force, dry_run=dry_run)

    return Invocation("refit", **output).perform(call)
