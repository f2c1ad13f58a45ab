"""Arguments → one pipeline call → tables, or JSON."""

from __future__ import annotations

from kpca_stream.cli.commands import main

__all__ = ["main"]
