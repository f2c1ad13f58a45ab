"""Arguments → one pipeline call → tables, or JSON."""

from __future__ import annotations

from kpca_stream.cli.commands import commands, main
from kpca_stream.cli.models import models
from kpca_stream.cli.refit import refit
from kpca_stream.cli.report import report
from kpca_stream.cli.tune import tune

__all__ = ["main"]

commands.add_command(models)
commands.add_command(report)
commands.add_command(refit)
commands.add_command(tune)
