"""Which rows and columns of a table were asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.parameters import nearest
from kpca_stream.storage.sources.table import Column, Table


def row_range(table: Table, rows: str | None) -> tuple[int, int]:
    """First row and end of a slice ``"start:stop"``, as in Python; all rows for None."""
    if rows is None:
        return 0, table.n_rows
    match = re.fullmatch(r"\s*(-?[0-9]*)\s*:\s*(-?[0-9]*)\s*", rows)
    if match is None or "-" in match.groups():
        raise ConfigError(f"rows: got {rows!r}, expected a slice such as '0:1000', '1000:' or ':-60'")
    start, stop, _ = slice(*(int(side) if side else None for side in match.groups())).indices(table.n_rows)
    if stop <= start:
        raise ConfigError(f"rows: {rows!r} holds none of the {table.n_rows} rows of {table.name}; widen it")
    return start, stop


def picked_columns(table: Table, asked: Sequence[str | int] | None) -> tuple[int, ...]:
    """Positions of the columns asked for; of all that hold numbers for None.

    Each has a name of its own, since a model asks for its columns by name.
    """
    picked = _numeric(table) if asked is None else _asked(table, asked)
    check_names(table.name, [table.columns[position] for position in picked])
    return picked


def _asked(table: Table, asked: Sequence[str | int]) -> tuple[int, ...]:
    if isinstance(asked, str) or not asked:
        raise ConfigError(f"columns: got {asked!r}, expected a list of names or positions, or null for all")
    picked = tuple(map(_Names(table).position, asked))
    for position, count in Counter(picked).items():
        if count > 1:
            name = table.columns[position].name
            raise ConfigError(f"columns: got {name!r} {count} times, expected it once; leave the others out")
        _check_numeric(table, position)
    return picked


def check_names(name: str, columns: Sequence[Column]) -> None:
    """See that every column has a name of its own.

    Raises
    ------
    DataError
        If two share one.
    """
    for label, count in Counter(column.name for column in columns).items():
        if count > 1:
            raise DataError(f"{name}: got {count} columns named {label!r}, expected one; rename the others")


def label_columns(table: Table, names: Sequence[str]) -> tuple[int, ...]:
    """Positions of columns of any type by their names.

    Raises
    ------
    DataError
        If there is no such column.
    """
    try:
        return tuple(map(_Names(table).position, names))
    except ConfigError as error:
        raise DataError(f"{error}; it is to be carried through: add it, or correct score.carry") from error


def _numeric(table: Table) -> tuple[int, ...]:
    picked = tuple(position for position, column in enumerate(table.columns) if column.dtype is not None)
    if not picked:
        raise DataError(f"{table.name}: got only columns of text, expected some of numbers; convert them")
    return picked


class _Names:
    """The names of a table's columns, to find positions by."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.counts = Counter(column.name for column in table.columns)
        self.positions = {column.name: position for position, column in enumerate(table.columns)}

    def position(self, asked: str | int) -> int:
        if isinstance(asked, int) and not isinstance(asked, bool):
            return self._checked(asked)
        if self.counts[str(asked)] > 1:
            raise ConfigError(
                f"columns: {self.table.name} has {self.counts[str(asked)]} columns {asked!r}, "
                "expected one; choose by position"
            )
        if str(asked) not in self.positions:
            raise ConfigError(f"columns: {self.table.name} has no column {asked!r}, {self._hint(asked)}")
        return self.positions[str(asked)]

    def _checked(self, asked: int) -> int:
        n_columns = len(self.table.columns)
        if not -n_columns <= asked < n_columns:
            raise ConfigError(
                f"columns: {self.table.name} has no column {asked}, expected 0 to {n_columns - 1}"
            )
        return asked % n_columns

    def _hint(self, asked: object) -> str:
        close = nearest(asked, self.positions)
        return (
            f"did you mean {close!r}?" if close else f"expected one of {', '.join(list(self.positions)[:20])}"
        )


def _check_numeric(table: Table, position: int) -> None:
    column = table.columns[position]
    if column.dtype is None:
        raise DataError(
            f"{table.name}, column {column.name!r}: got text, expected numbers; "
            "leave it out of data.columns or convert it"
        )
