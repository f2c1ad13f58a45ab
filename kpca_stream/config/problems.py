"""What pydantic found, as lines that say where, what, got and expected."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kpca_stream.config.document import Document, Key
from kpca_stream.config.schema import Config
from kpca_stream.parameters import nearest

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "string_pattern_mismatch": "letters, digits and . _ - with a letter or digit first",
    "finite_number": "a finite number",
    "model_type": "a section of keys",
}

_LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def describe(error: ValidationError, document: Document) -> list[str]:
    """One line for every mistake, section by section."""
    details = error.errors(include_url=False)
    return [line for detail in details for line in _lines(detail, document)]


def line(path: Key, message: str, document: Document) -> str:
    """What is wrong with the value of `path`, with its place."""
    return f"{document.place(path)}: {_dotted(path)}: {message}"


def _lines(detail: ErrorDetails, document: Document) -> Iterator[str]:
    path = tuple(detail["loc"])
    if detail["type"] == "problems":
        for key, message in detail["ctx"]["problems"]:
            yield line((*path, *key), message, document)
    elif detail["type"] == "extra_forbidden":
        yield f"{document.place_of_key(path)}: {_dotted(path)}: {_unknown_key(path)}"
    elif detail["type"] == "missing":
        yield f"{document.place(path)}: {_dotted(path)}: missing key, got none, expected {_description(path)}"
    else:
        got, expected = _show(detail["input"]), _expected(detail)
        yield f"{document.place(path)}: {_dotted(path)}: wrong value, got {got}, expected {expected}"


def _dotted(path: Key) -> str:
    parts = [str(part) for part in path]
    return ".".join(part if part.isprintable() else ascii(part) for part in parts)


def _unknown_key(path: Key) -> str:
    keys = [field.alias or name for name, field in _section(path[:-1]).model_fields.items()]
    close = nearest(path[-1], keys)
    hint = f"did you mean {close!r}? " if close else ""
    return f"unknown key, got {path[-1]!a}, {hint}expected {', '.join(keys)}"


def _expected(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "expected":
        return str(context["text"])
    if detail["type"] == "literal_error":
        return str(context["expected"]).replace("'", "")
    for limit, sign in _LIMITS.items():
        if limit in context:
            return f"a number {sign} {context[limit]}"
    return _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")


def _show(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {reprlib.repr(value)}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return reprlib.repr(value)


def _description(path: Key) -> str:
    field = _section(path[:-1]).model_fields[str(path[-1])]
    section = _model(field.annotation)
    return f"a section with {', '.join(section.model_fields)}" if section else "a text"


def _section(path: Key) -> type[BaseModel]:
    model: type[BaseModel] = Config
    for key in path:
        model = _model(model.model_fields[str(key)].annotation) or model
    return model


def _model(annotation: Any) -> type[BaseModel] | None:
    return next(_models(annotation), None)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            yield candidate
