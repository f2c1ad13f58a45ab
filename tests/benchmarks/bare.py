"""The arithmetic of a pass alone: the same tiles, strips and threads; no guards, no Dask, no Zarr."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.cluster import single_threaded_blas
from kpca_stream.numerics.multiply import STRIP_ROWS, strip_slices
from kpca_stream.numerics.tiles import Tile, TileGrid

Array = NDArray[Any]

PIECE_BYTES = 16 * 2**20


@dataclass(eq=False)
class BarePass:
    """GEMMs and exps of one pass over an rbf kernel matrix in float32.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    gamma : float
    grid : TileGrid
    n_threads : int
    """

    X: Array
    gamma: float
    grid: TileGrid
    n_threads: int
    _left: Array = field(init=False)
    _right: Array = field(init=False)
    _own: threading.local = field(init=False, default_factory=threading.local)

    def __post_init__(self) -> None:
        """[2γX, −γ‖x‖², 1] and [X, 1, −γ‖x‖²]."""
        X = (self.X - self.X.mean(axis=0)).astype(np.float32)
        norms = -self.gamma * np.einsum("ij,ij->i", X, X)[:, None]
        ones = np.ones_like(norms)
        self._left = np.hstack([2 * self.gamma * X, norms, ones]).astype(np.float32)
        self._right = np.hstack([X, ones, norms]).astype(np.float32)

    def evaluate(self) -> None:
        """All tiles i ≤ j, each thrown away."""

        def of_block(block: Tile) -> None:
            for tile in self.grid.tiles(block):
                for _ in self._strips(tile):
                    pass

        self._run(of_block)

    def multiply(self, V: Array) -> None:
        """All tiles times V (n_samples, w), each for both of its sides; products are thrown away."""

        def of_block(block: Tile) -> None:
            for tile in self.grid.tiles(block):
                self._multiply(self._strips(tile), tile, V)

        self._run(of_block)

    def multiply_stored(self, path: Path, V: Array) -> None:
        """The same, with tiles from a file: one after another, as `write_raw` left them."""
        size = self.grid.tile_rows**2 * 4
        places = {tile: index * size for index, tile in enumerate(self.grid.tiles())}

        def of_block(block: Tile) -> None:
            with path.open("rb", buffering=0) as file:
                for tile in self.grid.tiles(block):
                    file.seek(places[tile])
                    T = self._buffer("tile", (self.grid.tile_rows,) * 2)
                    file.readinto(T.data)
                    a, b, c, d = *self.grid.rows(tile[0]), *self.grid.rows(tile[1])
                    # Of a tile at the edge only a part is there, in the file as in the matrix.
                    whole = T[: b - a, : d - c]
                    self._multiply(((rows, whole[rows]) for rows in strip_slices(b - a)), tile, V)

        self._run(of_block)

    def _strips(self, tile: Tile) -> Iterator[tuple[slice, Array]]:
        (a, b), (c, d) = (self.grid.rows(t) for t in tile)
        buffer = self._buffer("strip", (STRIP_ROWS, self.grid.tile_rows)).reshape(-1)
        for rows in strip_slices(b - a):
            T = buffer[: (rows.stop - rows.start) * (d - c)].reshape(-1, d - c)
            np.matmul(self._left[a + rows.start : a + rows.stop], self._right[c:d].T, out=T)
            np.exp(T, out=T)
            yield rows, T

    def _multiply(self, strips: Iterator[tuple[slice, Array]], tile: Tile, V: Array) -> None:
        (a, _), (c, d) = (self.grid.rows(t) for t in tile)
        for rows, T in strips:
            np.matmul(T, V[c:d], out=self._buffer("one", (STRIP_ROWS, V.shape[1]))[: len(T)])
            if tile[0] != tile[1]:
                part = V[a + rows.start : a + rows.stop]
                np.matmul(T.T, part, out=self._buffer("other", (self.grid.tile_rows, V.shape[1]))[: d - c])

    def _buffer(self, name: str, shape: tuple[int, int]) -> Array:
        if not hasattr(self._own, name):
            setattr(self._own, name, np.empty(shape, dtype=np.float32))
        return np.asarray(getattr(self._own, name))

    def _run(self, of_block: Callable[[Tile], None]) -> None:
        with single_threaded_blas(), ThreadPoolExecutor(self.n_threads) as pool:
            list(pool.map(of_block, self.grid.blocks()))


@dataclass(frozen=True, eq=False)
class BareRowPass:
    """GEMMs and exps of rows against landmarks, and of Σ k_Z(x) k_Z(x)ᵀ, for an rbf kernel.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    landmarks : ndarray of shape (m, n_features)
    gamma : float
    dtype : dtype
    block_rows : int
        Rows of a block of similarities, as `RowCut` gives them.
    n_threads : int
    """

    X: Array
    landmarks: Array
    gamma: float
    dtype: Any
    block_rows: int
    n_threads: int

    def run(self) -> None:
        """All rows, each thread its own part of them."""
        d = self.X.shape[1]
        right = np.zeros((len(self.landmarks), d + 2), self.dtype)
        right[:, :d] = self.landmarks
        starts = range(0, len(self.X), self.block_rows)
        parts = [starts[k :: self.n_threads] for k in range(self.n_threads)]
        with single_threaded_blas(), ThreadPoolExecutor(self.n_threads) as pool:
            list(pool.map(lambda part: self._part(part, right), parts))

    def _part(self, starts: range, right: Array) -> None:
        d, m = self.X.shape[1], len(right)
        left = np.zeros((self.block_rows, d + 2), self.dtype)
        buffer, product = np.empty((self.block_rows, m), self.dtype), np.empty((m, m), self.dtype)
        for start in starts:
            n_rows = min(self.block_rows, len(self.X) - start)
            np.multiply(self.X[start : start + n_rows], -self.gamma, out=left[:n_rows, :d])
            for rows in strip_slices(n_rows):
                np.matmul(left[rows], right.T, out=buffer[rows])
                np.exp(buffer[rows], out=buffer[rows])
            K = buffer[:n_rows]
            np.matmul(K.T, K, out=product)


@dataclass(frozen=True, eq=False)
class BareScoring:
    """GEMMs and exps of rows against those of a basis, and of their products with its coefficients.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        NumPy or Zarr.
    basis : ndarray of shape (m, n_features)
    gamma : float
    width : int
        Columns of the coefficients.
    block_rows, chunk_rows : int
        Rows of X and of the basis that meet in a tile.
    n_threads : int
    """

    X: Any
    basis: Array
    gamma: float
    width: int
    block_rows: int
    chunk_rows: int
    n_threads: int

    def run(self) -> None:
        """All rows in float32, each thread one block after another."""
        starts = range(0, len(self.X), self.block_rows)
        parts = [starts[k :: self.n_threads] for k in range(self.n_threads)]
        with single_threaded_blas(), ThreadPoolExecutor(self.n_threads) as pool:
            list(pool.map(self._part, parts))

    def _part(self, starts: range) -> None:
        d, m = self.basis.shape[1], len(self.basis)
        left, right = (np.zeros((n, d + 2), np.float32) for n in (self.block_rows, m))
        right[:, :d] = self.basis
        V = np.ones((m, self.width), np.float32)
        whole = np.empty((STRIP_ROWS, self.chunk_rows), np.float32).reshape(-1)
        sums = np.empty((STRIP_ROWS, self.width), np.float32)
        block = np.zeros((self.block_rows, d), np.float32)
        for start in starts:
            block[: len(self.X) - start] = self.X[start : start + self.block_rows]
            np.multiply(block, -self.gamma, out=left[:, :d])
            for c in range(0, m, self.chunk_rows):
                B, factors = right[c : c + self.chunk_rows], V[c : c + self.chunk_rows]
                for rows in strip_slices(min(self.block_rows, len(self.X) - start)):
                    A = left[rows]
                    T = whole[: len(A) * len(B)].reshape(len(A), len(B))
                    np.matmul(A, B.T, out=T)
                    np.exp(T, out=T)
                    np.matmul(T, factors, out=sums[: len(A)])


def write_raw(path: Path, n_bytes: int) -> None:
    """Write so many bytes of float32 values to a file, one after another, and flush them to the disk."""
    piece = np.random.default_rng(0).random(PIECE_BYTES // 4, dtype=np.float32).tobytes()
    with path.open("wb", buffering=0) as file:
        for start in range(0, n_bytes, PIECE_BYTES):
            file.write(piece[: min(PIECE_BYTES, n_bytes - start)])
        os.fsync(file.fileno())


def flush(folder: Path) -> None:
    """Flush all files of a folder to the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def forget(path: Path) -> None:
    """Drop a file, or the files of a folder, from the memory in which the system keeps what was read."""
    for file in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
