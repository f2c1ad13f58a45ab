"""The persisted training basis: a Zarr group that opens without the training data's files.

Chunks carry checksums; the group's attributes carry digests of themselves and of the arrays' descriptions, so
that nothing changed is ever scored with.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.kernels import Kernel, Own, Preparation, RowPairs
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.numerics.projection import held_bytes
from kpca_stream.numerics.resolve import KernelSpec, find_name, make_kernel
from kpca_stream.storage import intact
from kpca_stream.storage.bucket import send
from kpca_stream.storage.chunked import CHECKSUM_BYTES, create_array, write_array
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.frozen import Accumulated, Basis
from kpca_stream.storage.located import content_of, ends_of_files, is_there, open_group, stamp_of
from kpca_stream.storage.rows import ZarrRows
from kpca_stream.storage.whole import remove_tree

__all__ = ["Basis", "BasisAddress", "open_basis", "save_basis"]

Array = NDArray[Any]

FORMAT_VERSION = 1
TALL = ("rows", "coefficients", "products", "sample")
"""Arrays that are read block by block, when they are asked for."""


@dataclass(frozen=True)
class BasisAddress:
    """A stored basis as tasks carry it: a path, not arrays.

    Parameters
    ----------
    path : Path or Address
    in_memory : bool
        Whether each process loads it once, or reads it block by block as it scores.
    stamp : str
        When it was written, which tells it from another one that lay there before.
    """

    path: Location
    in_memory: bool
    stamp: str

    @classmethod
    def of(cls, path: Location, memory: int) -> Self:
        """The basis at `path`, to be loaded where it takes no more than `memory` bytes."""
        basis = open_basis(path)
        n_bytes = held_bytes(basis.n_rows, len(basis.columns), basis.n_components)
        absolute = path.absolute() if isinstance(path, Path) else path
        return cls(absolute, n_bytes <= memory, stamp_of(path / "zarr.json"))

    def open(self) -> Basis:
        """The basis; from the second time on in a process, the same one."""
        with _opening:
            return _opened(self)


_opening = Lock()


@lru_cache(maxsize=1)
def _opened(address: BasisAddress) -> Basis:
    basis = open_basis(address.path)
    return basis.in_memory() if address.in_memory else basis


def save_basis(basis: Basis, path: Location) -> None:
    """Write a basis as a Zarr group: arrays with checksums, attributes as JSON; whole or not at all.

    Raises
    ------
    ConfigError
        If `path` is taken.
    DataError
        If the kernel is a function that cannot be found again by name.
    """
    if is_there(path):
        raise taken(path)
    if isinstance(path, Path):
        _save(basis, path)
        return
    with tempfile.TemporaryDirectory(prefix="kpca-stream-") as folder:
        _save(basis, Path(folder) / "basis.zarr")
        if not send(Path(folder) / "basis.zarr", path, closing="zarr.json"):
            raise taken(path)


def taken(path: Location) -> ConfigError:
    """That something lies where a basis is to be written."""
    return ConfigError(f"{path} exists; a basis is never overwritten: choose another path, or remove it")


def _save(basis: Basis, path: Path) -> None:
    attributes = _attributes(basis)
    partial = path.with_name(f"{path.name}.partial")
    remove_tree(partial)
    partial.parent.mkdir(parents=True, exist_ok=True)
    group = zarr.open_group(partial, mode="w", zarr_format=3)
    arrays = _write_arrays(partial, group, basis)
    content = {**attributes, "arrays": arrays}
    group.update_attributes({"kpca_stream": content, "digest": _digest(content)})
    partial.rename(path)


def open_basis(path: Location) -> Basis:
    """Open a stored basis; rows and coefficients stay on disk until they are asked for.

    Raises
    ------
    ConfigError
        If there is none.
    DataError
        If its format is not known, or what is stored was changed or is not whole.
    """
    if not is_there(path / "zarr.json"):
        raise ConfigError(
            f"{path} is not a basis (it has no zarr.json); expected the folder that a fit wrote"
        )
    with told_as(f"{path} is damaged", "restore it from a copy, or fit again"):
        intact.check_folder(path)
        group = open_group(path)
        content = _checked(path, dict(group.attrs))
        intact.check_content(path, content)
        arrays = {name: _array(path, group, name, facts) for name, facts in content["arrays"].items()}
        intact.check_arrays(path, arrays)
        intact.check_shapes(path, arrays, content)
        return _basis(content, arrays)


def _attributes(basis: Basis) -> dict[str, Any]:
    kernel, limits = basis.kernel, basis.thresholds
    numbers = {
        key: getattr(kernel, key) for key in ("gamma", "degree", "coef0", "shift") if hasattr(kernel, key)
    }
    own = (
        {"function": find_name(kernel), "pairs": isinstance(kernel.function, RowPairs)}
        if isinstance(kernel, Own)
        else {}
    )
    return {
        "format_version": FORMAT_VERSION,
        "kernel": {"name": kernel.name, **numbers, **own},
        "precision": basis.precision,
        "columns": list(basis.columns),
        "n_rows": basis.n_rows,
        "total_weight": basis.total_weight,
        "reduced_grand_mean": basis.reduced_grand_mean,
        "grand_mean": basis.grand_mean,
        "trace": basis.trace,
        "thresholds": {
            "quantile": limits.quantile,
            "reconstruction_error": limits.reconstruction_error,
            "hotelling_t2": limits.hotelling_t2,
        },
        "facts": basis.facts,
        "accumulated": None if basis.accumulated is None else _sums(basis.accumulated),
    }


def _sums(accumulated: Accumulated) -> dict[str, float]:
    return {name: getattr(accumulated, name) for name in ("total", "tau", "offset")}


def _write_arrays(path: Path, group: zarr.Group, basis: Basis) -> dict[str, dict[str, Any]]:
    preparation = basis.kernel.preparation
    small = {
        "eigenvalues": (basis.eigenvalues, ("component",)),
        "centring": (basis.centring, ("component",)),
        "rotation": (basis.rotation, ("eigenvector", "component")),
        "row_means": (basis.row_means, ("row",)),
        "weights": (basis.weights, ("row",)),
        "centre": (preparation.centre, ("feature",)),
        "multiplier": (preparation.multiplier, ("feature",)),
        "error_quantiles": (basis.thresholds.error_quantiles, ("quantile",)),
        "t2_quantiles": (basis.thresholds.t2_quantiles, ("quantile",)),
    }
    if basis.accumulated is not None:
        small |= {
            "provisional_mean": (basis.accumulated.centre, ("row",)),
            "sums": (basis.accumulated.s, ("row",)),
            "sample_weights": (basis.accumulated.sample_weights, ("sample",)),
        }
    for name, (values, dimensions) in small.items():
        if values is not None:
            write_array(group, name, np.asarray(values, dtype=np.float64), dimensions=dimensions)
    _write_blocks(group, basis)
    return {name: _facts(path, name, array) for name, array in sorted(group.arrays())}


def _write_blocks(group: zarr.Group, basis: Basis) -> None:
    tall = {"coefficients": (basis.coefficients, ("row", "component"))}
    if basis.rows is not None:
        tall["rows"] = (basis.rows, ("row", "feature"))
    if basis.accumulated is not None:
        tall["products"] = (basis.accumulated.G, ("row", "other"))
        tall["sample"] = (basis.accumulated.sample, ("sample", "feature"))
    for name, (rows, dimensions) in tall.items():
        chunks = (min(basis.chunk_rows, rows.shape[0]), max(1, rows.shape[1]))
        array = create_array(group, name, rows.shape, chunks, rows.dtype, dimensions=dimensions)
        for start in range(0, rows.shape[0], basis.chunk_rows):
            stop = min(start + basis.chunk_rows, rows.shape[0])
            array[start:stop] = rows.part(start, stop).load()


def _facts(path: Location, name: str, array: zarr.Array[Any]) -> dict[str, Any]:
    """What must be the same when the array is opened: its description, and the checksums of its chunks.

    A chunk's checksum, its last four bytes, does not tell in which place, or in which basis, it belongs.
    """
    description = content_of(path / name / "zarr.json")
    checksums = ends_of_files(path / name / "c", CHECKSUM_BYTES)
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "digest": _hash(description),
        "checksums": _hash(checksums),
    }


def _digest(content: dict[str, Any]) -> str:
    return _hash(json.dumps(content, sort_keys=True, allow_nan=False).encode())


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _checked(path: Location, attributes: dict[str, Any]) -> dict[str, Any]:
    content = attributes.get("kpca_stream")
    if not isinstance(content, dict):
        raise DataError(
            f"{path} is not a basis (no attributes of kpca_stream); expected the folder that a fit wrote"
        )
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path} has format version {version!r}; expected {FORMAT_VERSION}: read it with the version of "
            "kpca_stream that wrote it, or fit again"
        )
    if _digest(content) != attributes.get("digest"):
        raise DataError(
            f"{path}: the attributes were changed (digest does not hold); restore a copy, or fit again"
        )
    return content


def _array(path: Location, group: zarr.Group, name: str, facts: dict[str, Any]) -> zarr.Array[Any]:
    array = group.get(name)
    if not isinstance(array, zarr.Array) or _facts(path, name, array) != facts:
        raise DataError(
            f"{path}: array {name} is missing or changed; expected shape {facts['shape']} of "
            f"{facts['dtype']}; restore it from a copy, or fit again"
        )
    return array


def _basis(content: dict[str, Any], arrays: dict[str, zarr.Array[Any]]) -> Basis:
    small = {name: np.asarray(array[...]) for name, array in arrays.items() if name not in TALL}
    limits = content["thresholds"]
    return Basis(
        kernel=_kernel(content["kernel"], Preparation(small.get("centre"), small.get("multiplier"))),
        precision=content["precision"],
        columns=tuple(content["columns"]),
        n_rows=content["n_rows"],
        total_weight=content["total_weight"],
        rows=ZarrRows.whole(arrays["rows"]) if "rows" in arrays else None,
        coefficients=ZarrRows.whole(arrays["coefficients"]),
        weights=small.get("weights"),
        eigenvalues=small["eigenvalues"],
        centring=small["centring"],
        reduced_grand_mean=content["reduced_grand_mean"],
        row_means=small["row_means"],
        grand_mean=content["grand_mean"],
        trace=content["trace"],
        thresholds=Thresholds(
            **limits, error_quantiles=small["error_quantiles"], t2_quantiles=small["t2_quantiles"]
        ),
        facts=content["facts"],
        accumulated=None if content["accumulated"] is None else _accumulated(content, small, arrays),
        rotation=small.get("rotation"),
    )


def _accumulated(
    content: dict[str, Any], small: dict[str, Array], arrays: dict[str, zarr.Array[Any]]
) -> Accumulated:
    return Accumulated(
        **content["accumulated"],
        centre=small["provisional_mean"],
        s=small["sums"],
        G=ZarrRows.whole(arrays["products"]),
        sample=ZarrRows.whole(arrays["sample"]),
        sample_weights=small["sample_weights"],
    )


def _kernel(stored: dict[str, Any], preparation: Preparation) -> Kernel:
    spec = KernelSpec(
        stored.get("function", stored["name"]), degree=stored.get("degree", 3), coef0=stored.get("coef0", 1.0)
    )
    kernel = make_kernel(spec, preparation, gamma=stored.get("gamma", 0.0), shift=stored.get("shift", 0.0))
    if not stored.get("pairs") or not isinstance(kernel, Own):
        return kernel
    function: Callable[..., Any] = kernel.function
    return Own(preparation, RowPairs(function), kernel.label)
