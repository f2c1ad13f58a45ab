"""Certificates by which the processes of a cluster know each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca_stream.errors import ConfigError

if TYPE_CHECKING:
    from kpca_stream.config import Tls


def of(tls: Tls | None) -> Any:
    """Dask's form of the section; None without it.

    Raises
    ------
    ConfigError
        If a file is not there.
    """
    if tls is None:
        return None
    from distributed import Security

    for key in ("ca", "cert", "key"):
        if not Path(getattr(tls, key)).is_file():
            raise ConfigError(
                f"cluster.tls.{key}: got {getattr(tls, key)!r}, expected a PEM file that is there"
            )
    roles = {
        f"tls_{role}_{name}": getattr(tls, name)
        for role in ("client", "scheduler", "worker")
        for name in ("cert", "key")
    }
    return Security(tls_ca_file=tls.ca, require_encryption=True, **roles)
