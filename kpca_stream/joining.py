"""More rows, or another basis of the same landmarks, added to a Nyström basis: nothing is read twice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.approximation import drawn_rows
from kpca_stream.assembly import MUCH_RESIDUAL, Drawn, assembled, drawn_of
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.features import FeatureMap
from kpca_stream.numerics.kernels.likeness import same_formula, same_preparation
from kpca_stream.numerics.nystrom import Statistics
from kpca_stream.preliminaries import check_weights
from kpca_stream.stages.statistics import RowPass, accumulate
from kpca_stream.stages.sweep import Sweep, sweep
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.frozen import Accumulated
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.own_function import is_of_other_function
from kpca_stream.storage.source import Source
from kpca_stream.telemetry import Reporter, silent

Array = NDArray[Any]


def with_rows(basis: Basis, source: Source, settings: FitSettings, *, weights: Array | None = None) -> Basis:
    """The basis of the rows that it was fitted on and those of `source`, with the same landmarks.

    Parameters
    ----------
    basis : Basis
        Approximate.
    source : Source
        Rows (n, d), of the same columns.
    settings : FitSettings
        How many components, the quantile of novelty, and the seed by which rows are drawn for its thresholds.
    weights : ndarray of shape (n,), optional

    Raises
    ------
    DataError
        If the basis is exact, or rows hold missing values.
    """
    return added(basis, source, settings, weights=weights).basis


@dataclass(frozen=True, eq=False)
class Added:
    """A basis with more rows, and the look at these."""

    basis: Basis
    looked: Sweep


def added(
    basis: Basis,
    source: Source,
    settings: FitSettings,
    *,
    weights: Array | None = None,
    store: RunStore | None = None,
    reporter: Reporter | None = None,
) -> Added:
    """As `with_rows`; with a store no rows are held in memory, and a pass that was killed goes on."""
    accumulated = accumulated_of(basis, "the model")
    reporter = reporter or silent()
    with single_threaded_blas():
        check_weights(weights, source.n_samples, held=accumulated.total)
        n_drawn = drawn_rows(source.n_features)
        looked = sweep(
            source,
            seed=settings.seed,
            n_drawn=n_drawn,
            on_missing=settings.on_missing,
            store=None if store is None else store.group,
            weights=weights,
            progress=None if store is None else reporter.step("rows"),
        )
        features = features_of(basis)
        row_pass = RowPass(
            looked.rows,
            looked.weights,
            features.kernel,
            features.landmarks,
            features.dtype,
            store,
            progress=reporter.step("statistics"),
        )
        more = accumulate(row_pass, accumulated.centre, checkpoint_seconds=settings.checkpoint_seconds)
        drawn = drawn_of(basis.kernel, looked, weights, more.total, settings.seed)
        both = _joined([_drawn(accumulated), drawn], [accumulated.total, more.total], n_drawn, settings.seed)
        found = _rebuilt(basis, features, accumulated.statistics() + more, both, settings)
    n_samples = basis.facts["n_samples"] + looked.n_seen
    parts = [*_fingerprints(basis), looked.fingerprint]
    facts = {**found.facts, "n_samples": n_samples, "fingerprint": None, "merged": parts}
    return Added(replace(found, facts=facts), looked)


def merged(bases: Sequence[Basis], names: Sequence[str], settings: FitSettings) -> Basis:
    """The basis of all rows that several were fitted on, which share their landmarks.

    Parameters
    ----------
    bases : sequence of Basis
        Approximate.
    names : sequence of str
        How messages name them.
    settings : FitSettings
        As for `with_rows`.

    Raises
    ------
    DataError
        If one is exact, they differ in landmarks, kernel, columns or precision, or rows would count twice.
    """
    first = bases[0]
    parts = [accumulated_of(basis, name) for basis, name in zip(bases, names, strict=True)]
    for basis, name in zip(bases[1:], names[1:], strict=True):
        _refuse_other(first, names[0], basis, name)
    _refuse_same_rows(bases, names)
    statistics = parts[0].statistics()
    for part in parts[1:]:
        statistics += part.statistics()
    with single_threaded_blas():
        totals = [part.total for part in parts]
        n_drawn = drawn_rows(len(first.columns))
        drawn = _joined([_drawn(part) for part in parts], totals, n_drawn, settings.seed)
        found = _rebuilt(first, features_of(first), statistics, drawn, settings)
    facts = [basis.facts for basis in bases]
    return replace(
        found,
        facts={
            **found.facts,
            "n_samples": sum(each["n_samples"] for each in facts),
            "fingerprint": None,
            "merged": [fingerprint for basis in bases for fingerprint in _fingerprints(basis)],
        },
    )


def _rebuilt(
    basis: Basis, features: FeatureMap, statistics: Statistics, drawn: Drawn, settings: FitSettings
) -> Basis:
    K = features.kernel.matrix(features.landmarks, features.landmarks)
    made = assembled(features, K, statistics, drawn, settings, basis.columns)
    certificate = asdict(made.certificate)
    if made.residual_share > MUCH_RESIDUAL:
        warnings.warn(
            f"residual trace is {100 * made.residual_share:.2g} %: these landmarks do not stand for all the "
            "rows that were added up; fit all rows anew, or choose landmarks among rows of every kind",
            KpcaStreamWarning,
            stacklevel=2,
        )
    return replace(made.basis, facts={**basis.facts, **made.basis.facts, "certificates": [certificate]})


def features_of(basis: Basis) -> FeatureMap:
    """The feature map of a basis's landmarks; a DataError where it keeps no rows."""
    if basis.rows is None:
        raise DataError("a precomputed kernel has no rows to compare others with; fit all of it anew")
    return FeatureMap.of(basis.kernel, basis.rows.load(), np.dtype(basis.precision))


def accumulated_of(basis: Basis, name: str) -> Accumulated:
    """What a basis adds up; a DataError where it is exact."""
    if basis.accumulated is None:
        raise DataError(
            f"{name} is of method {basis.facts.get('method')} and keeps no sums to add to, expected nystrom "
            "and a kernel between rows; fit all rows anew"
        )
    return basis.accumulated


def _drawn(accumulated: Accumulated) -> Drawn:
    return Drawn(accumulated.sample.load(), accumulated.sample_weights)


def _joined(parts: Sequence[Drawn], totals: Sequence[float], most: int, seed: int) -> Drawn:
    """Rows of all parts, in proportion to how many they stand for where they are too many together."""
    n_rows = sum(len(part.X) for part in parts)
    if n_rows > most:
        share = most / sum(totals)
        parts = [_thinned(part, share * total, seed) for part, total in zip(parts, totals, strict=True)]
    return Drawn(np.concatenate([part.X for part in parts]), np.concatenate([part.weights for part in parts]))


def _thinned(part: Drawn, wanted: float, seed: int) -> Drawn:
    n_rows = min(len(part.X), max(1, round(wanted)))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(part.X))[:n_rows])
    weights = part.weights[chosen]
    return Drawn(part.X[chosen], weights * part.weights.sum() / weights.sum())


def _refuse_other(first: Basis, first_name: str, other: Basis, name: str) -> None:
    differences = [what for what, differs in _differences(first, other) if differs]
    if differences:
        raise DataError(
            f"{name} differs from {first_name} in {', '.join(differences)}; expected bases that share "
            f"them: fit the second with nystrom.landmarks: {{basis: {first_name}}}"
        )


def _refuse_same_rows(bases: Sequence[Basis], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for basis, name in zip(bases, names, strict=True):
        for fingerprint in _fingerprints(basis):
            if fingerprint in seen:
                raise DataError(
                    f"{name} holds rows that {seen[fingerprint]} holds too (fingerprint {fingerprint}), "
                    "which would count twice; expected bases of different rows: leave one out"
                )
        seen |= dict.fromkeys(_fingerprints(basis), name)


def _fingerprints(basis: Basis) -> list[str]:
    """Of all sets of rows that a basis was made of, as far as they are known."""
    facts = basis.facts
    return [each for each in facts.get("merged", [facts["fingerprint"]]) if each is not None]


def _differences(a: Basis, b: Basis) -> list[tuple[str, bool]]:
    same_landmarks = _same_landmarks(a, b)
    return [
        ("kernel", not same_formula(a.kernel, b.kernel)),
        ("columns", a.columns != b.columns),
        ("precision", a.precision != b.precision),
        ("means or scales of columns", not same_preparation(a.kernel, b.kernel)),
        ("landmarks", not same_landmarks),
        ("the values of the kernel's function", same_landmarks and is_of_other_function(a, b)),
    ]


def _same_landmarks(a: Basis, b: Basis) -> bool:
    same_centre = np.array_equal(a.accumulated.centre, b.accumulated.centre)  # type: ignore[union-attr]
    return same_centre and np.array_equal(a.rows.load(), b.rows.load())  # type: ignore[union-attr]
