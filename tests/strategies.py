"""Generated fits: rows of every kind, kernels, weights, tiles, precisions; and bytes that were damaged.

Rows are made from a drawn seed and drawn traits, so that an example is small to write down and quick to make.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import reference
from hypothesis import strategies as st
from numpy.typing import NDArray

from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.resolve import KernelSpec, block_kernel

Array = NDArray[Any]
Method = Literal["dense", "lanczos"]
Precision = Literal["float32", "float64", "mixed"]

SEMIDEFINITE = ("linear", "rbf", "laplacian", "poly", "cosine", "own", "precomputed")
MOVABLE = ("linear", "rbf", "laplacian")
"""Kernels whose centred matrix stays when all rows are moved."""


@block_kernel
def own_kernel(X: Array, Y: Array) -> Array:
    """A kernel of one's own, (n_x, n_y)."""
    dot = X @ Y.T
    return np.asarray(dot + dot**2)


@dataclass(frozen=True)
class Traits:
    """How rows are made; `rows` says what each does."""

    n_samples: int
    n_features: int
    seed: int
    scale: float
    offset: float
    rank: int
    n_distinct: int
    decimals: int | None
    dtype: str
    constant_column: bool

    def rows(self, n_samples: int | None = None, seed: int = 0) -> Array:
        """The rows, (n_samples, n_features); others of the same kind with another `seed`."""
        rng = np.random.default_rng([self.seed, seed])
        n_samples = n_samples or self.n_samples
        loadings = np.random.default_rng(self.seed).standard_normal((self.rank, self.n_features))
        X = rng.standard_normal((min(n_samples, self.n_distinct), self.rank)) @ loadings
        X = X[rng.integers(0, len(X), n_samples)] if len(X) < n_samples else X
        if self.decimals is not None:
            X = X.round(self.decimals)
        if self.constant_column:
            X[:, 0] = 0.3
        if np.issubdtype(self.dtype, np.integer):
            return np.asarray(np.clip(10 * X + 50, 0, 100).astype(self.dtype))
        return np.asarray((self.scale * (X + self.offset)).astype(self.dtype))


@dataclass(frozen=True)
class Problem:
    """One fit: rows, kernel, weights, and how it is done."""

    traits: Traits
    kernel: str
    relative_gamma: float
    degree: int
    coef0: float
    n_components: int
    weighted: bool
    tile_rows: int
    method: Method
    precision: Precision
    parameters: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Resolve γ: relative to the squared size of the rows, or of their differences."""
        X = self.traits.rows().astype(float)
        about = X - X.mean(axis=0) if self.kernel in MOVABLE else X
        size = float((about**2).sum(axis=1).mean())
        size = size**0.5 if self.kernel == "laplacian" else size
        gamma = self.relative_gamma / size if size > 0 else self.relative_gamma
        known: dict[str, dict[str, Any]] = {
            "rbf": {"gamma": gamma},
            "laplacian": {"gamma": gamma},
            "poly": {"gamma": gamma, "degree": self.degree, "coef0": self.coef0},
            "sigmoid": {"gamma": gamma, "coef0": self.coef0},
        }
        object.__setattr__(self, "parameters", known.get(self.kernel, {}))

    @property
    def fit_rows(self) -> Array:
        """Rows as they are fitted, (n, d); of a precomputed kernel the matrix (n, n)."""
        rows = self.traits.rows()
        return self.matrix(rows, rows) if self.kernel == "precomputed" else rows

    @property
    def new_rows(self) -> Array:
        """Seven rows of the same kind, as they are scored."""
        new = self.traits.rows(7, seed=1)
        return self.matrix(new, self.traits.rows()) if self.kernel == "precomputed" else new

    @property
    def weights(self) -> Array | None:
        """Weights between 1 and 3, whole numbers, (n,); or None."""
        if not self.weighted:
            return None
        return np.random.default_rng(self.traits.seed).integers(1, 4, self.traits.n_samples).astype(float)

    @property
    def settings(self) -> FitSettings:
        """The same as settings of a fit."""
        spec = (
            KernelSpec("own", function=own_kernel)
            if self.kernel == "own"
            else KernelSpec(self.kernel, **self.parameters)
        )
        return FitSettings(
            kernel=spec,
            n_components=self.n_components,
            method=self.method,
            precision=self.precision,
            tile_rows=self.tile_rows,
            on_indefinite="warn" if self.kernel == "sigmoid" else "error",
        )

    def true_kernel(self) -> tuple[Array, Array, Array]:
        """K (n, n), its values for the new rows (7, n) and their own (7,), by the formulas in float64."""
        rows, new = self.traits.rows(), self.traits.rows(7, seed=1)
        if self.kernel == "linear":  # what moving changes is lost in K, and not in the centred matrix
            mean = rows.astype(float).mean(axis=0)
            rows, new = rows - mean, new - mean
        return (
            self.matrix(rows, rows),
            self.matrix(new, rows),
            np.diagonal(self.matrix(new, new)).copy(),
        )

    @property
    def epsilon(self) -> float:
        """The rounding of the working precision."""
        return float(np.finfo("float32" if self.precision == "float32" else "float64").eps)

    @property
    def condition(self) -> float:
        """How much larger than a rounding those of kernel values are: an exponent has those of γ‖x‖²."""
        if self.kernel != "rbf" or self.precision == "float32":  # float32 is guarded by float64
            return 1.0
        X = self.traits.rows().astype(float)
        about = X - X.mean(axis=0)
        return 1.0 + float(self.parameters["gamma"] * (about**2).sum(axis=1).max())

    def matrix(self, X: Array, Y: Array) -> Array:
        """The kernel between rows by its formula in float64, (n_x, n_y)."""
        X, Y = X.astype(float), Y.astype(float)
        if self.kernel == "own":
            return own_kernel(X, Y)
        if self.kernel == "precomputed":
            K = reference.kernel("laplacian", X, Y, gamma=self.relative_gamma)
            return (K + K.T) / 2 if X is Y else K
        return reference.kernel(self.kernel, X, Y, **self.parameters)


def traits(max_samples: int = 60) -> st.SearchStrategy[Traits]:
    """Rows repeated or not, of low rank, far from the origin, tiny, huge, rounded, whole numbers or none."""
    return st.builds(
        Traits,
        n_samples=st.integers(2, max_samples),
        n_features=st.integers(1, 8),
        seed=st.integers(0, 2**32 - 1),
        scale=st.sampled_from([1.0, 1.0, 1e-3, 37.0, 1e3]),
        offset=st.sampled_from([0.0, 0.0, 0.5, 30.0, -1e3]),
        rank=st.integers(1, 8),
        n_distinct=st.sampled_from([60, 60, 60, 1, 2, 5, 20]),
        decimals=st.sampled_from([None, None, 0, 1]),
        dtype=st.sampled_from(["float64", "float64", "float32", "uint8", "int16"]),
        constant_column=st.booleans(),
    )


def problems(
    kernels: tuple[str, ...] = SEMIDEFINITE, max_samples: int = 60, **fixed: Any
) -> st.SearchStrategy[Problem]:
    """Fits of any rows by any kernel, method and precision, in tiles of any size."""
    drawn: dict[str, st.SearchStrategy[Any]] = {
        "traits": traits(max_samples),
        "kernel": st.sampled_from(kernels),
        "relative_gamma": st.sampled_from([1e-7, 1e-3, 0.05, 0.3, 1.0, 3.0, 1e3]),
        "degree": st.integers(1, 4),
        "coef0": st.sampled_from([0.0, 0.5, 1.0]),
        "n_components": st.integers(1, 12) | st.integers(1, 70),
        "weighted": st.booleans(),
        "tile_rows": st.integers(1, 64),
        "method": st.sampled_from(["dense", "lanczos"]),
        "precision": st.sampled_from(["float64", "float64", "float32", "mixed"]),
    }
    return st.builds(Problem, **{**drawn, **{key: st.just(value) for key, value in fixed.items()}})


@dataclass(frozen=True)
class Damage:
    """What happens to the bytes of a file: `to` says what each kind does."""

    kind: Literal["set", "flip", "cut", "insert", "drop", "zero", "replace", "append"]
    place: int
    length: int
    content: bytes

    def to(self, data: bytes) -> bytes:
        """The damaged bytes."""
        where = self.place % max(len(data), 1)
        before, hit, after = data[:where], data[where : where + self.length], data[where + self.length :]
        return {
            "flip": before + bytes(byte ^ (1 << self.length % 8) for byte in hit[:1]) + hit[1:] + after,
            "set": before + self.content[: len(hit)] + hit[len(self.content) :] + after,
            "cut": before,
            "insert": before + self.content + hit + after,
            "drop": before + after,
            "zero": before + bytes(len(hit)) + after,
            "replace": self.content,
            "append": data + self.content,
        }[self.kind]


def damages() -> st.SearchStrategy[Damage]:
    """Bytes set, flipped, cut off, put in, left out, zeroed, replaced or added."""
    return st.builds(
        Damage,
        kind=st.sampled_from(["set", "flip", "flip", "cut", "insert", "drop", "zero", "replace", "append"]),
        place=st.integers(0, 2**20),
        length=st.integers(1, 64),
        content=st.binary(max_size=40),
    )
