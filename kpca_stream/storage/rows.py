"""Rows with an address: what a task carries instead of an array.

A handle pickles to a path and a slice where the rows lie on disk, and to just its own slice where
they lie in memory. Loading is the only operation; no handle does arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import DataError, KpcaStreamError
from kpca_stream.storage.damage import FAULTS, first_line
from kpca_stream.storage.stamp import FileStamp, ZarrStamp


class Rows(Protocol):
    """A block of rows that can be cut and loaded."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the values are stored."""

    def part(self, start: int, stop: int) -> Rows:
        """The handle of rows ``start`` to ``stop`` of this block; loads nothing."""

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """These rows (or only their `columns`) as an array that must not be written to."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows in memory."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the values are stored."""
        return self.array.dtype

    def part(self, start: int, stop: int) -> Self:
        """A view of rows ``start`` to ``stop``."""
        return type(self)(self.array[start:stop])

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """The array itself, or a view of some `columns`."""
        return self.array[:, columns]


@dataclass(frozen=True, eq=False)
class ZarrRows:
    """Rows ``start`` to ``stop`` of a two-dimensional Zarr array; `stamp` where it must not change."""

    array: zarr.Array[Any]
    start: int
    stop: int
    stamp: ZarrStamp | None = None

    @classmethod
    def whole(cls, array: zarr.Array[Any]) -> Self:
        """All rows of `array`."""
        return cls(array, 0, array.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.stop - self.start, self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the values are stored."""
        return np.dtype(self.array.dtype)

    def part(self, start: int, stop: int) -> Self:
        """The handle of rows ``start`` to ``stop`` of this block."""
        return replace(self, start=self.start + start, stop=min(self.start + stop, self.stop))

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """Read these rows from the store.

        Raises
        ------
        DataError
            If a checksum does not hold, a chunk is missing, or the array changed since it was opened.
        """
        try:
            values = np.asarray(self.array[self.start : self.stop, columns])
        except KpcaStreamError:  # of a store that does not answer
            raise
        except FAULTS as error:
            self._check_unchanged()
            raise self._damaged(first_line(error)) from error
        self._check_unchanged()
        if self._is_incomplete(values):
            raise self._damaged("a chunk is missing")
        return values

    def _check_unchanged(self) -> None:
        if self.stamp is not None:
            self.stamp.check(self.start, self.stop)

    def _is_incomplete(self, values: NDArray[Any]) -> bool:
        """Whether a chunk is not there, where that reads as NaN: stored rows have none of their own."""
        if values.dtype.kind != "f" or self.array.fill_value is None or not np.isnan(self.array.fill_value):
            return False
        return bool(np.isnan(values[:, :1]).any())

    def _damaged(self, reason: str) -> DataError:
        return DataError(
            f"rows {self.start} to {self.stop - 1} in {self.array.store_path} are damaged ({reason}), "
            "expected them whole; restore them from a copy or, if a fit wrote them, remove the store or fit "
            "with --restart"
        )


@dataclass(frozen=True)
class NpyRows:
    """Rows ``start`` to ``stop`` of a two-dimensional ``.npy`` file, read through a memory map.

    Its header was read once: reading one evaluates Python, which CPython 3.11 does wrong now and then where
    several threads do it at once.
    """

    file: FileStamp
    start: int
    stop: int
    n_columns: int
    dtype: np.dtype[Any]
    offset: int
    n_rows: int
    order: Literal["C", "F"] = "C"

    @classmethod
    def whole(cls, path: Path) -> Self:
        """All rows of the file at `path`."""
        file = FileStamp.of(str(path), Path(path))
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        n_rows, n_columns = array.shape
        order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
        return cls(file, 0, n_rows, n_columns, array.dtype, array.offset, n_rows, order)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.stop - self.start, self.n_columns

    def part(self, start: int, stop: int) -> Self:
        """The handle of rows ``start`` to ``stop`` of this block."""
        return replace(self, start=self.start + start, stop=min(self.start + stop, self.stop))

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """Copy these rows out of the file.

        Raises
        ------
        DataError
            If the file changed since it was opened.
        """
        self.file.check()  # a map that reaches over the end of a file would end the process
        whole = self.n_rows, self.n_columns
        array = np.memmap(self.file.path, self.dtype, "r", self.offset, whole, self.order)
        values = np.array(array[self.start : self.stop, columns])
        self.file.check()
        return values
