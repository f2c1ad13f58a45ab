"""Scores read back, part by part, in the order in which they were written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.errors import ConfigError
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.located import REQUESTS_AT_ONCE, is_folder, names_in, written_at
from kpca_stream.storage.object_stamp import BUFFER_BYTES, ObjectStamp

Array = NDArray[Any]
Range = tuple[float, float]

BATCH_ROWS = 65_536
_SCORE = re.compile(r"kpca_\d+")
_REMEDY = "remove it and score again"


@dataclass(frozen=True)
class ScorePart:
    """The scores of one part.

    Parameters
    ----------
    path : Path or Address
    model : str
        Name of the model.
    version : int
        Its version; 0 where the file does not say.
    n_rows : int
    n_components : int
    ranges : dict
        Least and largest finite value of each column of numbers, as the file's footer tells.
    written : float
        When, in seconds since 1970.
    """

    path: Location
    model: str
    version: int
    n_rows: int
    n_components: int
    ranges: dict[str, Range]
    written: float

    def batches(self, columns: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Some columns, in blocks of bounded size; a column of nulls becomes NaN.

        Raises
        ------
        DataError
            If the file is damaged.
        """
        with told_as(f"{self.path} is damaged", _REMEDY), _reading(self.path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                yield {name: _values(batch.column(name)) for name in columns}


def score_parts(folder: Location, model: str | None = None) -> list[ScorePart]:
    """Parts in `folder`, which may lie in a bucket, (of one `model`), the first written first.

    Raises
    ------
    ConfigError
        If there is no such folder.
    DataError
        If a part is damaged.
    """
    if not is_folder(folder):
        raise ConfigError(f"{folder}: no such folder, expected that of the scores; score first")
    names = [name for name in names_in(folder) if name.endswith(".parquet") and not name.startswith(".")]
    with ThreadPoolExecutor(1 if isinstance(folder, Path) else REQUESTS_AT_ONCE) as pool:
        parts = list(pool.map(_opened, [folder / name for name in names]))
    chosen = [part for part in parts if model is None or part.model == model]
    return sorted(chosen, key=lambda part: (part.written, part.path.name))


def _reading(path: Location) -> pq.ParquetFile:
    source = path if isinstance(path, Path) else ObjectStamp.of(str(path), path).open(buffered=False)
    return pq.ParquetFile(source, pre_buffer=False, buffer_size=0 if isinstance(path, Path) else BUFFER_BYTES)


def _opened(path: Location) -> ScorePart:
    with told_as(f"{path} is damaged", _REMEDY), _reading(path) as file:
        metadata = file.schema_arrow.metadata or {}
        names = file.schema_arrow.names
        return ScorePart(
            path=path,
            model=metadata.get(b"kpca_stream.model", b"").decode(),
            version=int(metadata.get(b"kpca_stream.version", b"0")),
            n_rows=file.metadata.num_rows,
            n_components=sum(_SCORE.fullmatch(name) is not None for name in names),
            ranges=_ranges(file.metadata),
            written=written_at(path),
        )


def _ranges(metadata: Any) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, known = column.path_in_schema, column.statistics
            if column.physical_type != "DOUBLE" or known is None or not known.has_min_max:
                continue
            low, high = ranges.get(name, (known.min, known.max))
            ranges[name] = min(low, known.min), max(high, known.max)
    return ranges


def _values(column: pa.Array) -> Array:
    return np.asarray(column.to_numpy(zero_copy_only=False))
