"""A run's store in the hands of one fit, from its lock to what is left when the fit ends or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kpca_stream.addresses import Address
from kpca_stream.errors import KpcaStreamError
from kpca_stream.storage import premises
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.lock import locked
from kpca_stream.storage.tile_objects import TileObjects
from kpca_stream.storage.whole import naming


@contextmanager
def occupied(
    path: Path, note: Callable[[str], None], *, restart: bool, tiles: Address | None = None
) -> Iterator[RunStore]:
    """The run's store at `path`, locked while the block runs.

    Where the block is refused before it names its run, nothing of it stays. With `restart` the store is
    empty; what was there comes back in that case, and is removed otherwise.

    Parameters
    ----------
    path : Path
    note : callable
        Is told of leftovers that are removed.
    restart : bool
    tiles : Address, optional
        Where the tiles lie, if in a bucket; with `restart` those of before go with the first new one.

    Raises
    ------
    BusyError
        If somebody else works there.
    ConfigError, DataError
        If something else is there, or the store is damaged.
    """
    premises.check(path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path), naming(path):
        premises.settle(path)
        if restart:
            premises.set_aside(path)
        try:
            yield from _opened(path, note, None if tiles is None else TileObjects(tiles, restart))
        finally:
            premises.settle(path)


def _opened(path: Path, note: Callable[[str], None], objects: TileObjects | None) -> Iterator[RunStore]:
    store = replace(RunStore.open(path), objects=objects)
    if swept := store.sweep():
        note(f"removed {len(swept)} leftovers of interrupted writes, the first {swept[0]}")
    try:
        yield store
    except KpcaStreamError:
        if not store.identity:  # refused before the first tile: what was written is of no use
            premises.clear(path)
        raise
