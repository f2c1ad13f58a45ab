"""Which basis is meant by the folder of a model, or of one of its versions."""

from __future__ import annotations

from kpca_stream.addresses import Location
from kpca_stream.storage.located import is_folder, is_there
from kpca_stream.storage.registry import Registry


def basis_at(path: Location) -> Location:
    """Where the basis lies that `path` means: of a model its champion's, of a version its own, else `path`.

    Raises
    ------
    ConfigError, DataError, BusyError
        If it is a model's without a whole version as its champion.
    """
    if is_there(path / "zarr.json"):
        return path
    if is_folder(path / "versions"):
        registry = Registry(path)
        return registry.basis_path(registry.resolve())
    return path / "basis.zarr" if is_there(path / "manifest.json") else path
