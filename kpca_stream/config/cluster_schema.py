"""The section of clusters: which scheduler, how many workers, and how its processes talk to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from kpca_stream.config.values import PositiveInt, Section, expected

Kind = Literal["threads", "local", "slurm", "kubernetes", "address"]

_Text = Annotated[str, Field(min_length=1)]
_Texts = Annotated[
    tuple[_Text, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    expected("a list of texts"),
]
_Path = Annotated[_Text | None, expected("a path, or null")]
_Class = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]

_STEERED_BY = {
    "n_workers": ("threads", "local", "slurm", "kubernetes"),
    "threads_per_worker": ("local", "slurm", "kubernetes"),
    "adapt": ("local", "slurm", "kubernetes", "class"),
    "min_workers": ("local", "slurm", "kubernetes", "address", "class"),
    "wait_seconds": ("local", "slurm", "kubernetes", "address", "class"),
    "address": ("address",),
    "scheduler_file": ("address",),
    "kwargs": ("class",),
    "tls": ("local", "slurm", "address", "class"),
    "dashboard": ("local", "slurm"),
    "performance_report": ("local", "slurm", "kubernetes", "address", "class"),
    "slurm": ("slurm",),
    "kubernetes": ("kubernetes",),
}
"""The kinds on which each key has an effect; on others it is refused."""


class Adapt(Section):
    """As many workers as there is work for."""

    minimum: PositiveInt = 1
    maximum: PositiveInt

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.maximum < self.minimum:
            message = f"below minimum, got {self.maximum}, expected at least {self.minimum}"
            raise _problems([(("maximum",), message)])
        return self


class Tls(Section):
    """Encrypts what passes between client, scheduler and workers; all three show the certificate."""

    ca: _Text
    """PEM file of the authority that signed the certificate; nobody without one from it is talked to."""
    cert: _Text
    key: _Text


class Slurm(Section):
    """Jobs of Slurm's that are workers, or workers within the job that runs the command."""

    interface: _Text
    """The network interface that processes listen on; lo where every job runs on this machine."""
    form: Literal["jobs", "allocation"] = "jobs"
    """jobs: the command submits its workers; allocation: it runs in a job, and srun starts them."""
    queue: Annotated[_Text | None, expected("the name of a partition, or null")] = None
    account: Annotated[_Text | None, expected("an account, or null")] = None
    walltime: _Text = "01:00:00"
    """Of each job of a worker."""
    workers_per_job: PositiveInt = 1
    directives: _Texts = ()
    """Further options of sbatch for the jobs of workers, such as "--constraint=avx512"."""
    prologue: _Texts = ()
    """Shell commands before a worker starts, such as "module load python"."""
    srun: _Texts = ()
    """Further options of srun in an allocation."""
    log_directory: _Text = "work/logs"


class Kubernetes(Section):
    """A DaskCluster of the Dask operator's, which lives as long as the command."""

    namespace: Annotated[_Text | None, expected("a namespace, or null for the current one")] = None
    image: Annotated[_Text | None, expected("an image that holds kpca-stream, or null")] = None
    spec: _Path = None
    """A manifest of a DaskCluster instead of an image, for volumes, limits and all else."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.image is None) == (self.spec is None):
            got = "both" if self.image else "neither"
            raise _problems([(("image",), f"image or spec, got {got}, expected one of them")])
        return self


class Cluster(Section):
    """Where the tasks run."""

    model_config = ConfigDict(serialize_by_alias=True)

    kind: Kind = "threads"
    class_: Annotated[
        _Class | None, expected('a class of clusters such as "package.module.Class", or null')
    ] = Field(default=None, alias="class")
    """Any other class of Dask clusters, instead of a kind."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """What it is called with."""
    n_workers: Annotated[PositiveInt | None, expected("a whole number >= 1, or null for the default")] = None
    """Threads, or processes; null: one per processor; in an allocation of Slurm's one per task of it."""
    threads_per_worker: PositiveInt = 1
    adapt: Adapt | None = None
    """As many workers as there is work for, instead of n_workers."""
    min_workers: PositiveInt = 1
    """Begin once so many workers are there."""
    wait_seconds: Annotated[float, Field(gt=0)] = 300
    """How long to wait for min_workers, and later on without any worker, before giving up (exit 75)."""
    address: Annotated[_Text | None, expected("an address such as tcp://host:8786, or null")] = None
    """Of a scheduler that runs; without it scheduler_file, or the variable DASK_SCHEDULER_ADDRESS."""
    scheduler_file: _Path = None
    """What ``dask scheduler --scheduler-file`` wrote."""
    tls: Tls | None = None
    dashboard: Annotated[str, Field(pattern=r"^[^:]*:\d+$"), expected("HOST:PORT")] = "127.0.0.1:0"
    """Where the scheduler serves its pages; port 0: any that is free."""
    performance_report: _Path = None
    """Where Dask's report of what every worker did is written; an HTML file."""
    slurm: Slurm | None = None
    kubernetes: Kubernetes | None = None

    @property
    def form(self) -> str:
        """The kind, or ``class``."""
        return self.kind if self.class_ is None else "class"

    @property
    def is_elsewhere(self) -> bool:
        """Whether workers may have another current folder than this process."""
        return self.form not in {"threads", "local"}

    @property
    def most_workers(self) -> int | None:
        """How many processes there will be at most; None where that is not said."""
        return self.adapt.maximum if self.adapt else self.n_workers

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        problems = list(self._problems())
        if problems:
            raise _problems(problems)
        return self

    def _problems(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.class_ is not None and self.kind != "threads":
            yield ("class",), f"both class and kind, got kind {self.kind}, expected one of them"
        for key, forms in _STEERED_BY.items():
            field = type(self).model_fields[key]
            changed = getattr(self, key) != field.get_default(call_default_factory=True)
            if changed and self.form not in forms:
                yield (key,), f"without effect here, got kind {self.form}, expected {' or '.join(forms)}"
        for kind in ("slurm", "kubernetes"):
            if self.form == kind and getattr(self, kind) is None:
                yield (kind,), f"missing section, got none, expected {kind}: {{...}} for kind {kind}"
        yield from self._number_problems()

    def _number_problems(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.adapt is not None and self.n_workers is not None:
            yield (
                ("adapt",),
                f"both adapt and n_workers, got n_workers {self.n_workers}, expected one of them",
            )
        if self.adapt is not None and self.slurm is not None and self.slurm.form == "allocation":
            yield ("adapt",), "an allocation has its size, got adapt, expected n_workers or null"
        if self.address is not None and self.scheduler_file is not None:
            yield ("address",), "both address and scheduler_file, got both, expected one of them"
        if self.most_workers is not None and self.min_workers > self.most_workers:
            yield ("min_workers",), f"too many, got {self.min_workers}, expected at most {self.most_workers}"


def _problems(problems: list[tuple[tuple[str, ...], str]]) -> PydanticCustomError:
    return PydanticCustomError("problems", "{problems}", {"problems": problems})
