"""Packages that only some kinds of clusters need."""

from __future__ import annotations

from importlib.util import find_spec

from kpca_stream.errors import ConfigError


def needs(module: str, extra: str, what: str) -> None:
    """Refuse `what` where the package behind an extra is not installed.

    Raises
    ------
    ConfigError
        With the command that installs it.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{what} needs the extra {extra}, got no package {module}; "
            f"install it: pip install 'kpca-stream[{extra}]'"
        )
