"""The section of scoring: what is scored as it arrives, and where its scores go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from kpca_stream.config.values import Count, RowSlice, Section, Text
from kpca_stream.parameters import is_score_column

_CARRIED = "a list of names of columns, or each with what it is made, such as {id: text}"


def _names_as_stored(value: Any) -> Any:
    """A list of names of columns, or a tuple, as a mapping."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise PydanticCustomError("expected", "{text}", {"text": _CARRIED})
    _refuse_names(name for name in value if value.count(name) > 1)
    return dict.fromkeys(value, "stored")


def _refuse_names(names: Iterable[str]) -> None:
    for name in names:
        raise ValueError(f"got {name!r}, expected names that appear once and are no column of the scores")


class ScoreInput(Section):
    """The rows to score."""

    path: Text
    """A file or array of any kind, which may grow, or a folder where files of any kinds land; or an address
    such as ``s3://bucket/in/``, which ends in a slash where objects are to land."""
    rows: RowSlice = None
    """Of one file or array only."""
    part_rows: Count = None
    """Most rows of a part; null: 65,536."""
    settle_seconds: Annotated[float, Field(ge=0)] = 2
    """A file is left alone until its size and time have stayed the same for so long."""


class Metrics(Section):
    """Where Prometheus finds the counters of a scorer that follows."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 9108
    host: Text = "127.0.0.1"


class Score(Section):
    """What is scored after a fit or as it arrives, and where the scores go."""

    input: ScoreInput
    output: Text = "scores/"
    """A folder, or an address such as ``s3://bucket/scores``, which takes Parquet only."""
    format: Literal["parquet", "zarr"] = "parquet"
    carry: Annotated[
        dict[Text, Literal["stored", "text", "integer", "number"]],
        Field(json_schema_extra={"type": ["array", "object"], "examples": [["id"], {"id": "text"}]}),
        BeforeValidator(_names_as_stored),
    ] = Field(default_factory=dict)
    """Columns of the input, keys of rows perhaps, that are carried through: their names, or with each what it
    is made where the files differ."""
    on_bad: Literal["set-aside", "error"] = "set-aside"
    """Whether a file that cannot be scored is noted and left out, or ends the command."""
    on_changed: Literal["error", "rescore"] = "error"
    """What to do where rows that were scored are others now."""
    on_new_version: Literal["rescore", "keep"] = "rescore"
    """What to do with scores of an older version of the model."""
    look_seconds: Annotated[float, Field(gt=0)] = 10
    """Between two looks at the input, with --follow."""
    status: Text | None = None
    """The file that tells how a scorer that follows is getting on; null: _status.json in the output."""
    metrics: Metrics | None = None
    """Needs the extra metrics."""

    @field_validator("carry")
    @classmethod
    def _names_are_free(cls, carry: dict[str, str]) -> dict[str, str]:
        _refuse_names(name for name in carry if is_score_column(name))
        return carry
