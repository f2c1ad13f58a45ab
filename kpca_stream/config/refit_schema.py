"""The section of re-fits: when one is due, and what a candidate must pass before it is published."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from kpca_stream.config.values import PositiveInt, Section, Share, expected, parse_share

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(" + "|".join(_SECONDS) + r")s?\s*")


def parse_duration(value: float | str) -> float:
    """Seconds of ``"7 days"``, ``"12 hours"`` or a plain number of seconds.

    Raises
    ------
    ValueError
        Not a time > 0.
    """
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        seconds = 0.0 if match is None else float(Decimal(match[1]) * _SECONDS[match[2]])
    else:
        seconds = 0.0 if isinstance(value, bool) else float(value)
    if not seconds > 0:
        raise ValueError(f"not a time, got {value!r}")
    return seconds


def parse_rows(value: float | str) -> float:
    """A number of rows >= 1, or the share of the champion's, below 1, that ``"90%"`` or ``0.9`` stands for.

    Raises
    ------
    ValueError
        Neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    return parse_share(value)


Duration = Annotated[
    float,
    Field(json_schema_extra={"type": ["number", "string"], "examples": ["7 days", 604_800]}),
    BeforeValidator(parse_duration),
    expected("a time such as 12 hours or 7 days, or a number of seconds > 0"),
]
NumberOrShare = Annotated[
    float,
    Field(json_schema_extra={"type": ["number", "string"], "examples": ["90%", 10_000]}),
    BeforeValidator(parse_rows),
    expected("a whole number >= 1, or a share of the champion's rows such as 90%"),
]
Ratio = Annotated[float, Field(gt=1)]


class When(Section):
    """When a re-fit is due: as soon as one of these is reached and there are other rows than before."""

    new_rows: Share | None = 0.1
    """Rows that are new, changed or gone, as a share of the champion's; null: any number will not do."""
    max_age: Duration | None = None
    """Of the champion."""
    drift: Share | None = None
    """Kolmogorov-Smirnov distance of the new rows' reconstruction errors, or T², from the training's."""
    error_ratio: Ratio | None = None
    """Mean reconstruction error of the new rows over that of training."""
    residual_ratio: Ratio | None = 2.0
    """Share of the trace that the landmarks leave of new rows, over that of the rows they were chosen for.

    Beyond it landmarks are chosen anew."""


class Gate(Section):
    """What a candidate must pass; null asks for nothing."""

    max_residual: Annotated[float, Field(gt=0)] | None = None
    """Of exact eigenpairs, relative to the first eigenvalue."""
    max_residual_trace: Share | None = None
    """Share of the trace beyond the landmarks."""
    min_captured: Share | None = None
    """Share of the trace that the components kept hold."""
    max_angle: Annotated[float, Field(gt=0, le=90)] | None = None
    """Largest principal angle to the champion's components, in degrees."""
    max_novelty: Share | None = 0.5
    """Share of the rows of any new file, and of all new rows, that are novel to the champion.

    A file of fewer than 30 rows counts among all only: a share of few rows is chance."""
    max_column_ratio: Ratio | None = 20.0
    """How much worse than in the champion's rows a column of any new file may fit the others.

    A ratio of mean squares of linear predictions: a stuck sensor, other units, a shuffled column."""
    min_rows: NumberOrShare | None = 0.5
    """Rows, or a share of the champion's."""
    not_older: bool = True
    """Whether the newest file must be no older than the champion's newest."""


class Refit(Section):
    """Scheduled re-fits."""

    when: When = When()
    gate: Gate = Gate()
    align: Literal["none", "signs", "rotation"] = "rotation"
    """How the scores of a new version are made comparable with the champion's."""
    keep: PositiveInt = 10
    """Versions that stay, beside those that an alias names."""
