"""Rows with an address: what a task carries instead of an array.

A handle pickles to a path and a slice where the rows lie on disk, and to just its own slice where
they lie in memory. Loading is the only operation; no handle does arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from kpca_stream.errors import DataError


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
    """Rows ``start`` to ``stop`` of a two-dimensional Zarr array."""

    array: zarr.Array[Any]
    start: int
    stop: int

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
        return type(self)(self.array, self.start + start, min(self.start + stop, self.stop))

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """Read these rows from the store.

        Raises
        ------
        DataError
            If a checksum does not hold.
        """
        try:
            return np.asarray(self.array[self.start : self.stop, columns])
        except (ValueError, RuntimeError) as error:  # what Zarr's codecs raise for a cut or changed chunk
            raise DataError(
                f"{self.array.store_path}: rows {self.start} to {self.stop} are damaged ({error}); restore them "
                "from a copy, or remove the folder and fit again"
            ) from error


@dataclass(frozen=True)
class NpyRows:
    """Rows ``start`` to ``stop`` of a two-dimensional ``.npy`` file, read through a memory map."""

    path: Path
    start: int
    stop: int
    n_columns: int
    dtype: np.dtype[Any]

    @classmethod
    def whole(cls, path: Path) -> Self:
        """All rows of the file at `path`."""
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return cls(Path(path), 0, array.shape[0], array.shape[1], array.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.stop - self.start, self.n_columns

    def part(self, start: int, stop: int) -> Self:
        """The handle of rows ``start`` to ``stop`` of this block."""
        return type(self)(
            self.path, self.start + start, min(self.start + stop, self.stop), self.n_columns, self.dtype
        )

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """Copy these rows out of the file."""
        array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return np.array(array[self.start : self.stop, columns])
