"""Scores in Zarr read back, in the order of their rows; and what reads either format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.addresses import Location
from kpca_stream.storage import intact
from kpca_stream.storage.damage import told_as
from kpca_stream.storage.located import is_folder
from kpca_stream.storage.score_parts import Range, ScorePart, score_parts
from kpca_stream.storage.scores_zarr import CHUNK_ROWS

Array = NDArray[Any]

_REMEDY = "remove it and score again"
_MEASURES = ("reconstruction_error", "hotelling_t2")
_LAST = "model_version"
"""The array that a scorer makes, and lengthens, after all others: they have no fewer rows."""


@dataclass(frozen=True)
class ZarrPart:
    """The rows of a chunk that one version scored; reads as a `ScorePart` does.

    Parameters
    ----------
    path : Path
        Of the group, and the rows of the chunk.
    group : zarr.Group
    start, stop : int
        Rows of the chunk.
    version : int
    n_rows, n_components : int
    ranges : dict
    written : float
        When the group was written to last, in seconds since 1970.
    """

    path: Path
    group: zarr.Group
    start: int
    stop: int
    version: int
    n_rows: int
    n_components: int
    ranges: dict[str, Range]
    written: float

    def batches(self, columns: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Some columns, in one block.

        Raises
        ------
        DataError
            If a chunk is damaged.
        """
        with told_as(f"{self.path} is damaged", _REMEDY):
            inside = self._read("model_version") == self.version
            yield {name: self._read(name)[inside] for name in columns}

    def _read(self, name: str) -> Array:
        rows = slice(self.start, self.stop)
        if name.startswith("kpca_"):
            return np.asarray(self.group["scores"][rows, int(name.removeprefix("kpca_"))])  # type: ignore[index]
        return np.asarray(self.group[name][rows])  # type: ignore[index]


def written_parts(output: Location, form: str, model: str) -> Sequence[ScorePart | ZarrPart]:
    """The scores of a model in either format, the first written first; none where there are none yet.

    Parameters
    ----------
    output : Path or Address
    form : {"parquet", "zarr"}
    model : str

    Raises
    ------
    DataError
        If some are damaged.
    """
    if not is_folder(output):
        return ()
    if form == "zarr" and isinstance(output, Path):
        return zarr_parts(output / "scores.zarr")
    return score_parts(output, model)


def zarr_parts(path: Path) -> list[ZarrPart]:
    """The scores in the group at `path`, chunk by chunk; none where there is none yet.

    Raises
    ------
    DataError
        If a chunk is damaged.
    """
    if not (path / "zarr.json").exists():
        return []
    with told_as(f"{path} is damaged", _REMEDY):
        intact.check_folder(path)
        group = zarr.open_group(path, mode="r")
        if _LAST not in group:
            return []
        arrays = {name: group[name] for name in ("scores", "model_version", *_MEASURES)}
        intact.check_arrays(path, arrays, whole=False, dtypes=("float64", "int32"))  # type: ignore[arg-type]
        names = (file.name for file in (path / _LAST / "c").glob("*"))
        chunks = sorted(int(name) for name in names if name.isdigit())  # others are being written
        return [part for chunk in chunks for part in _parts_of(path, group, chunk * CHUNK_ROWS)]


def _parts_of(path: Path, group: zarr.Group, start: int) -> Iterator[ZarrPart]:
    versions = np.asarray(group["model_version"][start : start + CHUNK_ROWS])  # type: ignore[index]
    stop = start + len(versions)
    scores = np.asarray(group["scores"][start:stop])  # type: ignore[index]
    columns = {f"kpca_{j}": scores[:, j] for j in range(scores.shape[1])}
    columns |= {name: np.asarray(group[name][start:stop]) for name in _MEASURES}  # type: ignore[index]
    for version in np.unique(versions[versions > 0]):
        inside = versions == version
        yield ZarrPart(
            path=path / f"rows {start} to {stop - 1}",
            group=group,
            start=start,
            stop=stop,
            version=int(version),
            n_rows=int(inside.sum()),
            n_components=scores.shape[1],
            ranges=dict(_ranges({name: values[inside] for name, values in columns.items()})),
            written=path.stat().st_mtime,
        )


def _ranges(columns: dict[str, Array]) -> Iterator[tuple[str, Range]]:
    for name, values in columns.items():
        known = values[np.isfinite(values)]
        if len(known):
            yield name, (float(known.min()), float(known.max()))
