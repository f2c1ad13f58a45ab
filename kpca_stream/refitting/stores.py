"""Where a model's re-fits lie while they are under way: beside a fit's store, and beside its tiles' place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kpca_stream.addresses import Address
from kpca_stream.config import Config
from kpca_stream.storage import objects
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.opening import occupied
from kpca_stream.storage.whole import remove_tree
from kpca_stream.telemetry import Reporter


@dataclass(frozen=True)
class Stores:
    """A folder for each candidate and, where tiles go to a bucket, as many places there.

    Parameters
    ----------
    folder : Path
    tiles : Address or None
    """

    folder: Path
    tiles: Address | None

    @classmethod
    def of(cls, config: Config) -> Stores:
        """Those of the configured model, which are no other's."""
        # Models may share a run's store, and each is re-fitted at its own time.
        ending, gram = f"{config.name}.refit", config.gram
        tiles = Address.parse(f"{gram.path.rstrip('/')}.{ending}") if gram.is_in_bucket else None
        return cls(Path(f"{gram.folder}.{ending}"), tiles)

    def has(self, name: str) -> bool:
        """Whether a candidate was begun."""
        return (self.folder / name).exists()

    @contextmanager
    def opened(self, name: str, step: str, reporter: Reporter) -> Iterator[RunStore]:
        """A run's store of a step of a candidate; what an interrupted call left there is gone on with."""
        path = self.folder / name / f"{step}.zarr"
        path.parent.mkdir(parents=True, exist_ok=True)
        tiles = None if self.tiles is None else self.tiles / name / f"{step}.zarr"
        with occupied(path, reporter.note, restart=False, tiles=tiles) as store:
            yield store

    def clear(self, *, but: str | None = None) -> None:
        """Remove the stores of earlier candidates, but that of one."""
        if self.tiles is not None:
            for name in objects.names(self.tiles):
                if name != but:
                    objects.delete_tree(self.tiles / name)
        if self.folder.exists():
            for path in self.folder.iterdir():
                if path.name != but:
                    remove_tree(path)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()
