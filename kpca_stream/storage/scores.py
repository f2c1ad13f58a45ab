"""Scores on disk: one Parquet file a part, written whole or not at all."""

from __future__ import annotations

import hashlib
import re
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.damage import first_line
from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]


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
        "\n".join((identity, model, str(version), fit)).encode(), digest_size=6
    ).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[-60:]
    return f"{readable}-v{version}-{digest}.parquet"


def read_counts(path: Path) -> tuple[int, int]:
    """Rows of a part, and how many of them are novel.

    Raises
    ------
    DataError
        If the file is no whole part.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            novelty = file.read(columns=["novelty"])["novelty"].to_numpy()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} is damaged ({first_line(error)}); remove it and score again") from error
    return len(novelty), int(novelty.sum())


class PartWriter:
    """Writes the scores of one part beside their name and renames the file when it is whole.

    Columns: ``row`` (position in the input), ``kpca_0`` …, ``reconstruction_error``, ``hotelling_t2``,
    ``novelty``.
    """

    def __init__(self, path: Path, n_components: int, metadata: dict[str, str]) -> None:
        self.path = path
        scores = [pa.field(f"kpca_{j}", pa.float64()) for j in range(n_components)]
        others = [pa.field("reconstruction_error", pa.float64()), pa.field("hotelling_t2", pa.float64())]
        fields = [pa.field("row", pa.int64()), *scores, *others, pa.field("novelty", pa.bool_())]
        self.schema = pa.schema(fields, metadata=metadata)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            file = stack.enter_context(written_whole(self.path))
            self.writer = stack.enter_context(pq.ParquetWriter(file, self.schema))
            self.stack = stack.pop_all()
        return self

    def write(
        self,
        row: Array,
        scores: Array,
        reconstruction_error: Array | None,
        hotelling_t2: Array,
        novelty: Array,
    ) -> None:
        """Append some rows."""
        error = pa.nulls(len(row), pa.float64()) if reconstruction_error is None else reconstruction_error
        columns = [row, *np.asarray(scores, np.float64).T, error, hotelling_t2, novelty]
        arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
        self.writer.write_table(pa.table(arrays, schema=self.schema))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.__exit__(kind, error, trace)
