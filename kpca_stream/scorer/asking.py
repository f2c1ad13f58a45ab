"""What a configuration asks of a scorer, and where the scores go."""

from __future__ import annotations

from pathlib import Path

from kpca_stream.addresses import is_address, located
from kpca_stream.config import Config
from kpca_stream.config.absolute import absolute_path
from kpca_stream.config.score_schema import Score
from kpca_stream.errors import ConfigError
from kpca_stream.storage.bucket_shelf import BucketShelf
from kpca_stream.storage.inbox import is_single
from kpca_stream.storage.shelf import FolderShelf, Shelf


def score_of(config: Config) -> Score:
    """The section `score`.

    Raises
    ------
    ConfigError
        If there is none, or it asks for Zarr where that cannot be had.
    """
    asked = config.score
    if asked is None:
        raise ConfigError("score: missing section, expected input and output; add it to the configuration")
    if asked.format == "zarr" and (asked.carry or not is_single(asked.input.path)):
        raise ConfigError(
            "score.format: got zarr, whose row i belongs to row i of one file or array, with nothing carried "
            "through; expected such an input, or parquet"
        )
    if asked.format == "zarr" and is_address(asked.output):
        raise ConfigError(
            f"score.format: got zarr for {asked.output}; a bucket takes parquet: scores in Zarr are written "
            "over in place, which two scorers at once must not do without a lock"
        )
    return asked


def shelf_of(config: Config, asked: Score) -> Shelf:
    """Where its scores lie, with the ledger begun.

    Raises
    ------
    ConfigError
        If scores of something else lie there.
    """
    premises = {
        "model": config.name,
        "input": absolute_path(asked.input.path).rstrip("/"),
        "rows": asked.input.rows,
        "columns carried": [
            name if kind == "stored" else f"{name}: {kind}" for name, kind in asked.carry.items()
        ],
        "format": asked.format,
    }
    output = located(asked.output)
    shelf: Shelf = (
        FolderShelf.of(output, is_zarr=asked.format == "zarr")
        if isinstance(output, Path)
        else BucketShelf(output)
    )
    shelf.ledger.begin(premises)
    return shelf
