"""The scores of one input file, part by part: rows in, files of scores out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.stages.scoring.block import score_block, step_rows
from kpca_stream.storage.basis import Basis, BasisAddress
from kpca_stream.storage.carried import of_one_kind, types_of
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.storage.scores import Label, PartWriter, Target
from kpca_stream.storage.source import Source, open_source
from kpca_stream.storage.sources.table import block_rows
from kpca_stream.storage.stamp import changed

Array = NDArray[Any]


def open_like(
    path: str, rows: str | None, basis: Basis, *, chosen: bool, carry: Sequence[str] = ()
) -> Source:
    """Open rows to score, with the columns that `basis` was fitted on.

    Parameters
    ----------
    path, rows : str, str or None
        As for `open_source`.
    basis : Basis
        Its columns are found by name. Numbered ones, which have no names, stand for all columns of numbers,
    chosen : bool
        unless they were chosen from a file that had more.
    carry : sequence of str
        Names of columns that are carried through, and are not among these.

    Raises
    ------
    DataError
        If there are no such columns.
    """
    source = open_source(path, rows=rows)
    numbered = tuple(str(position) for position in range(len(basis.columns)))
    try:
        if basis.columns != numbered or (chosen and source.columns != numbered):
            return open_source(path, rows=rows, columns=basis.columns)
        if carry:
            others = [name for name in source.columns if name not in carry]
            source = open_source(path, rows=rows, columns=others or None)
    except ConfigError as error:
        raise DataError(f"{error}; the basis was fitted on it: score rows of the same columns") from error
    if source.n_features != len(numbered):
        raise DataError(
            f"{source.name}: got {source.n_features} columns of numbers, expected {len(numbered)}, as the "
            "basis was fitted on; score rows of the same columns"
        )
    return source


class PartResult(NamedTuple):
    """What became of one part; `content` is the digest of its rows, the same for every format.

    `types` are those of the columns carried through that hold anything.
    """

    n_rows: int
    n_novel: int
    content: str
    types: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Written:
    """How parts are written.

    Parameters
    ----------
    label : Label
    carry : mapping of str
        The columns that are carried through, and what each is made (see `KINDS`).
    on_missing : {"error", "drop"}
    """

    label: Label
    carry: Mapping[str, str] = field(default_factory=dict)
    on_missing: str = "error"


def write_part(
    address: BasisAddress, source: Source, first_row: int, target: Path | Target, how: Written
) -> PartResult | DataError:
    """The task: score the rows of `source` block by block into one file, written whole or not at all.

    `first_row` is the position of its first row in the input file.
    An error in the data is returned, so that the first in the order of parts is raised.
    """
    n_rows = n_novel = 0
    types: dict[str, str] = {}
    digest = _Digest()
    basis = address.open()  # its faults are not the file's
    try:
        with PartWriter(target, basis.n_components, how.label) as writer:
            for first, block, carried in _blocks(source, how.carry):
                digest.add(block, carried)
                kept = _finite(source, first, block, how.on_missing)
                positions = np.flatnonzero(kept) + first
                scores = score_block(
                    basis, ArrayRows(block[kept]), locate=partial(_locate, source, positions)
                )
                writer.write(positions + first_row, *scores, carried and carried.filter(kept))
                n_rows += int(kept.sum())
                n_novel += int(scores.novelty.sum())
                types |= types_of(carried) if carried else {}
    except DataError as error:
        return error
    return PartResult(n_rows, n_novel, digest.text(), types)


class Known(NamedTuple):
    """Rows of an input file that have scores, and the digest of them."""

    start: int
    stop: int
    content: str


class Examined(NamedTuple):
    """An input file, and how many of the ranges known of it still hold the same rows."""

    source: Source
    n_same: int


def examine(
    address: BasisAddress,
    path: str,
    rows: str | None,
    known: tuple[Known, ...],
    carry: Mapping[str, str],
    chosen: bool,  # noqa: FBT001  a task's arguments have no names
) -> Examined | ConfigError | DataError:
    """The task: open an input file (see `open_like`) and compare its rows with what is known of them.

    A file that cannot be scored is returned as the error that says why.
    """
    basis = address.open()  # its faults are not the file's
    try:
        source = open_like(path, rows, basis, chosen=chosen, carry=tuple(carry))
        n_same = sum(1 for _ in takewhile(lambda part: _is_same(source, part, carry), known))
    except (ConfigError, DataError) as error:
        return error
    except OSError as error:
        return DataError(f"{path}: cannot be read ({error.strerror}); repair it or take it away")
    return Examined(source, n_same)


def _is_same(source: Source, part: Known, carry: Mapping[str, str]) -> bool:
    if part.stop > source.n_samples:
        return False
    digest = _Digest()
    for _, block, carried in _blocks(source.part(part.start, part.stop), carry):
        digest.add(block, carried)
    return digest.text() == part.content


class _Digest:
    """Of the values of rows, which come in the same blocks each time."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)

    def add(self, block: Array, carried: pa.Table | None) -> None:
        self.hash.update(np.ascontiguousarray(block, dtype=np.float64).data)
        for column in carried.columns if carried else ():
            try:
                values = pc.fill_null(pc.cast(column, pa.string()), "\0").to_pylist()
            except pa.ArrowException as error:
                raise DataError(
                    f"score.carry: got a column of type {column.type} ({error}), "
                    "expected text, numbers or times; leave it out"
                ) from error
            self.hash.update("\x1f".join(values).encode())

    def text(self) -> str:
        return self.hash.hexdigest()


def _blocks(source: Source, carry: Mapping[str, str]) -> Iterator[tuple[int, Array, pa.Table | None]]:
    """The rows of `source` in blocks, each with the position of its first, and what is carried through."""
    first, step = 0, step_rows(source.n_features)
    blocks = source.blocks(0, source.n_samples)
    labels = _Labels(source, carry)
    while joined := list(islice(blocks, max(1, step // block_rows(source.n_features)))):
        X = joined[0] if len(joined) == 1 else np.concatenate(joined)
        for start in range(0, len(X), step):
            block = X[start : start + step]
            yield first + start, block, labels.take(len(block))
        first += len(X)


class _Labels:
    """Columns of any type, a given number of rows at a time."""

    def __init__(self, source: Source, carry: Mapping[str, str]) -> None:
        self.name, self.carry = source.name, carry
        self.pieces = source.carried(0, source.n_samples, tuple(carry)) if carry else iter(())
        self.held = pa.table({})

    def take(self, n_rows: int) -> pa.Table | None:
        """The next rows; None where no columns are carried."""
        if not self.carry:
            return None
        while self.held.num_rows < n_rows:
            batch = next(self.pieces, None)
            if batch is None:
                raise changed(self.name, "has fewer rows")
            more = pa.Table.from_batches([batch])
            self.held = pa.concat_tables([self.held, more]) if self.held.num_columns else more
        taken, self.held = self.held.slice(0, n_rows), self.held.slice(n_rows)
        return of_one_kind(taken, self.carry, self.name)


def _locate(source: Source, positions: Array, row: int) -> str:
    return source.locate(int(positions[row]))


def _finite(source: Source, first: int, block: Array, on_missing: str) -> Array:
    finite = np.isfinite(block)
    kept = np.asarray(finite.all(axis=1))
    if on_missing == "error" and not kept.all():
        row, column = (int(index) for index in np.argwhere(~finite)[0])
        raise DataError(
            f"{source.locate(first + row)}, column {source.columns[column]!r}: got {block[row, column]}, "
            "expected a finite number; repair the data or set data.on_missing: drop"
        )
    return kept
