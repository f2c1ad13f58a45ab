"""Sparse matrices in memory: rows are made dense block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca_stream.storage.rows import Rows
from kpca_stream.storage.sources.arrays import pick
from kpca_stream.storage.sources.table import (
    Column,
    Piece,
    Whole,
    block_rows,
    check_array,
    is_usable,
    numbered,
    steps,
)


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays."""
    return bool(sparse.issparse(X))


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a matrix in compressed rows; only what is loaded becomes dense."""

    matrix: sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this block."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the values are stored."""
        return np.dtype(self.matrix.dtype)

    def part(self, start: int, stop: int) -> Self:
        """Rows ``start`` to ``stop``, still sparse."""
        return type(self)(self.matrix[start:stop])

    def load(self, columns: slice = slice(None)) -> NDArray[Any]:
        """These rows, or only their `columns`, dense."""
        return np.asarray(self.matrix[:, columns].toarray())


@dataclass(frozen=True, eq=False)
class SparseTable(Whole):
    """A matrix in compressed rows; `first` is the position of row 0 in the one that it was cut from."""

    title: str
    matrix: sparse.csr_array
    first: int = 0

    @classmethod
    def of(cls, title: str, X: Any) -> Self:
        """A matrix in any sparse format."""
        return cls(title, sparse.csr_array(X))

    def __post_init__(self) -> None:
        """Check shape and type."""
        check_array(self.title, self.matrix.shape, np.dtype(self.matrix.dtype))

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.title

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return int(self.matrix.shape[0])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Positions."""
        return numbered(self.matrix.shape[1], np.dtype(self.matrix.dtype))

    def read(self, start: int, stop: int, picked: tuple[int, ...]) -> Iterator[NDArray[Any]]:
        """Blocks, dense."""
        for a, b in steps(start, stop, block_rows(self.matrix.shape[1])):
            yield pick(self.matrix[a:b].toarray(), picked)

    def locate(self, row: int) -> str:
        """Name of a row for messages."""
        return f"{self.name}, row {self.first + row}"

    def rows(self, start: int, stop: int) -> Rows | None:
        """These rows as they are, where their type is usable."""
        return SparseRows(self.matrix[start:stop]) if is_usable(np.dtype(self.matrix.dtype)) else None

    def narrow(self, start: int, stop: int) -> tuple[SparseTable, int]:
        """These rows, so that only they are pickled."""
        return SparseTable(self.name, self.matrix[start:stop], self.first + start), 0

    def pieces(self) -> tuple[Piece, ...]:
        """One piece."""
        return (Piece(self.name, "", 0, self.n_rows, self.first),)
