"""The sections of a configuration: their keys, defaults and what each value may be."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kpca_stream.addresses import is_address
from kpca_stream.config.cluster_schema import Cluster
from kpca_stream.config.paths import Key, PathProblem, path_problems
from kpca_stream.config.refit_schema import Refit
from kpca_stream.config.score_schema import Score
from kpca_stream.config.tune_schema import Tune
from kpca_stream.config.values import LocalPath, PositiveInt, RowSlice, Section, Share, Text, expected
from kpca_stream.parameters import canonical_kernel, kernel_problems

_UNITS = {"": 1, "B": 1} | {
    unit: base**power
    for base, letters in ((1024, ("KiB", "MiB", "GiB", "TiB")), (1000, ("kB", "MB", "GB", "TB")))
    for power, unit in enumerate(letters, start=1)
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


def parse_size(value: int | str) -> int:
    """Bytes of ``"4GiB"``, ``"100 GB"``, ``"1.5TiB"`` or a plain number of bytes.

    Raises
    ------
    ValueError
        Not a size of at least one byte.
    """
    match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"not a size, got {value!r}, expected a number of bytes or a size such as 4GiB")
    size = int(Decimal(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise ValueError(f"not a size, got {value!r}, expected at least one byte")
    return size


def _list_to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Size = Annotated[
    int,
    Field(json_schema_extra={"type": ["integer", "string"], "examples": ["4GiB", 4_000_000_000]}),
    BeforeValidator(parse_size),
    expected("a number of bytes > 0 or a size such as 4GiB or 100GB"),
]
KernelName = Annotated[Text, AfterValidator(canonical_kernel)]
Columns = Annotated[
    Annotated[tuple[Text | int, ...], Field(min_length=1), BeforeValidator(_list_to_tuple)] | None,
    expected("a list of column names or positions, or null for all numeric ones"),
]
Gamma = Annotated[
    float | Literal["scale", "median"] | None,
    expected('a number > 0, "scale", "median" or null for 1/n_features'),
]
Components = Annotated[
    PositiveInt | Share,
    expected("a whole number >= 1, or a share of the variance between 0 and 1, such as 0.9 or 90%"),
]
TileRows = Annotated[PositiveInt | Literal["auto"], expected("a whole number >= 1, or auto")]
Merge = Annotated[bool | Literal["auto"], expected("auto, true or false")]


def _refuse(problems: list[PathProblem]) -> None:
    """Report `problems`, which are more than one value's, each at its key."""
    if problems:
        raise PydanticCustomError("problems", "{problems}", {"problems": problems})


class Train(Section):
    """The rows to train on."""

    path: Text
    """A Zarr array, an npy, Parquet or CSV file, a folder of these, or ``sklearn:NAME``."""
    rows: RowSlice = None


class Data(Section):
    """Which rows and columns, and what to do to them."""

    train: Train
    columns: Columns = None
    scale: Literal["none", "standard"] = "none"
    on_missing: Literal["error", "drop"] = "error"
    merge_duplicates: Merge = "auto"
    """Fit rows that occur more than once as one with a weight; auto: where they are at least half of all."""


class Kernel(Section):
    """The kernel and its parameters."""

    name: KernelName = "rbf"
    """linear, rbf, laplacian, poly, sigmoid, cosine, precomputed or "package.module:function"."""
    gamma: Gamma = None
    degree: float = 3.0
    coef0: float = 1.0
    on_indefinite: Literal["error", "warn"] = "error"

    @model_validator(mode="after")
    def _parameters_fit(self) -> Self:
        problems = kernel_problems(self.name, self.gamma, self.degree, self.coef0)
        _refuse([((problem.key,), problem.message) for problem in problems])
        return self


class Solver(Section):
    """How many components, how exactly and how."""

    method: Literal["auto", "dense", "lanczos", "nystrom"] = "auto"
    allow_approximate: bool = False
    """Whether auto may take nystrom where an exact fit is beyond the limits."""
    n_components: Components = 10
    max_components: PositiveInt = 200
    """Most components that a share may take."""
    tol: Annotated[float, Field(ge=0)] = 1e-6
    """Largest residual relative to the first eigenvalue; 0: 1e-13 in float64, else 1e-6."""
    max_passes: PositiveInt = 50
    precision: Literal["auto", "float32", "float64", "mixed"] = "auto"


class LandmarkRows(Section):
    """Landmarks of one's own."""

    path: Text
    """Of rows with the columns of the data; for a precomputed kernel of one column, their positions."""
    rows: RowSlice = None


class LandmarksOf(Section):
    """The landmarks of another basis, with its kernel: what is fitted can be merged with it."""

    basis: Text


class Nystrom(Section):
    """How an approximate fit chooses its landmarks, and what certifies it."""

    landmarks: Annotated[
        PositiveInt | LandmarkRows | LandmarksOf,
        expected("a whole number >= 1, path (and rows) of your own landmarks, or basis: whose landmarks"),
    ] = 1000
    """How many at most, or the rows themselves, or those of another basis."""
    method: Literal["auto", "kmeans", "rpcholesky", "uniform"] = "auto"
    """auto: kmeans for rbf and laplacian, rpcholesky for other kernels and where residual is given."""
    residual: Annotated[Share | None, expected("a share between 0 and 1, such as 1%, or null")] = None
    """Take the fewest landmarks that leave this share of the trace."""
    pool: Literal["sample", "all"] = "sample"
    """Among which rows rpcholesky chooses; all: out of core, some passes more."""
    bound: Literal["trace", "probabilistic", "sampled"] = "trace"
    """On how far eigenvalues are below the exact ones, beside that by the trace."""


class Gram(Section):
    """Where the tiles of the Gram matrix live, and the run's store."""

    storage: Literal["auto", "memory", "zarr", "recompute"] = "auto"
    path: Text = "work/gram.zarr"
    """The run's store, a folder; or ``s3://BUCKET/KEY``, which takes the tiles alone."""
    work: LocalPath | None = None
    """The run's own folder (rows, checkpoints, lock), which all workers see, where the tiles lie in a
    bucket; null: ``work/BUCKET/KEY``."""
    tile_rows: TileRows = "auto"
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60
    """Least time between two checkpoints of a pass under way: what a killed run has to do again, at most."""

    @property
    def is_in_bucket(self) -> bool:
        """Whether `path` is no folder but a place in an object store."""
        return is_address(self.path)

    @property
    def folder(self) -> str:
        """The run's own folder."""
        if not self.is_in_bucket:
            return self.path
        return self.work or f"work/{self.path.partition('://')[2].strip('/')}"

    @model_validator(mode="after")
    def _work_is_of_a_bucket(self) -> Self:
        if self.work is not None and is_address(self.work):
            _refuse([(("work",), f"a folder that all workers see, got {self.work!r}")])
        if self.work is not None and not self.is_in_bucket:
            problem = f"only for a gram.path such as s3://bucket/gram.zarr, got {self.path!r}, a folder"
            _refuse([(("work",), problem)])
        return self


class Novelty(Section):
    """When a scored row counts as new."""

    quantile: Share = 0.99


class Limits(Section):
    """What a fit may take: of memory per process, and of disk."""

    memory: Size = parse_size("4GiB")
    disk: Size = parse_size("100GiB")
    core_hours: Annotated[float, Field(gt=0)] | None = None
    """Work by the plan's forecast, in hours of one core; null: any."""


class Models(Section):
    """The folder of published versions."""

    path: Text = "models"


class Report(Section):
    """The page about a model that a run writes at its end; needs the extra ``report``."""

    path: LocalPath = "report.html"


class Config(Section):
    """All that a run does. Relative paths are relative to the current directory."""

    name: Annotated[str, Field(pattern=_NAME)]
    """Of the model."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    data: Data
    kernel: Kernel = Kernel()
    solver: Solver = Solver()
    gram: Gram = Gram()
    nystrom: Nystrom = Nystrom()
    novelty: Novelty = Novelty()
    cluster: Cluster = Cluster()
    limits: Limits = Limits()
    models: Models = Models()
    score: Score | None = None
    report: Report | None = None
    refit: Refit = Refit()
    tune: Tune = Tune()

    @model_validator(mode="after")
    def _paths_are_apart(self) -> Self:
        inputs: dict[Key, str] = {("data", "train", "path"): self.data.train.path}
        outputs: dict[Key, str] = {
            ("gram", "path"): self.gram.path,
            ("models", "path"): f"{self.models.path}/{self.name}",
        }
        if self.gram.is_in_bucket:
            outputs["gram", "work"] = self.gram.folder
        if isinstance(self.nystrom.landmarks, LandmarkRows):
            inputs["nystrom", "landmarks", "path"] = self.nystrom.landmarks.path
        if self.score is not None:
            inputs["score", "input", "path"] = self.score.input.path
            outputs["score", "output"] = self.score.output
        if self.report is not None:
            outputs["report", "path"] = self.report.path
        _refuse(list(path_problems(inputs, outputs, stores=(("gram", "path"), ("gram", "work")))))
        return self
