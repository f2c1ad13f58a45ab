"""Scores that were written, read again: what they tell of the rows that came since a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.damage import first_line

Array = NDArray[Any]

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class ScoredPart:
    """A file of scores, and how many rows it holds."""

    path: Path
    n_rows: int

    def blocks(self) -> Iterator[tuple[Array | None, Array, Array]]:
        """Reconstruction errors, None where they are not known, T² and novelty, some rows at a time.

        Raises
        ------
        DataError
            If the file is damaged.
        """
        names = ["reconstruction_error", "hotelling_t2", "novelty"]
        with _told_as_damaged(self.path), pq.ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                error, t2, novelty = (batch.column(name) for name in names)
                known = None if error.null_count else error.to_numpy()
                yield known, t2.to_numpy(), novelty.to_numpy(zero_copy_only=False)


def scored_parts(folder: Path, model: str, version: int) -> list[ScoredPart]:
    """The files of scores in `folder` that this version of the model wrote, in order of their names."""
    wanted = {b"kpca_stream.model": model.encode(), b"kpca_stream.version": str(version).encode()}
    found = []
    for path in sorted(folder.glob("[!.]*.parquet")):
        with _told_as_damaged(path), pq.ParquetFile(path, pre_buffer=False) as file:
            metadata = file.schema_arrow.metadata or {}
            if wanted.items() <= metadata.items():
                found.append(ScoredPart(path, file.metadata.num_rows))
    return found


@contextmanager
def _told_as_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} is damaged ({first_line(error)}); remove it and score again") from error
