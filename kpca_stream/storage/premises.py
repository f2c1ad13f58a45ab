"""The folder of a run's store: what may lie in it, what is cleared, set aside and brought back.

A restart must not cost the run of before until the new one has begun. So what is there is moved into a folder
of its own, and removed once the store is claimed. In each step the description moves or goes so that an
interruption anywhere leaves a state that `settle` knows how to end.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import zarr

from kpca_stream.errors import ConfigError
from kpca_stream.storage.damage import FAULTS
from kpca_stream.storage.whole import remove

DESCRIPTION = "zarr.json"
PUBLISHED = ("vectors", "landmarks")
"""Arrays that workers read while a run is under way, each in a file."""
CONTENTS = (
    *("rows", "tiles", "row_means", "diagonal", "weights", "checkpoints"),
    *(f"{name}.npy" for name in PUBLISHED),
    DESCRIPTION,
)
"""All that a run leaves in its store, but the lock; the description, which names the run, goes last."""
ASIDE = ".before-restart"
PARTIAL = "*.partial"
UNNAMED_TILES = (
    "has tiles, but does not say of which data and kernel; fit with --restart, or remove the store"
)


def check(path: Path) -> None:
    """Refuse a path where something other than a run's store is.

    Raises
    ------
    ConfigError
        If there is.
    """
    if not path.exists() or (path / DESCRIPTION).exists():
        return
    if path.is_file() or any(not _is_of_a_beginning(entry.name) for entry in path.iterdir()):
        raise ConfigError(
            f"{path} is not a run's store (it has no zarr.json); choose a new path as gram.path"
        )


def has_only_begun(path: Path) -> bool:
    """Whether there is what a fit leaves that was refused, or killed, before it described its store."""
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    return "lock" in names and all(map(_is_of_a_beginning, names))


def clear(path: Path) -> None:
    """Remove all that a run left in the store at `path`, which must be locked; what is set aside stays.

    Raises
    ------
    ConfigError
        If anything else is there; then nothing is removed.
    """
    _refuse_others(path)
    for name in CONTENTS:
        remove(path / name)


def set_aside(path: Path) -> None:
    """Move all that earlier runs left in the store at `path`, which must be locked and settled.

    Raises
    ------
    ConfigError
        If anything else is there; then nothing is moved.
    """
    _refuse_others(path)
    (path / ASIDE).mkdir(exist_ok=True)
    for name in CONTENTS:
        if (path / name).exists():
            (path / name).replace(path / ASIDE / name)


def settle(path: Path) -> None:
    """Bring back what was set aside, or remove it where a run has begun since; `path` must be locked."""
    aside = path / ASIDE
    if not aside.exists():
        return
    if (aside / DESCRIPTION).exists():
        if _has_begun(path):
            forget(path)
            return
        clear(path)
        (aside / DESCRIPTION).replace(path / DESCRIPTION)
    for entry in list(aside.iterdir()):
        entry.replace(path / entry.name)
    aside.rmdir()


def forget(path: Path) -> None:
    """Remove what was set aside, if anything was."""
    aside = path / ASIDE
    if aside.exists():
        for name in CONTENTS:
            remove(aside / name)
        aside.rmdir()


def is_of_others(group: zarr.Group) -> bool:
    """Whether a group has attributes, but none of a run."""
    return bool(set(group.attrs)) and not group.attrs.get("identity")


def _has_begun(path: Path) -> bool:
    """Whether the store names its run; one that cannot be read names none."""
    try:
        return bool(zarr.open_group(path, mode="r").attrs.get("identity"))
    except FAULTS:
        return False


def _refuse_others(path: Path) -> None:
    check(path)
    others = sorted(entry.name for entry in path.iterdir() if not _is_of_a_store(entry.name))
    if others or _holds_group_of_others(path):
        what = f"it holds {others[0]}" if others else "it is another Zarr group"
        raise ConfigError(
            f"{path} is not a run's store ({what}), so that nothing is removed; choose a new path as "
            "gram.path, or move the rest away"
        )


def _holds_group_of_others(path: Path) -> bool:
    try:
        return (path / DESCRIPTION).exists() and is_of_others(zarr.open_group(path, mode="r"))
    except FAULTS:  # a damaged description among nothing but the contents of a store
        return False


def _is_of_a_beginning(name: str) -> bool:
    """Whether a store that was never begun, or was removed, may hold an entry of this name."""
    return name in ("lock", ASIDE) or fnmatch(name, PARTIAL)


def _is_of_a_store(name: str) -> bool:
    return name in CONTENTS or _is_of_a_beginning(name)
