"""Arguments → one pipeline call → tables, or JSON."""

from __future__ import annotations

from kpca_stream.cli.commands import commands, main
from kpca_stream.cli.models import models

__all__ = ["main"]

commands.add_command(models)
