"""Scores on disk: one Parquet file a part, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]

GROUP_ROWS = 65_536
GROUP_BYTES = 2**24
"""Of a row group, at least one of them: small ones are slow to read, and large ones take memory."""


def part_name(name: str, identity: str, model: str, version: int, fit: str) -> str:
    """File name of the scores of a part: the same for the same input and model version, and for no other.

    Parameters
    ----------
    name, identity : str
        Of the part.
    model : str
        Name of the model.
    version : int
        Its version.
    fit : str
        What tells this version from one of the same number in another registry.
    """
    digest = hashlib.blake2b(
        "\n".join((identity, model, str(version), fit)).encode(errors="surrogateescape"), digest_size=6
    ).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[-60:]
    return f"{readable}-v{version}-{digest}.parquet"


def label_of(path: Path | BinaryIO) -> Label | None:
    """Whose scores a file, by its path or opened, holds; None if it holds none of this package's."""
    try:
        found = pq.read_schema(path).metadata or {}
        source, model, version = (
            found[f"kpca_stream.{key}".encode()] for key in ("source", "model", "version")
        )
    except (pa.ArrowException, OSError, KeyError):
        return None
    return Label(source=os.fsdecode(source), model=model.decode(), version=int(version))


@dataclass(frozen=True, kw_only=True)
class Label:
    """Whose scores a part holds.

    Parameters
    ----------
    source : str
        Name of the input file.
    model : str
    version : int
        Of the model.
    """

    source: str
    model: str
    version: int


class Target(Protocol):
    """The address of a file that a worker writes."""

    @property
    def name(self) -> str:
        """Its last part."""

    def written(self) -> AbstractContextManager[BinaryIO]:
        """A file to write to, which is there when the block ends, whole, and not before."""


class PartWriter:
    """Writes the scores of one part to a file that is there when it is whole.

    Columns: ``source`` (the input file), ``row`` (position in it), those carried through, ``kpca_0`` …,
    ``reconstruction_error``, ``hotelling_t2``, ``novelty``, ``model_version``.

    Parameters
    ----------
    target : Path or Target
    n_components : int
    label : Label
    """

    def __init__(self, target: Path | Target, n_components: int, label: Label) -> None:
        self.target = target
        self.n_components = n_components
        self.label = label
        self.waiting: list[pa.Table] = []
        self.writer: pq.ParquetWriter | None = None

    def _schema(self, carried: Iterable[pa.Field]) -> pa.Schema:
        scores = [*(f"kpca_{j}" for j in range(self.n_components)), "reconstruction_error", "hotelling_t2"]
        fields = [
            pa.field("source", pa.string()),
            pa.field("row", pa.int64()),
            *carried,
            *(pa.field(name, pa.float64()) for name in scores),
            pa.field("novelty", pa.bool_()),
            pa.field("model_version", pa.int32()),
        ]
        metadata = {f"kpca_stream.{key}": os.fsencode(str(value)) for key, value in vars(self.label).items()}
        return pa.schema(fields, metadata=metadata)

    def __enter__(self) -> Self:
        self.stack = ExitStack()
        target = self.target
        opened = written_whole(target) if isinstance(target, Path) else target.written()
        self.file = self.stack.enter_context(opened)
        return self

    def write(
        self,
        row: Array,
        scores: Array,
        reconstruction_error: Array | None,
        hotelling_t2: Array,
        novelty: Array,
        carried: pa.Table | None = None,
    ) -> None:
        """Append some rows; the columns carried through are the same each time."""
        n_rows = len(row)
        source = self.label.source.encode(errors="backslashreplace").decode()  # a name may be no text
        error = pa.nulls(n_rows, pa.float64()) if reconstruction_error is None else reconstruction_error
        columns = [
            pa.repeat(source, n_rows),
            row,
            *([] if carried is None else carried.columns),
            *np.asarray(scores, np.float64).T,
            error,
            hotelling_t2,
            novelty,
            pa.repeat(pa.scalar(self.label.version, pa.int32()), n_rows),
        ]
        arrays = [
            column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
            for column in columns
        ]
        schema = self._schema(() if carried is None else carried.schema)
        self.waiting.append(pa.table(arrays, schema=schema))
        n_waiting, n_bytes = (sum(getattr(t, of) for t in self.waiting) for of in ("num_rows", "nbytes"))
        if n_waiting >= GROUP_ROWS or n_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        waiting, self.waiting = self.waiting, []
        rows = pa.concat_tables(waiting) if waiting else self._schema(()).empty_table()
        if self.writer is None:
            self.writer = self.stack.enter_context(pq.ParquetWriter(self.file, rows.schema))
        if waiting:
            self.writer.write_table(rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stack.__exit__(kind, error, trace)
            return
        with ExitStack() as stack:
            stack.push(self.stack)
            self._flush()
