"""What comes before the first tile: the plan, the look at all rows, and what these refuse."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.approximation import drawn_rows
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.fitplan import FitPlan, gib
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.duplicates import Merging
from kpca_stream.numerics.forecast import SAMPLE_ROWS
from kpca_stream.numerics.kernels import Kernel, Own
from kpca_stream.planning import make_plan
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.source import Source
from kpca_stream.telemetry import Reporter

Array = NDArray[Any]

KERNELS_OF_UNITS = ("linear", "rbf", "laplacian", "poly", "sigmoid")
"""Kernels that see a column by its variance."""
MOST_NAMES = 5
LARGEST_SHARE = 0.999
"""Of the variance, in one column: beyond it the others change no distance by more than 0.05 %."""


def plan_of(source: Source, settings: FitSettings, n_samples: int, *, with_store: bool) -> FitPlan:
    """The plan for `n_samples` rows of `source`, which the limits may refuse."""
    return make_plan(
        settings,
        n_samples,
        source.n_features,
        source.original_dtype,
        with_store=with_store,
        in_place=stays_in_place(source, settings),
        reading_bytes=source.reading_bytes,
    )


def planned(source: Source, settings: FitSettings, n_samples: int, *, with_store: bool) -> FitPlan:
    """The plan for `n_samples` rows of `source`; a ConfigError where the limits do not allow it."""
    plan = plan_of(source, settings, n_samples, with_store=with_store)
    if refusal := plan.refusal():
        raise ConfigError(f"{source.name}, {n_samples} rows: {refusal}")
    return plan


def early_refusal(source: Source, settings: FitSettings, *, with_store: bool) -> ConfigError | None:
    """Why a fit of all rows of `source` must not start, raised at once where no merging can rescue it."""
    try:
        planned(source, settings, source.n_samples, with_store=with_store)
    except ConfigError as error:
        if settings.merging is None:
            raise
        return error
    return None


def stays_in_place(source: Source, settings: FitSettings) -> bool:
    """Whether a run's store need not hold the rows, since they lie on disk as they are used."""
    rows = source.rows()
    return rows is not None and not isinstance(rows, ArrayRows) and settings.on_missing == "error"


def look_at(
    source: Source,
    settings: FitSettings,
    store: RunStore | None,
    reporter: Reporter,
    *,
    weights: Array | None = None,
    refusal: ConfigError | None = None,
) -> Sweep:
    """The preparatory sweep; checks what a single look can tell.

    A `refusal` is raised as soon as merging of duplicates is given up; until then nothing is written.
    """
    if source.left_out:
        warnings.warn(
            f"{source.name}: left out {_named(source.left_out)}, which hold no numbers; convert them, or "
            f"name the columns to take ({settings.wording('columns')})",
            KpcaStreamWarning,
            stacklevel=2,
        )
    found = sweep(
        source,
        seed=settings.seed,
        n_drawn=_n_drawn(source, settings),
        on_missing=settings.on_missing,
        store=None if store is None else store.group,
        claimed=_data_check(store, refusal),
        weights=weights,
        merging=_merging(source, settings, refusal),
        progress=reporter.step("rows") if store is not None else None,
    )
    if found.n_seen < 2:
        raise DataError(
            f"{source.name}: got {found.n_seen} row, expected at least 2; a single row has no variance"
        )
    if settings.kernel.name == "precomputed" and found.n_samples != found.n_features:
        raise DataError(
            f"{source.name}: a precomputed kernel has shape ({found.n_samples}, {found.n_features}); "
            "expected a square matrix of the kernel between all training rows"
        )
    _warn_of_units(settings, found)
    return found


def _named(columns: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(columns) - MOST_NAMES} more" if len(columns) > MOST_NAMES else ""
    return ", ".join(map(repr, columns[:MOST_NAMES])) + more


def _warn_of_units(settings: FitSettings, looked: Sweep) -> None:
    """Say where one column hides all others from the kernel, and there is a setting against it."""
    moments, varies = looked.moments, int((~looked.moments.constant).sum())
    is_seen = settings.kernel.name in KERNELS_OF_UNITS and settings.kernel.function is None
    if settings.scale or not is_seen or varies < 2 or "scale" not in settings.wording.names:
        return
    shares = moments.variance / moments.variance.sum()
    largest = int(np.argmax(shares))
    if shares[largest] > LARGEST_SHARE:
        others = "the other column hardly counts" if varies == 2 else f"the other {varies - 1} hardly count"
        warnings.warn(
            f"column {looked.columns[largest]!r} has {100 * shares[largest]:.4g} % of the variance, so that "
            f"{others}; set {settings.wording('scale', 'standard')} where they are of other units",
            KpcaStreamWarning,
            stacklevel=2,
        )


def _n_drawn(source: Source, settings: FitSettings) -> int:
    may_approximate = settings.method == "nystrom" or (
        settings.method == "auto" and settings.allow_approximate
    )
    return drawn_rows(source.n_features) if may_approximate else SAMPLE_ROWS


def _merging(source: Source, settings: FitSettings, refusal: ConfigError | None) -> Merging | None:
    if settings.merging is None:
        return None
    if settings.merge_duplicates is True:
        name = settings.wording
        limit, share = name("memory_limit"), gib(settings.merging.most_bytes)
        refusal = ConfigError(
            f"{source.name}: the distinct rows take more than {share}, the share for them of {limit}, which "
            f"is {gib(settings.memory_limit)}: raise it, or set {name('merge_duplicates', 'auto')}"
        )
    return replace(settings.merging, refusal=refusal)


def check_weights(weights: Array | None, n_samples: int, *, held: float = 0.0) -> None:
    """Refuse weights that are not one positive number for each row, or that count less than one row.

    Rows that are added to others may count less: `held` is the weight of those.
    """
    if weights is None:
        return
    if weights.shape != (n_samples,) or not np.isfinite(weights).all() or (weights <= 0).any():
        raise ConfigError(
            f"sample_weight: got shape {weights.shape} with values from {weights.min(initial=np.inf):.3g}, "
            f"expected {n_samples} finite numbers ≥ 0, one for each row"
        )
    if held + weights.sum() < 1 + 1e-6:
        raise ConfigError(
            f"sample_weight: got a sum of {weights.sum():.3g}, expected more than 1, since a weight counts "
            "copies of its row; multiply them by the number of rows if they were normalised"
        )


def _data_check(
    store: RunStore | None, refusal: ConfigError | None
) -> Callable[[str, int | None], None] | None:
    """What refuses other data, before anything is written, where the store is in use or may not be used."""
    if store is None or not (store.identity or refusal):
        return None

    def check(fingerprint: str, n_distinct: int | None) -> None:
        found = {"fingerprint": fingerprint, "n_distinct": n_distinct}
        store.refuse_other(found, found)

    return check


def identity(plan: FitPlan, kernel: Kernel, looked: Sweep) -> dict[str, Any]:
    """What stored tiles and sums depend on."""
    numbers = {
        key: getattr(kernel, key)
        for key in ("gamma", "degree", "coef0", "shift", "label")
        if hasattr(kernel, key)
    }
    return {
        "method": "nystrom" if plan.method == "nystrom" else "exact",
        "fingerprint": looked.fingerprint,
        "n_samples": looked.n_seen,
        "n_distinct": looked.n_distinct,
        "n_dropped": looked.n_dropped,
        "columns": list(looked.columns),
        "scale": plan.settings.scale,
        "kernel": kernel.name,
        **numbers,
        "precision": plan.precision,
        "tile_rows": plan.grid.tile_rows,
        "own_values": own_values(kernel, looked.sample),
    }


def own_values(kernel: Kernel, sample: Array) -> str | None:
    """A digest of some values of a kernel of one's own, which may change while its name stays."""
    if not isinstance(kernel, Own):
        return None
    rows = sample[:8]
    return hashlib.blake2b(kernel.matrix(rows, rows).data, digest_size=16).hexdigest()
