"""What `verify` looks at: checksums, missing tiles, means; orthonormality and residuals of a basis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import Address, Location, located
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.numerics import forecast as costs
from kpca_stream.numerics.kernels import Precomputed
from kpca_stream.numerics.tiles import Tile, TileGrid
from kpca_stream.results import Check, VerifyReport
from kpca_stream.soundness import landmark_checks
from kpca_stream.stages.centering import CentredGram, Means
from kpca_stream.stages.gram import Gram
from kpca_stream.stages.inspection import Inspection, inspect_tiles
from kpca_stream.storage import premises
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.chunked import check_description
from kpca_stream.storage.layout import TOLERANCE, RunStore
from kpca_stream.storage.located import is_there
from kpca_stream.storage.published import basis_at
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]


FEW_TILES = 300
"""Of as many times more, those that are missing are named one by one."""


def verify_store(place: str | Path, reporter: Reporter) -> VerifyReport:
    """Check a run's store or a basis; reads every chunk, and multiplies a basis by its Gram matrix once.

    Of a model's folder, the basis of its champion.

    Raises
    ------
    ConfigError
        If what is there is neither, or is the store of a run that never began.
    DataError
        If what is there cannot be opened, or holds tiles of which nobody knows the data.
    """
    path = basis_at(located(place))
    if isinstance(path, Address):
        if is_there(path / "tiles"):
            raise ConfigError(
                f"{path} holds the tiles of a run; give the run's own folder, which knows of them (gram.work)"
            )
        return _basis_report(path, reporter)
    if not (path / "zarr.json").exists() and not premises.has_only_begun(path):
        raise ConfigError(
            f"{path} is neither a run's store nor a basis (it has no zarr.json); give the path of one"
        )
    attributes = _attributes(path) if (path / "zarr.json").exists() else set()
    if not attributes:
        raise _unclaimed(path)
    if "identity" in attributes:
        with single_threaded_blas():
            return VerifyReport(path=str(path), kind="gram", checks=tuple(_gram_checks(path, reporter)))
    return _basis_report(path, reporter)


def _basis_report(path: Location, reporter: Reporter) -> VerifyReport:
    with single_threaded_blas():
        return VerifyReport(path=str(path), kind="basis", checks=tuple(_basis_checks(path, reporter)))


def _unclaimed(path: Path) -> ConfigError | DataError:
    """Why there is nothing to verify in a run's store that names no run."""
    if (path / "tiles").exists():
        return DataError(f"{path} {premises.UNNAMED_TILES}")
    remedy = "fit with it as gram.path, or remove it"
    if (path / premises.ASIDE).exists():
        remedy = "fit with it as gram.path, which first brings back what a restart that was killed set aside"
    return ConfigError(
        f"{path} is the empty store of a run: no fit got as far as its first tile there, so that it names no "
        f"data and no kernel, and there is nothing to verify; {remedy}"
    )


def _attributes(path: Path) -> set[str]:
    try:
        return set(zarr.open_group(path, mode="r").attrs)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(
            f"{path}/zarr.json is damaged ({type(error).__name__}: {error}); restore it from a copy"
        ) from error


def _gram_checks(path: Path, reporter: Reporter) -> list[Check]:
    store = RunStore.open(path).recorded()
    checks = [_attempted("rows", lambda: _read_rows(store)), *_run_checks(store)]
    tiles = _attempted("tiles", lambda: _description_of_tiles(store))
    if not tiles.ok:
        return [*checks, tiles]
    found = store.tiles()
    if found is not None:
        return checks + _tile_checks(store, found, reporter)
    return [*checks, *_attempted_all("means", lambda: _mean_checks(store, None, "float64"))]


def _run_checks(store: RunStore) -> list[Check]:
    """What tells of the run itself: whose values these are, and what it left under way."""
    damaged, leftovers = store.checkpoints.damaged(), store.leftovers()
    swept = f", first {leftovers[0]}: the next fit removes them" if leftovers else ""
    return [
        _attempted("attributes", store.check_attributes),
        Check(
            name="checkpoints",
            ok=not damaged,
            detail=f"{len(damaged)} damaged" + (f", first {damaged[0]}" if damaged else ""),
        ),
        # No fault: a run under way writes such files, too.
        Check(name="leftovers", ok=True, detail=f"{len(leftovers)} of writes that did not end{swept}"),
    ]


def _description_of_tiles(store: RunStore) -> str:
    tiles = store.tiles()
    if tiles is not None:
        check_description(tiles)
    return str(tiles)


def _tile_checks(store: RunStore, tiles: zarr.Array[Any], reporter: Reporter) -> list[Check]:
    grid = TileGrid(tiles.shape[0], tiles.chunks[0])
    present = store.present_tiles()
    if grid.n_tiles > FEW_TILES * (len(present) + FEW_TILES):  # too few to look for those that are missing
        return [Check(name="tiles", ok=False, detail=f"{len(present)} of {grid.n_tiles}")]
    asked = set(grid.tiles())
    missing = sorted(asked - present)
    weights = _weights(store, grid.n_samples)
    found = inspect_tiles(tiles, grid, present & asked, weights, progress=reporter.step("tiles"))
    n_present, n_damaged = len(asked) - len(missing), len(found.damaged)
    checks = [
        Check(
            name="tiles", ok=not missing, detail=f"{n_present} of {grid.n_tiles}{_first('missing', missing)}"
        ),
        Check(
            name="checksums",
            ok=not n_damaged,
            detail=f"{n_damaged} damaged{_first('damaged', found.damaged)}",
        ),
    ]
    if missing or found.damaged:
        return checks
    return checks + _attempted_all("means", lambda: _mean_checks(store, found, str(tiles.dtype)))


def _mean_checks(store: RunStore, found: Inspection | None, precision: str) -> list[Check]:
    """The stored means against each other and, where there are tiles, against those of the tiles."""
    if "row_means" not in store.group:
        return []
    row_means, diagonal = store.values("row_means"), store.values("diagonal")
    weights = _weights(store, len(row_means))
    grand_mean, trace = (float(str(store.group.attrs[name])) for name in ("grand_mean", "trace"))
    mean, total = weights @ row_means / weights.sum(), weights @ (diagonal - row_means)
    checks = [
        _close("grand mean", mean, grand_mean, precision, scale=np.abs(row_means).max()),
        _close("trace", total, trace, precision, scale=float(weights @ np.abs(diagonal))),
    ]
    if found is None:
        return checks
    offset = (diagonal - found.diagonal) / 2  # k'(x, x) = k(x, x) − 2 a(x)
    means = Means.of(found.row_sums, weights).unreduced(offset, weights)
    return [_close("row means", means.row_means, row_means, precision), *checks]


def _weights(store: RunStore, n_samples: int) -> Array:
    return store.values("weights") if "weights" in store.group else np.ones(n_samples)


def _basis_checks(path: Location, reporter: Reporter) -> list[Check]:
    basis = open_basis(path)
    readable = _attempted("arrays", lambda: _read_basis(basis))
    if not readable.ok:
        return [readable]
    rotation, basis = _rotation_checks(basis), basis.unrotated()
    if basis.facts.get("method") == "nystrom":
        return [readable, *rotation, *landmark_checks(basis)]
    weights = np.ones(basis.n_rows) if basis.weights is None else basis.weights
    a = basis.coefficients.load() * np.sqrt(basis.eigenvalues) / np.sqrt(weights)[:, None]
    overlap = float(np.abs(a.T @ a - np.eye(basis.n_components)).max())
    centred = float(np.abs(np.sqrt(weights) @ a).max() / np.sqrt(weights.sum()))
    limit = TOLERANCE[basis.precision]
    checks = [
        readable,
        *rotation,
        Check(name="orthonormality", ok=overlap <= limit, detail=f"off by {overlap:.1e} (limit {limit:.0e})"),
        Check(
            name="centring", ok=centred <= limit, detail=f"component means {centred:.1e} (limit {limit:.0e})"
        ),
    ]
    if isinstance(basis.kernel, Precomputed):
        return checks
    return [*checks, *_product_checks(basis, a, weights, reporter)]


def _rotation_checks(basis: Basis) -> list[Check]:
    """Whether what was done to components to be like earlier ones is a rotation."""
    if basis.rotation is None:
        return []
    return [_close("rotation", basis.rotation.T @ basis.rotation, np.eye(basis.n_components), "float64")]


def _product_checks(basis: Basis, a: Array, weights: Array, reporter: Reporter) -> list[Check]:
    """One pass: residuals of the eigenpairs, and the row means."""
    if basis.rows is None:
        return [Check(name="rows", ok=False, detail="missing")]
    dtype = np.dtype(basis.precision)
    shape = costs.Shape(
        basis.n_rows, len(basis.columns), basis.n_components, basis.kernel.name, dtype.itemsize
    )
    gram = Gram(basis.rows, basis.kernel, costs.grid_for(shape), dtype, "recompute", step=reporter.step)
    diagonal, offset = gram.terms()
    centred = CentredGram(gram.multiply, diagonal, weights, epsilon=float(np.finfo(dtype).eps))
    residuals = np.linalg.norm(centred(a) - a * basis.eigenvalues, axis=0) / basis.eigenvalues[0]
    told = max(basis.facts["residual_norms"], default=0.0)
    limit = max(2 * told, centred.rounding / basis.eigenvalues[0], TOLERANCE[basis.precision] * 1e-2)
    worst = float(residuals.max())
    means = centred.means.unreduced(offset, weights)
    return [
        Check(name="residuals", ok=worst <= limit, detail=f"largest {worst:.1e} (limit {limit:.1e})"),
        _close("row means", means.row_means, basis.row_means, basis.precision),
    ]


def _attempted(name: str, read: Callable[[], str]) -> Check:
    """What `read` says of a thing, or that it cannot be read."""
    try:
        return Check(name=name, ok=True, detail=read())
    except (ValueError, RuntimeError, OSError, KeyError, TypeError) as error:
        return Check(name=name, ok=False, detail=f"cannot be read: {error}")


def _attempted_all(name: str, read: Callable[[], list[Check]]) -> list[Check]:
    found: list[Check] = []

    def collect() -> str:
        found.extend(read())
        return ""

    attempt = _attempted(name, collect)
    return found if attempt.ok else [attempt]


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
    if basis.accumulated is not None:
        basis.accumulated.statistics()
        basis.accumulated.sample.load()
    return f"{basis.n_rows} rows, {basis.n_components} components, checksums hold"


def _close(
    name: str, found: Any, stored: Any, precision: str, *, scale: np.floating[Any] | float | None = None
) -> Check:
    scale = np.abs(stored).max() if scale is None else scale
    difference = float(np.abs(found - stored).max() / max(float(scale), np.finfo(np.float64).tiny))
    limit = TOLERANCE[precision]
    return Check(name=name, ok=difference <= limit, detail=f"off by {difference:.1e} (limit {limit:.0e})")


def _first(what: str, tiles: list[Tile]) -> str:
    return f", first {what} {tiles[0]}" if tiles else ""
