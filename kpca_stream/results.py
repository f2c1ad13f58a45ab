"""What a command found out, as frozen values: printed as tables, or as JSON with a published schema.

Sizes are in bytes and times in seconds. Every number is finite.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from kpca_stream.model_results import Collection, ModelDiff, ModelList, ModelVersion, Promotion
from kpca_stream.refit_results import RefitResult
from kpca_stream.tune_results import TuneSummary


@dataclass(frozen=True, kw_only=True)
class Bound:
    """How far below the exact ones approximate eigenvalues may be."""

    kind: str
    """``trace`` and ``probabilistic`` are certified, ``sampled`` is an estimate."""
    bound: float
    certified: bool
    failure_probability: float | None
    """At most; none of an estimate."""


@dataclass(frozen=True, kw_only=True)
class Landmarks:
    """What an approximate fit compared all rows with, and how good that is."""

    n_landmarks: int
    method: str
    rank: int
    """Directions that the landmarks tell apart."""
    residual_trace_share: float
    """Of all similarity of rows with themselves, what is beyond the landmarks."""
    bounds: tuple[Bound, ...]
    rounding: tuple[float, ...]
    """How far rounding may have moved each eigenvalue."""


@dataclass(frozen=True, kw_only=True)
class FitSummary:
    """A fitted and published basis, and what it took."""

    name: str
    source: str
    n_samples: int
    n_features: int
    n_distinct: int | None = None
    """Rows that were left by merging those that occur more than once; none where they were not merged."""
    n_dropped: int
    fingerprint: str | None
    kernel: str
    gamma: float | None
    precision: str
    storage: str
    tile_rows: int
    n_tiles: int
    tiles_found: int
    tiles_made: int
    tiles_read: int
    tiles_repaired: int
    method: str
    n_passes: int
    passes_resumed: int
    """Passes whose sums, or a part of them, an earlier run had left."""
    eigenvalues: tuple[float, ...]
    explained_variance_ratio: tuple[float, ...]
    residual_norms: tuple[float, ...]
    """Relative to the first eigenvalue; none of an approximate fit."""
    trace: float
    """Of the centred Gram matrix: the sum of all its eigenvalues; of an approximate fit an upper bound."""
    seconds: float
    peak_memory: int
    store: str
    basis: str
    version: int
    model: str
    reused: bool
    """Nothing had to be done: this version was there already."""
    warnings: tuple[str, ...] = ()
    method_reason: str = ""
    """Why an approximation was taken, where that was chosen."""
    landmarks: Landmarks | None = None
    """Only of an approximate fit."""


@dataclass(frozen=True, kw_only=True)
class MergeSummary:
    """A basis of all rows that several bases were fitted on."""

    merged: tuple[str, ...]
    n_samples: int
    eigenvalues: tuple[float, ...]
    explained_variance_ratio: tuple[float, ...]
    landmarks: Landmarks
    trace: float
    """An upper bound of the sum of all eigenvalues."""
    basis: str


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """A file of the input that could not be scored, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Rows scored against a basis, and where their scores lie."""

    source: str
    n_files: int
    """In the input now; one for a single file or array."""
    n_rows: int
    """That have scores, of these files."""
    rows_written: int
    """By this command."""
    n_parts: int
    parts_written: int
    parts_skipped: int
    n_novel: int
    files_set_aside: int = 0
    set_aside: tuple[SetAside, ...] = ()
    """The first of them."""
    files_waiting: int = 0
    """Left alone, since they were still being written."""
    output: str
    model: str
    version: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ReportSummary:
    """A page about a model."""

    path: str
    n_bytes: int
    model: str
    version: int
    n_parts: int
    """Of scores that it looked at."""
    n_rows: int
    """That this version scored."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A fit, and the scores and the report where the configuration asks for them."""

    fit: FitSummary
    score: ScoreSummary | None = None
    report: ReportSummary | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fit will cost; with reasons why it must not start, where there are any."""

    n_samples: int
    n_features: int
    kernel: str
    precision: str
    storage: str
    method: str
    tile_rows: int
    n_tiles: int
    n_tasks: int
    n_landmarks: int | None = None
    """Of an approximate fit, which has no tiles."""
    disk_rows: int
    disk_tiles: int
    bucket_tiles: int = 0
    """In an object store, where `gram.path` is there."""
    disk_vectors: int
    disk_basis: int
    """Of the version that is published."""
    disk_total: int
    memory_client: int
    memory_task: int
    memory_total: int
    evaluations: int
    """Of the kernel function, over all passes."""
    passes: int
    seconds: float
    """Of the fit."""
    n_processes: int = 0
    """That tasks run in; 0 for threads of the command's own, and then nothing is sent."""
    moved_to_workers: int = 0
    """Bytes a pass: descriptions of tasks."""
    moved_from_workers: int = 0
    """Bytes a pass: sums, which the command receives."""
    moved_read: int = 0
    """Bytes a pass that tasks read from the run's store or the source, all together."""
    receiving_seconds: float = 0.0
    """Of a pass, in which the command receives sums: more workers do not shorten it."""
    n_scored: int | None = None
    """Rows to score, where they are there already."""
    scoring_seconds: float | None = None
    method_reason: str = ""
    """Why an approximation was taken, where that was chosen."""
    memory_limit: int
    disk_limit: int
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """All checks of one store."""

    path: str
    kind: str
    """``gram`` or ``basis``."""
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class ConfigCheck:
    """A configuration that holds no mistake."""

    path: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a command ended without doing what was asked."""

    kind: str
    message: str
    exit_code: int


ModelResult = ModelList | ModelVersion | Promotion | ModelDiff | Collection
Result = (
    RunResult
    | FitSummary
    | MergeSummary
    | ScoreSummary
    | ReportSummary
    | Plan
    | VerifyReport
    | ConfigCheck
    | ModelResult
    | RefitResult
    | TuneSummary
)


@dataclass(frozen=True, kw_only=True)
class Output:
    """The one JSON object of a command: a result, an error, or (a refused plan) both."""

    command: str
    result: Result | None = None
    error: Failure | None = None
    warnings: tuple[str, ...] = ()


def as_json(value: Any) -> Any:
    """`value` as plain dicts, lists, strings, numbers; NumPy numbers and paths included.

    Properties are left out; of an `Output`, so are a result or an error that is not there.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = {f.name: as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        absent = {"result", "error"} if isinstance(value, Output) else set()
        return {key: item for key, item in items.items() if item is not None or key not in absent}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if isinstance(value, PathLike):
        return fspath(value)
    # NumPy's numbers, without importing NumPy.
    return value.item() if hasattr(value, "item") else value


def json_schema() -> dict[str, Any]:
    """JSON Schema of the object that a command prints with ``--json``."""
    # Imported here: the dataclasses serve every fit, the schema one command.
    from pydantic import TypeAdapter

    schema = TypeAdapter(Output).json_schema()
    return schema | {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "kpca-stream result"}
