"""What to fit, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from kpca_stream.approximation import NystromSettings
from kpca_stream.numerics.duplicates import Merging
from kpca_stream.numerics.resolve import KernelSpec

DISTINCT_SHARE = 1 / 8
"""Of the memory limit, for the distinct rows while duplicates are merged; their copies take three more."""


@dataclass(frozen=True)
class Wording:
    """How messages name a setting: as its user does."""

    names: Mapping[str, str]
    assignment: str

    def __call__(self, key: str, value: object = None) -> str:
        """The name, or the setting of a value as it is written down."""
        name = self.names.get(key, key)
        return name if value is None else self.assignment.format(name, value)


CONFIGURATION = Wording(
    {
        "method": "solver.method",
        "precision": "solver.precision",
        "memory_limit": "limits.memory",
        "disk_limit": "limits.disk",
        "core_hours": "limits.core_hours",
        "storage": "gram.storage",
        "on_indefinite": "kernel.on_indefinite",
        "merge_duplicates": "data.merge_duplicates",
        "scale": "data.scale",
        "columns": "data.columns",
        "allow_approximate": "solver.allow_approximate",
        "n_landmarks": "nystrom.landmarks",
        "landmark_method": "nystrom.method",
    },
    "{}: {}",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """How to fit; the meaning of each is that of the configuration's key.

    `n_components` None asks for all positive ones. `on_indefinite` "asked" is an error only where the asked
    components would hold a negative eigenvalue, and a warning elsewhere, as in scikit-learn. With
    `tiles_in_bucket` tiles that are stored lie in an object store and take no disk.
    """

    wording: ClassVar[Wording] = CONFIGURATION

    kernel: KernelSpec = field(default_factory=KernelSpec)
    n_components: int | float | None = 10
    max_components: int = 200
    method: Literal["auto", "dense", "lanczos", "nystrom"] = "auto"
    allow_approximate: bool = False
    nystrom: NystromSettings = field(default_factory=NystromSettings)
    precision: Literal["auto", "float32", "float64", "mixed"] = "auto"
    tol: float = 0.0
    max_passes: int = 50
    storage: Literal["auto", "memory", "zarr", "recompute"] = "auto"
    tiles_in_bucket: bool = False
    tile_rows: int | None = None
    checkpoint_seconds: float = 60.0
    memory_limit: int = 4 * 2**30
    disk_limit: int | None = None
    core_hours: float | None = None
    scale: bool = False
    on_missing: Literal["error", "drop"] = "error"
    merge_duplicates: bool | Literal["auto"] = False
    on_indefinite: Literal["error", "warn", "asked"] = "error"
    quantile: float = 0.99
    seed: int = 0

    @property
    def merging(self) -> Merging | None:
        """How far equal rows are merged; those of a given matrix never are."""
        if not self.merge_duplicates or self.kernel.name == "precomputed":
            return None
        return Merging(int(DISTINCT_SHARE * self.memory_limit), gives_up=self.merge_duplicates == "auto")
