"""What a candidate must pass before it takes the champion's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from kpca_stream.config import Gate
from kpca_stream.refit_results import Comparison, Decision, GateCheck
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.trained import Trained


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the gate looks at; kept in the manifest, so that a later call judges without a new fit.

    None is what is not known, or does not apply.
    """

    residual: float | None = None
    residual_trace: float | None = None
    captured: float | None = None
    angle: float | None = None
    novelty: float | None = None
    novelty_of: str = ""
    """The new file with the most novel rows."""
    column_ratio: float | None = None
    column_of: str = ""
    """The new file and its column that fits the others worst."""
    n_rows: int = 0
    champion_rows: int | None = None
    seconds_older: float | None = None
    """The newest file, than the champion's newest."""

    @classmethod
    def of(
        cls,
        basis: Basis | None,
        comparison: Comparison | None,
        decision: Decision,
        trained: tuple[Trained | None, Trained],
        *,
        champion_rows: int | None,
    ) -> Self:
        """Of a candidate; without one only what is known before it is fitted.

        Parameters
        ----------
        basis : Basis or None
        comparison : Comparison or None
            With the champion, where there is one.
        decision : Decision
        trained : (Trained or None, Trained)
            What the champion and the candidate were fitted on.
        champion_rows : int or None
            That the champion was fitted on.
        """
        before, now = trained
        files = decision.new_files
        worst = max(files, key=lambda file: file.novelty or 0.0, default=None)
        unfit = max(files, key=lambda file: file.column_ratio or 0.0, default=None)
        return cls(
            **({} if basis is None else _of_basis(basis)),
            angle=None if comparison is None else max(comparison.angles, default=0.0),
            novelty=None if worst is None else worst.novelty,
            novelty_of="" if worst is None else worst.name,
            column_ratio=None if unfit is None else unfit.column_ratio,
            column_of="" if unfit is None else f"column {unfit.column!r} of {unfit.name}",
            n_rows=now.n_rows if basis is None else round(basis.total_weight),
            champion_rows=champion_rows,
            seconds_older=None if before is None else _seconds_older(before, now),
        )

    @classmethod
    def from_manifest(cls, stored: dict[str, Any]) -> Self:
        """As `as_json` wrote it."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in stored.items() if key in known})

    def as_json(self) -> dict[str, Any]:
        """For a manifest."""
        return asdict(self)


def judge(gate: Gate, measured: Measured) -> tuple[GateCheck, ...]:
    """Every demand of the gate beside what was measured; what is not known passes, and says so."""
    found = [
        _at_most("max_residual", measured.residual, gate.max_residual),
        _at_most("max_residual_trace", measured.residual_trace, gate.max_residual_trace),
        _at_least("min_captured", measured.captured, gate.min_captured),
        _at_most("max_angle", measured.angle, gate.max_angle, unit=" degrees"),
        _at_most("max_novelty", measured.novelty, gate.max_novelty, of=measured.novelty_of),
        _at_most("max_column_ratio", measured.column_ratio, gate.max_column_ratio, of=measured.column_of),
        _at_least("min_rows", float(measured.n_rows), _rows_asked(gate, measured)),
        _at_most("not_older", measured.seconds_older, 0.0 if gate.not_older else None, unit=" s older"),
    ]
    return tuple(check for check in found if check is not None)


def refusal(checks: Sequence[GateCheck]) -> str:
    """What was not passed, in one line; empty where all was."""
    return "; ".join(f"{check.name}: {check.detail}" for check in checks if not check.ok)


def _of_basis(basis: Basis) -> dict[str, float | None]:
    facts, residuals = basis.facts, basis.facts.get("residual_norms", [])
    return {
        "residual": max(residuals, default=None),
        "residual_trace": facts.get("residual_trace_share"),
        "captured": float(np.sum(basis.explained_variance_ratio)),
    }


def _seconds_older(before: Trained, now: Trained) -> float | None:
    if not before.newest_ns or not now.newest_ns:
        return None
    return max(0.0, (before.newest_ns - now.newest_ns) / 1e9)


def _rows_asked(gate: Gate, measured: Measured) -> float | None:
    if gate.min_rows is None or gate.min_rows >= 1:
        return gate.min_rows
    return None if measured.champion_rows is None else gate.min_rows * measured.champion_rows


def _at_most(
    name: str, value: float | None, limit: float | None, *, unit: str = "", of: str = ""
) -> GateCheck | None:
    return _check(name, value, limit, ok=value is None or limit is None or value <= limit, unit=unit, of=of)


def _at_least(name: str, value: float | None, limit: float | None) -> GateCheck | None:
    return _check(name, value, limit, ok=value is None or limit is None or value >= limit, least=True)


def _check(
    name: str,
    value: float | None,
    limit: float | None,
    *,
    ok: bool,
    unit: str = "",
    of: str = "",
    least: bool = False,
) -> GateCheck | None:
    if limit is None:
        return None
    where = f" of {of}" if of else ""
    got = "" if value is None else f"got {value:.6g}{unit}{where}, "
    detail = f"{got}expected at {'least' if least else 'most'} {limit:.6g}{unit}"
    return GateCheck(name=name, value=value, limit=limit, ok=ok, detail=detail)
