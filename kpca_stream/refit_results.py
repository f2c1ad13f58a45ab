"""What a re-fit decided, did and found, as frozen values; the numbers stand beside their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["none", "promoted", "refused", "planned"]

NEW_ROWS = "new rows"


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """One reason for which a re-fit may be due."""

    name: str
    value: float | None
    """None where it is not known."""
    limit: float | None
    """None where nothing was asked."""
    reached: bool


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How some scored rows differ from those trained on; none of these is known without rows."""

    source: str
    """``new rows`` or ``scores``."""
    n_rows: int
    drift: float | None
    """The larger Kolmogorov-Smirnov distance of reconstruction errors and of T² from training's."""
    sampling_bound: float
    """Distance that as many rows of unchanged data pass with a chance of at most 1e-3."""
    error_ratio: float | None
    """Of means, to training's."""
    t2_ratio: float | None
    residual_ratio: float | None
    """Share of the trace beyond the landmarks, over that of the rows for which they were chosen."""
    novelty: float | None
    """Share of the rows that pass a threshold of the champion's."""


@dataclass(frozen=True, kw_only=True)
class NewFile:
    """How unlike the champion's rows those of a new file are."""

    name: str
    n_rows: int
    novelty: float | None
    """Share of its rows that pass a threshold; None where they are fewer than 30."""
    column: str | None = None
    """The one that fits the others worst, compared with the champion's rows."""
    column_ratio: float | None = None
    """Mean square of how far it is off what the others predict, over that of the champion's rows."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a re-fit is due, by which numbers."""

    due: bool
    reason: str
    champion: int | None
    n_rows: int
    """Of all files now."""
    n_new: int
    """Of new and changed files."""
    n_gone: int
    files_changed: int
    files_gone: int
    age_seconds: float | None
    triggers: tuple[Trigger, ...]
    drifts: tuple[Drift, ...]
    new_files: tuple[NewFile, ...]
    rows_read: int
    bytes_read: int

    @property
    def drift_of_new_rows(self) -> Drift | None:
        """That of all new rows together; None where there are none."""
        return next((drift for drift in self.drifts if drift.source == NEW_ROWS), None)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How a candidate was made, and what that took."""

    kind: Literal["added", "continued", "fresh"]
    """New rows added to stored sums; a solve started from the champion's components; neither."""
    reason: str
    method: str
    n_samples: int
    n_passes: int
    passes_saved: int | None
    """Against the last fit of this model that was not continued."""
    rows_read: int
    bytes_read: int
    seconds: float
    reused: bool
    """An earlier call had published it, and ended before it was promoted or refused."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A candidate beside the champion, on a fixed sample of the champion's rows."""

    align: str
    n_rows: int
    angles: tuple[float, ...]
    """Principal angles, in degrees, smallest first."""
    angles_exact: bool
    """Whether they were computed in feature space, or estimated from the scores."""
    eigenvalue_changes: tuple[float, ...]
    """Of explained variances, relative."""
    displacement_before: float
    """Of the scores, relative to their size, before alignment."""
    displacement: float


@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """One demand on a candidate."""

    name: str
    value: float | None
    """None where it is not known (yet)."""
    limit: float
    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class RefitResult:
    """What a re-fit decided and did."""

    name: str
    action: Action
    reason: str
    decision: Decision
    fitted: Fitted | None = None
    comparison: Comparison | None = None
    gate: tuple[GateCheck, ...] = ()
    candidate: int | None = None
    champion: int | None = None
    """Afterwards."""
    removed: tuple[int, ...] = ()
    """Old versions that nothing keeps any more."""
    report: str | None = None
    """The page about the version that was promoted, where one is asked for."""
    model: str
    seconds: float
    warnings: tuple[str, ...] = ()
