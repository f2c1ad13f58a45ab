"""Columns that are carried through beside the scores, and the one type that each has in all parts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kpca_stream.errors import DataError

KINDS = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64()}
"""What a column can be made; any other word leaves it as it is stored."""


def of_one_kind(table: pa.Table, kinds: Mapping[str, str], file: str) -> pa.Table:
    """The columns of `table` in the types asked for, or in the one type of their kind.

    Raises
    ------
    DataError
        If a value of `file` cannot be had so.
    """
    columns = [_as(table[name], name, kinds[name], file) for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def types_of(table: pa.Table) -> dict[str, str]:
    """The type of each column that holds anything, by its name."""
    return {
        field.name: str(field.type)
        for field, column in zip(table.schema, table.columns, strict=True)
        if column.null_count < len(column)
    }


def check_types(found: Mapping[str, str], agreed: Mapping[str, str], file: str) -> None:
    """Refuse columns of other types than the parts before have.

    Raises
    ------
    DataError
    """
    for name, kind in found.items():
        if agreed.get(name, kind) != kind:
            raise DataError(
                f"{file}: score.carry: got column {name!r} as {kind}, expected {agreed[name]} as in parts "
                f"before; say what it shall be, such as carry: {{{name}: text}}, in another score.output"
            )


def _as(column: pa.ChunkedArray, name: str, kind: str, file: str) -> pa.ChunkedArray:
    asked = KINDS.get(kind) or _plain(column.type)
    try:
        return column.cast(asked)
    except pa.ArrowException as error:
        raise DataError(
            f"{file}: score.carry: column {name!r}: {error}; expected what can be made {asked}: "
            "repair the file, or carry the column as text"
        ) from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """The one of its kind, so that parts of files that differ in widths can be read as one table."""
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    is_text = pa.types.is_null(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    is_text |= pa.types.is_dictionary(kind) and kind.value_type in (pa.string(), pa.large_string())
    return pa.string() if is_text else kind
