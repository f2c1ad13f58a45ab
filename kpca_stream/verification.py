"""What `verify` looks at: checksums, missing tiles, means; orthonormality and residuals of a basis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics import forecast as costs
from kpca_stream.numerics.kernels import Precomputed
from kpca_stream.numerics.tiles import TileGrid
from kpca_stream.results import Check, VerifyReport
from kpca_stream.stages.centering import CentredGram, Means
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.inspection import inspect_tiles
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.layout import RunStore
from kpca_stream.telemetry import Reporter

TOLERANCE = {"float32": 1e-4, "float64": 1e-8}
"""Largest relative difference of what is computed again to what is stored."""


def verify_store(path: str | Path, reporter: Reporter) -> VerifyReport:
    """Check a run's store or a basis; reads every chunk, and multiplies a basis by its Gram matrix once.

    Raises
    ------
    ConfigError
        If `path` is neither.
    """
    path = Path(path)
    if not (path / "zarr.json").exists():
        raise ConfigError(f"{path} is neither a run's store nor a basis (it has no zarr.json); give the path of one")
    with single_threaded_blas():
        if "identity" in _attributes(path):
            return VerifyReport(path=str(path), kind="gram", checks=tuple(_gram_checks(path, reporter)))
        return VerifyReport(path=str(path), kind="basis", checks=tuple(_basis_checks(path, reporter)))


def _attributes(path: Path) -> set[str]:
    try:
        return set(zarr.open_group(path, mode="r").attrs)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}/zarr.json is damaged ({error}); restore it from a copy") from error


def _gram_checks(path: Path, reporter: Reporter) -> list[Check]:
    store = RunStore.open(path)
    checks = [_readable("rows", lambda: _read_rows(store))]
    tiles = store.group.get("tiles")
    if isinstance(tiles, zarr.Array):
        checks += _tile_checks(store, tiles, reporter)
    return checks


def _tile_checks(store: RunStore, tiles: zarr.Array, reporter: Reporter) -> list[Check]:  # type: ignore[type-arg]
    grid = TileGrid(tiles.shape[0], tiles.chunks[0])
    present, asked = store.present_tiles(), set(grid.tiles())
    missing = sorted(asked - present)
    found = inspect_tiles(tiles, grid, present & asked, progress=reporter.step("tiles"))
    checks = [
        Check(name="tiles", ok=not missing, detail=f"{len(asked) - len(missing)} of {grid.n_tiles}{_first(missing)}"),
        Check(
            name="checksums", ok=not found.damaged, detail=f"{len(found.damaged)} tiles damaged{_first(found.damaged)}"
        ),
    ]
    if missing or found.damaged or "row_means" not in store.group:
        return checks
    stored, diagonal = (np.asarray(store.group[name][...]) for name in ("row_means", "diagonal"))
    weights = np.ones(grid.n_samples)
    offset = (diagonal - found.diagonal) / 2  # k'(x, x) = k(x, x) − 2 a(x)
    means = Means.of(found.row_sums, weights).unreduced(offset, weights)
    return [*checks, _close("row means", means.row_means, stored, str(tiles.dtype))]


def _basis_checks(path: Path, reporter: Reporter) -> list[Check]:
    basis = open_basis(path)
    readable = _readable("arrays", lambda: _read_basis(basis))
    if not readable.ok:
        return [readable]
    weights = np.ones(basis.n_samples) if basis.weights is None else basis.weights
    a = basis.coefficients.load() * np.sqrt(basis.eigenvalues) / np.sqrt(weights)[:, None]
    overlap = float(np.abs(a.T @ a - np.eye(basis.n_components)).max())
    centred = float(np.abs(np.sqrt(weights) @ a).max() / np.sqrt(weights.sum()))
    limit = TOLERANCE[basis.precision]
    checks = [
        readable,
        Check(name="orthonormality", ok=overlap <= limit, detail=f"off by {overlap:.1e} (limit {limit:.0e})"),
        Check(name="centring", ok=centred <= limit, detail=f"component means {centred:.1e} (limit {limit:.0e})"),
    ]
    if basis.rows is None or isinstance(basis.kernel, Precomputed):
        return checks
    return [*checks, *_product_checks(basis, a, weights, reporter)]


def _product_checks(basis: Basis, a: np.ndarray, weights: np.ndarray, reporter: Reporter) -> list[Check]:  # type: ignore[type-arg]
    """One pass: residuals of the eigenpairs, and the row means."""
    if basis.rows is None:
        return []
    shape = costs.Shape(
        basis.n_samples, len(basis.columns), basis.n_components, basis.kernel.name, np.dtype(basis.precision).itemsize
    )
    dtype = np.dtype(basis.precision)
    gram = Gram(basis.rows, basis.kernel, costs.grid_for(shape), dtype, "recompute", step=reporter.step)
    diagonal, offset = gram.terms()
    centred = CentredGram(gram.multiply, diagonal, weights, epsilon=float(np.finfo(dtype).eps))
    residuals = np.linalg.norm(centred(a) - a * basis.eigenvalues, axis=0) / basis.eigenvalues[0]
    limit = max(2 * float(basis.facts.get("tol", 0.0)), TOLERANCE[basis.precision] * 1e-2)
    worst = float(residuals.max())
    means = centred.means.unreduced(offset, weights)
    return [
        Check(name="residuals", ok=worst <= limit, detail=f"largest {worst:.1e} (limit {limit:.1e})"),
        _close("row means", means.row_means, basis.row_means, basis.precision),
    ]


def _readable(name: str, read: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, detail=read())
    except (ValueError, RuntimeError, OSError) as error:
        return Check(name=name, ok=False, detail=f"cannot be read: {error}")


def _read_rows(store: RunStore) -> str:
    rows = store.rows()
    if rows is None:
        return "used where they lie"
    for start in range(0, rows.shape[0], costs.TILE_ROWS):
        rows.part(start, min(start + costs.TILE_ROWS, rows.shape[0])).load()
    return f"{rows.shape[0]} × {rows.shape[1]}, checksums hold"


def _read_basis(basis: Basis) -> str:
    for _, rows, _, _ in basis.blocks():
        if rows is not None:
            rows.load()
    return f"{basis.n_samples} rows, {basis.n_components} components, checksums hold"


def _close(name: str, found: np.ndarray, stored: np.ndarray, precision: str) -> Check:  # type: ignore[type-arg]
    scale = max(float(np.abs(stored).max()), np.finfo(np.float64).tiny)
    difference = float(np.abs(found - stored).max()) / scale
    limit = TOLERANCE[precision]
    return Check(name=name, ok=difference <= limit, detail=f"off by {difference:.1e} (limit {limit:.0e})")


def _first(tiles: list[tuple[int, int]]) -> str:
    return f", first {tiles[0]}" if tiles else ""
