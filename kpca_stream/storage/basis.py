"""The frozen persisted training basis: all that scoring needs, and nothing that needs the training data's files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics.kernels import Kernel, Own, Preparation, RowPairs
from kpca_stream.numerics.novelty import Thresholds
from kpca_stream.numerics.resolve import KernelSpec, find_name, make_kernel
from kpca_stream.storage.layout import create_array, remove_tree, write_array
from kpca_stream.storage.rows import ArrayRows, Rows, ZarrRows

Array = NDArray[Any]

FORMAT_VERSION = 1
CHUNK_ROWS = 2048


@dataclass(frozen=True, eq=False)
class Basis:
    """A fitted basis.

    Parameters
    ----------
    kernel : Kernel
        With all its numbers, and what is done to rows first.
    precision : {"float32", "float64"}
        In which kernel values are computed at scoring.
    columns : tuple of str
        Names of the columns, in order.
    n_samples : int
        Training rows.
    rows : Rows or None
        The training rows (n, d); None for a precomputed kernel.
    coefficients : Rows
        α (n, k), float64.
    weights : ndarray of shape (n,) or None
        None stands for ones.
    eigenvalues : ndarray of shape (k,)
        Of the centred Gram matrix, positive, largest first.
    centring : ndarray of shape (k,)
        αᵀm of the reduced kernel.
    reduced_grand_mean : float
        Grand mean of the reduced kernel.
    row_means : ndarray of shape (n,)
        Of K itself.
    grand_mean, trace : float
        Of K itself; of the centred matrix.
    thresholds : Thresholds
        Of reconstruction error and T².
    facts : dict
        How it was made: source, fingerprint, method, passes, residuals.
    """

    kernel: Kernel
    precision: str
    columns: tuple[str, ...]
    n_samples: int
    rows: Rows | None
    coefficients: Rows
    weights: Array | None
    eigenvalues: Array
    centring: Array
    reduced_grand_mean: float
    row_means: Array
    grand_mean: float
    trace: float
    thresholds: Thresholds
    facts: dict[str, Any]

    @property
    def n_components(self) -> int:
        """Components kept."""
        return len(self.eigenvalues)

    @property
    def total_weight(self) -> float:
        """N = Σ w: the number of rows that were seen, copies counted."""
        return float(self.n_samples if self.weights is None else self.weights.sum())

    @property
    def explained_variance(self) -> Array:
        """μ_j/(N − 1), shape (k,)."""
        return self.eigenvalues / max(self.total_weight - 1, 1)

    @property
    def explained_variance_ratio(self) -> Array:
        """μ_j/tr K̃, shape (k,)."""
        return self.eigenvalues / self.trace if self.trace > 0 else np.zeros_like(self.eigenvalues)

    def blocks(self) -> Iterator[tuple[tuple[int, int], Rows | None, Array, Array]]:
        """Training rows in order: address, rows, coefficients (b, k) and weights (b,) of each block."""
        for start in range(0, self.n_samples, CHUNK_ROWS):
            address = start, min(start + CHUNK_ROWS, self.n_samples)
            weights = np.ones(address[1] - start) if self.weights is None else self.weights[slice(*address)]
            rows = None if self.rows is None else self.rows.part(*address)
            yield address, rows, self.coefficients.part(*address).load(), weights

    def in_memory(self) -> Basis:
        """The same with all arrays loaded."""
        rows = None if self.rows is None else ArrayRows(self.rows.load())
        return replace(self, rows=rows, coefficients=ArrayRows(self.coefficients.load()))


def save_basis(basis: Basis, path: Path) -> None:
    """Write a basis as a Zarr group: arrays with checksums, attributes as JSON; whole or not at all.

    Raises
    ------
    ConfigError
        If `path` is taken.
    DataError
        If the kernel is a function that cannot be found again by name.
    """
    path = Path(path)
    if path.exists():
        raise ConfigError(f"{path} exists; a basis is never overwritten: choose another path, or remove it")
    attributes = _attributes(basis)
    partial = path.with_name(f"{path.name}.partial")
    remove_tree(partial)
    partial.parent.mkdir(parents=True, exist_ok=True)
    group = zarr.open_group(partial, mode="w", zarr_format=3)
    arrays = _write_arrays(group, basis)
    content = {**attributes, "arrays": arrays}
    group.attrs.update({"kpca_stream": content, "digest": _digest(content)})
    partial.rename(path)


def open_basis(path: Path) -> Basis:
    """Open a stored basis; rows and coefficients stay on disk until they are asked for.

    Raises
    ------
    ConfigError
        If there is none.
    DataError
        If its format is not known, or what is stored was changed.
    """
    path = Path(path)
    if not (path / "zarr.json").exists():
        raise ConfigError(f"{path} is not a basis (it has no zarr.json); expected the folder that a fit wrote")
    try:
        group = zarr.open_group(path, mode="r")
        content = _checked(path, dict(group.attrs))
        arrays = {name: _array(path, group, name, *content["arrays"][name]) for name in content["arrays"]}
        return _basis(content, arrays)
    except (ValueError, KeyError, TypeError, RuntimeError, OSError) as error:
        if isinstance(error, DataError | ConfigError):
            raise
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}); restore it from a copy, or fit again") from error


def _attributes(basis: Basis) -> dict[str, Any]:
    kernel, limits = basis.kernel, basis.thresholds
    numbers = {key: getattr(kernel, key) for key in ("gamma", "degree", "coef0", "shift") if hasattr(kernel, key)}
    own = {"function": find_name(kernel), "pairs": isinstance(kernel.function, RowPairs)} if isinstance(kernel, Own) else {}
    return {
        "format_version": FORMAT_VERSION,
        "kernel": {"name": kernel.name, **numbers, **own},
        "precision": basis.precision,
        "columns": list(basis.columns),
        "n_samples": basis.n_samples,
        "reduced_grand_mean": basis.reduced_grand_mean,
        "grand_mean": basis.grand_mean,
        "trace": basis.trace,
        "thresholds": {
            "quantile": limits.quantile,
            "reconstruction_error": limits.reconstruction_error,
            "hotelling_t2": limits.hotelling_t2,
        },
        "facts": basis.facts,
    }


def _write_arrays(group: zarr.Group, basis: Basis) -> dict[str, list[Any]]:
    preparation = basis.kernel.preparation
    small = {
        "eigenvalues": (basis.eigenvalues, ("component",)),
        "centring": (basis.centring, ("component",)),
        "row_means": (basis.row_means, ("row",)),
        "weights": (basis.weights, ("row",)),
        "centre": (preparation.centre, ("feature",)),
        "multiplier": (preparation.multiplier, ("feature",)),
        "error_quantiles": (basis.thresholds.error_quantiles, ("quantile",)),
        "t2_quantiles": (basis.thresholds.t2_quantiles, ("quantile",)),
    }
    for name, (values, dimensions) in small.items():
        if values is not None:
            write_array(group, name, np.asarray(values, dtype=np.float64), dimensions=dimensions)
    _write_blocks(group, basis)
    return {name: [list(array.shape), str(array.dtype)] for name, array in sorted(group.arrays())}


def _write_blocks(group: zarr.Group, basis: Basis) -> None:
    tall = {"coefficients": (basis.coefficients, ("row", "component"))}
    if basis.rows is not None:
        tall["rows"] = (basis.rows, ("row", "feature"))
    for name, (rows, dimensions) in tall.items():
        chunks = (min(CHUNK_ROWS, rows.shape[0]), max(1, rows.shape[1]))
        array = create_array(group, name, rows.shape, chunks, rows.dtype, dimensions=dimensions)
        for start in range(0, rows.shape[0], CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, rows.shape[0])
            array[start:stop] = rows.part(start, stop).load()


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _checked(path: Path, attributes: dict[str, Any]) -> dict[str, Any]:
    content = attributes.get("kpca_stream")
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a basis (its attributes lack kpca_stream); expected the folder that a fit wrote")
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path} has format version {version!r}; expected {FORMAT_VERSION}: read it with the version of "
            "kpca_stream that wrote it, or fit again"
        )
    if _digest(content) != attributes.get("digest"):
        raise DataError(f"{path}: the attributes were changed (digest does not hold); restore them from a copy, or fit again")
    return content


def _array(path: Path, group: zarr.Group, name: str, shape: list[int], dtype: str) -> zarr.Array[Any]:
    array = group.get(name)
    if not isinstance(array, zarr.Array) or list(array.shape) != shape or str(array.dtype) != dtype:
        raise DataError(f"{path}: array {name} is missing or changed; expected shape {shape} of {dtype}; restore it, or fit again")
    return array


def _basis(content: dict[str, Any], arrays: dict[str, zarr.Array[Any]]) -> Basis:
    small = {name: np.asarray(array[...]) for name, array in arrays.items() if name not in ("rows", "coefficients")}
    limits = content["thresholds"]
    return Basis(
        kernel=_kernel(content["kernel"], Preparation(small.get("centre"), small.get("multiplier"))),
        precision=content["precision"],
        columns=tuple(content["columns"]),
        n_samples=content["n_samples"],
        rows=ZarrRows.whole(arrays["rows"]) if "rows" in arrays else None,
        coefficients=ZarrRows.whole(arrays["coefficients"]),
        weights=small.get("weights"),
        eigenvalues=small["eigenvalues"],
        centring=small["centring"],
        reduced_grand_mean=content["reduced_grand_mean"],
        row_means=small["row_means"],
        grand_mean=content["grand_mean"],
        trace=content["trace"],
        thresholds=Thresholds(**limits, error_quantiles=small["error_quantiles"], t2_quantiles=small["t2_quantiles"]),
        facts=content["facts"],
    )


def _kernel(stored: dict[str, Any], preparation: Preparation) -> Kernel:
    spec = KernelSpec(stored.get("function", stored["name"]), degree=stored.get("degree", 3), coef0=stored.get("coef0", 1.0))
    kernel = make_kernel(spec, preparation, gamma=stored.get("gamma", 0.0), shift=stored.get("shift", 0.0))
    if not stored.get("pairs") or not isinstance(kernel, Own):
        return kernel
    return Own(preparation, RowPairs(kernel.function), kernel.label)
