"""Which versions of Python and of the packages that numbers depend on are at work."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "kpca-stream",
    "numpy",
    "scipy",
    "scikit-learn",
    "dask",
    "distributed",
    "zarr",
    "pyarrow",
)


def package_versions() -> dict[str, str]:
    """Names and versions; a package that runs from its folder, not installed, is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
