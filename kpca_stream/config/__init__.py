"""YAML → checked, frozen values; all mistakes of a file at once, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kpca_stream.config import document, problems
from kpca_stream.config.absolute import absolute
from kpca_stream.config.cluster_schema import Adapt, Cluster, Kubernetes, Slurm, Tls
from kpca_stream.config.refit_schema import Gate, Refit, When
from kpca_stream.config.schema import (
    Config,
    Data,
    Gram,
    Kernel,
    LandmarkRows,
    LandmarksOf,
    Limits,
    Models,
    Novelty,
    Nystrom,
    Solver,
    Train,
    parse_size,
)
from kpca_stream.config.score_schema import Score, ScoreInput
from kpca_stream.config.tune_schema import Around, Labels, Tune
from kpca_stream.config.values import parse_share
from kpca_stream.errors import ConfigError

__all__ = [
    "Adapt",
    "Around",
    "Cluster",
    "Config",
    "Data",
    "Gate",
    "Gram",
    "Kernel",
    "Kubernetes",
    "Labels",
    "LandmarkRows",
    "LandmarksOf",
    "Limits",
    "Models",
    "Novelty",
    "Nystrom",
    "Refit",
    "Score",
    "ScoreInput",
    "Slurm",
    "Solver",
    "Tls",
    "Train",
    "Tune",
    "When",
    "json_schema",
    "load_config",
    "parse_share",
    "parse_size",
]


def load_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    further: Callable[[Config], Iterable[tuple[document.Key, str]]] = lambda _: (),
) -> Config:
    """Read and check the configuration at `path`.

    Parameters
    ----------
    path : str or Path
        A YAML file.
    overrides : sequence of str
        Settings ``section.key=value`` on top of the file, the value in YAML's syntax.
    further : callable, optional
        Gives what else is wrong with it: keys, and what, got and expected.

    Returns
    -------
    Config
        Its paths are absolute where workers may have another current folder.

    Raises
    ------
    ConfigError
        With a line ``file:line:column: key: what, got VALUE, expected ...`` for every mistake.
    """
    raw = document.read(path)
    document.override(raw, overrides)
    try:
        config = Config.model_validate(raw.values)
    except ValidationError as error:
        raise ConfigError("\n".join(problems.describe(error, raw))) from None
    lines = [problems.line(key, message, raw) for key, message in further(config)]
    if lines:
        raise ConfigError("\n".join(lines))
    return absolute(config) if config.cluster.is_elsewhere else config


def json_schema() -> dict[str, Any]:
    """JSON Schema of a configuration, for editors."""
    schema = Config.model_json_schema()
    return schema | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kpca-stream configuration",
    }
