"""Scores in a Zarr group: row i belongs to row i of the one file or array that is scored.

::

    scores/scores.zarr/scores                 (n_rows, n_components)
    scores/scores.zarr/reconstruction_error   (n_rows,), so too hotelling_t2
    scores/scores.zarr/novelty                (n_rows,) bool
    scores/scores.zarr/model_version          (n_rows,); 0 where a row has no scores, which are NaN then
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import ConfigError
from kpca_stream.storage.chunked import create_array
from kpca_stream.storage.whole import remove_tree

CHUNK_ROWS = 65_536
_NUMBERS = {"reconstruction_error": np.nan, "hotelling_t2": np.nan, "novelty": False, "model_version": 0}
_TYPES = {"novelty": np.bool_, "model_version": np.int32}


@dataclass(frozen=True)
class ZarrScores:
    """The group at `path`, which grows with the rows that are put into it."""

    path: Path

    def clear(self) -> None:
        """Remove all scores."""
        remove_tree(self.path)

    def check(self, n_components: int) -> None:
        """Refuse to hold scores of another number of components than those that are there.

        Raises
        ------
        ConfigError
            If there are such scores.
        """
        if not self.path.exists():
            return
        scores = zarr.open_group(self.path, mode="r").get("scores")
        if isinstance(scores, zarr.Array) and scores.shape[1] != n_components:
            raise ConfigError(
                f"score.on_new_version: got keep, but {self.path} holds scores of {scores.shape[1]} "
                f"components, the model gives {n_components}; expected as many: set rescore, or choose "
                "another score.output"
            )

    def put(self, part: Path, start: int, stop: int) -> None:
        """Copy the scores of rows ``start`` to ``stop`` from a Parquet part; rows that it lacks become NaN.

        Doing it again changes nothing.

        Raises
        ------
        ConfigError
            As `check`, which is to be asked before anything is begun.
        """
        with pq.ParquetFile(part, pre_buffer=False) as file:
            n_components = sum(name.startswith("kpca_") for name in file.schema_arrow.names)
            self.check(n_components)
            arrays = self._arrays(n_components, stop)
            for first, rows in _windows(file, start, stop):
                end = min(stop, first + CHUNK_ROWS)
                for name, values in _columns(rows, n_components, first, end).items():
                    arrays[name][first:end] = values

    def _arrays(self, n_components: int, n_rows: int) -> dict[str, zarr.Array[Any]]:
        group = zarr.open_group(self.path, mode="a", zarr_format=3)
        shapes = {"scores": (n_components,), **dict.fromkeys(_NUMBERS, ())}
        return {name: _sized(group, name, n_rows, rest) for name, rest in shapes.items()}


def _sized(group: zarr.Group, name: str, n_rows: int, rest: tuple[int, ...]) -> zarr.Array[Any]:
    array = group.get(name)
    if not isinstance(array, zarr.Array):
        return create_array(
            group,
            name,
            (n_rows, *rest),
            (CHUNK_ROWS, *rest),
            _TYPES.get(name, np.float64),
            dimensions=("row", "component")[: 1 + len(rest)],
            fill_value=_NUMBERS.get(name, np.nan),
        )
    if array.shape[0] < n_rows:
        array.resize((n_rows, *rest))
    return array


def _windows(file: pq.ParquetFile, start: int, stop: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a part, cut where a chunk of the arrays ends."""
    batches = file.iter_batches(batch_size=CHUNK_ROWS, use_threads=False)
    held = file.schema_arrow.empty_table()
    first = start
    while first < stop:
        end = min(stop, first + CHUNK_ROWS)
        while batches is not None and (not held.num_rows or held["row"][-1].as_py() < end):
            batch = next(batches, None)
            if batch is None:
                break
            held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        inside = int(np.searchsorted(held["row"].to_numpy(), end))
        yield first, held.slice(0, inside)
        held, first = held.slice(inside), end


def _columns(rows: pa.Table, n_components: int, first: int, end: int) -> dict[str, NDArray[Any]]:
    """Values of rows ``first`` to ``end``; NaN, False and 0 for those that are not there."""
    height = end - first
    at = rows["row"].to_numpy() - first
    columns: dict[str, NDArray[Any]] = {"scores": np.full((height, n_components), np.nan)}
    for j in range(n_components):
        columns["scores"][at, j] = rows[f"kpca_{j}"].to_numpy()
    for name, nothing in _NUMBERS.items():
        columns[name] = np.full(height, nothing, _TYPES.get(name, np.float64))
        columns[name][at] = rows[name].to_numpy(zero_copy_only=False)
    return columns
