"""What all sections are made of: their base, and values that several of them take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from kpca_stream.addresses import is_address

_ROWS = r"^(-?\d+)?:(-?\d+)?$"


def expected(text: str) -> WrapValidator:
    """One message for all ways in which a value of several allowed kinds can be wrong."""

    def check(value: Any, inner: Callable[[Any], Any]) -> Any:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("expected", "{text}", {"text": text}) from None

    return WrapValidator(check)


def parse_share(value: float | str) -> float:
    """The share that ``"99%"`` or ``0.99`` stands for.

    Raises
    ------
    ValueError
        Not between 0 and 1, both excluded.
    """
    if isinstance(value, str) and value.strip().endswith("%"):
        share = float(value.strip()[:-1]) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(value)
    else:
        raise ValueError(f"not a share, got {value!r}")
    if not 0 < share < 1:
        raise ValueError(f"not a share, got {value!r}")
    return share


def _local(text: str) -> str:
    if is_address(text):
        raise ValueError("got an address of a bucket, expected a path on a file system")
    return text


Text = Annotated[str, Field(min_length=1)]
LocalPath = Annotated[str, Field(min_length=1), AfterValidator(_local)]
PositiveInt = Annotated[int, Field(ge=1)]
Count = Annotated[PositiveInt | None, expected("a whole number >= 1, or null for the default")]
RowSlice = Annotated[
    Annotated[str, Field(pattern=_ROWS)] | None,
    expected('a slice in quotes such as "0:1437" or "1437:"'),
]
Share = Annotated[
    float,
    Field(json_schema_extra={"type": ["number", "string"], "examples": ["99%", 0.99]}),
    BeforeValidator(parse_share),
    expected("a share between 0 and 1, such as 0.99 or 99%"),
]


class Section(BaseModel):
    """Unknown keys are refused, values never change their type, and nothing can be set later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
