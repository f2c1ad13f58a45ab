"""Paths for workers whose current folder is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kpca_stream.config.schema import Config
from kpca_stream.config.values import Section

_PATHS = frozenset(
    {"path", "output", "basis", "scheduler_file", "performance_report", "spec", "status", "work"}
)
_PATHS_OF_TLS = frozenset({"ca", "cert", "key"})


def absolute(config: Config) -> Config:
    """The same configuration with all its local paths absolute."""
    found: Config = _absolute(config)
    return found


def _absolute(section: Any) -> Any:
    paths = _PATHS | (_PATHS_OF_TLS if type(section).__name__ == "Tls" else frozenset())
    changes = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            changes[name] = _absolute(value)
        elif name in paths and isinstance(value, str):
            changes[name] = absolute_path(value)
    return section.model_copy(update=changes)


def absolute_path(text: str) -> str:
    """A local path from the root on; what is none, such as an address or ``sklearn:iris``, as it is."""
    if text.startswith("sklearn:") or "://" in text:
        return text
    path, inner, name = text.partition("::")
    return f"{Path.cwd() / path}{inner}{name}"
