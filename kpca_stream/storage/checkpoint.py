"""Accumulators and how far they got: small files that are written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.storage.damage import FAULTS, first_line
from kpca_stream.storage.npy import npy_header
from kpca_stream.storage.whole import written_whole

Array = NDArray[Any]

UNREADABLE: tuple[type[Exception], ...] = (*FAULTS, zipfile.BadZipFile)


@dataclass(frozen=True)
class Checkpoints:
    """Named checkpoints in one folder.

    Each is an uncompressed ``.npz`` file, whose members carry a CRC-32; it is written beside its name, synced
    and renamed.
    """

    folder: Path

    def save(self, name: str, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
        """Write checkpoint `name`; `facts` are values that JSON can hold."""
        self.folder.mkdir(parents=True, exist_ok=True)
        contents = json.dumps({"arrays": sorted(arrays), "facts": facts})
        with written_whole(self._path(name)) as file:
            np.savez(file, allow_pickle=False, contents=np.array(contents), **arrays)

    def load(self, name: str) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """Arrays and facts of checkpoint `name`, or None where there is none that can be read.

        Warns
        -----
        KpcaStreamWarning
            If there is one, but cut or changed: the work that it stands for is done again.
        """
        path = self._path(name)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            warnings.warn(
                f"checkpoint {path} cannot be read ({first_line(error)}); its work is done again",
                KpcaStreamWarning,
                stacklevel=2,
            )
            return None

    def damaged(self) -> list[Path]:
        """The checkpoints that cannot be read."""
        return [path for path in sorted(self.folder.glob("*.npz")) if not _is_readable(path)]

    def remove(self, name: str) -> None:
        """Forget checkpoint `name`."""
        self._path(name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all checkpoints, and what an interrupted write left."""
        for path in self.folder.glob("*.npz*"):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


@dataclass(frozen=True)
class Ledger:
    """The checkpoint of one pass: its accumulator, and how many tasks that holds.

    Parameters
    ----------
    checkpoints : Checkpoints or None
        Where it is kept; without, nothing is.
    name : str
    belongs_to : list of int
        What was folded counts only for a pass of the same.
    """

    checkpoints: Checkpoints | None
    name: str
    belongs_to: list[int]

    def restored(
        self, shapes: Mapping[str, tuple[int, ...]] | None = None
    ) -> tuple[dict[str, Array], int] | None:
        """The accumulator and the number of tasks folded into it, if there is one of this pass.

        One whose arrays have other `shapes` is of none.
        """
        found = None if self.checkpoints is None else self.checkpoints.load(self.name)
        if found is None or found[1].get("belongs_to") != self.belongs_to:
            return None
        arrays, n_folded = found[0], found[1].get("n_folded")
        if type(n_folded) is not int or n_folded < 0:
            return None
        if shapes is not None and {name: array.shape for name, array in arrays.items()} != shapes:
            return None
        return arrays, n_folded

    def save(self, arrays: dict[str, Array], n_folded: int) -> None:
        """Keep the accumulator of the first `n_folded` tasks."""
        if self.checkpoints is not None:
            facts = {"n_folded": n_folded, "belongs_to": self.belongs_to}
            self.checkpoints.save(self.name, arrays, facts)


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    # Opened here: NumPy leaves a file open that turns out to be no archive.
    with path.open("rb") as stream:
        _refuse_larger(stream)
        return _arrays_of(stream)


def _arrays_of(stream: BinaryIO) -> tuple[dict[str, Array], dict[str, Any]]:
    with np.load(stream, allow_pickle=False) as file:
        contents = json.loads(str(file["contents"]))
        # By the names that were written: the zip directory itself carries no checksum.
        return {key: file[key] for key in contents["arrays"]}, contents["facts"]


def _refuse_larger(stream: BinaryIO) -> None:
    """Refuse an archive whose arrays are larger than it is, by what it says of them."""
    n_bytes = os.fstat(stream.fileno()).st_size
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise ValueError(f"{info.filename} is compressed")
            n_bytes -= info.file_size
            with archive.open(info) as member:
                shape, _, dtype = npy_header(member)
            if math.prod(shape) * dtype.itemsize > info.file_size:
                raise ValueError(f"{info.filename} says that it holds {shape} of {dtype}")
    if n_bytes < 0:
        raise ValueError("its members are larger than the file")
    stream.seek(0)


def _is_readable(path: Path) -> bool:
    try:
        _read(path)
    except UNREADABLE:
        return False
    return True
