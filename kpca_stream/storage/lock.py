"""Who works here: at most one process writes to a folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from kpca_stream.errors import BusyError

POLL_SECONDS = 0.01


@contextmanager
def locked(folder: Path, *, name: str = "lock", wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of `folder`, which must exist, while the block runs.

    The lock is the kernel's (``flock``), so that a dead holder loses it; the file `name` tells the holder.

    Parameters
    ----------
    folder : Path
    name : str
        Of the lock, where a folder has several.
    wait : float
        Seconds to wait for somebody else.

    Raises
    ------
    BusyError
        If somebody else holds it still.
    """
    with (folder / name).open("a+", encoding="utf-8") as file:
        if not _taken(file.fileno(), wait):
            file.seek(0)
            holder = file.read().strip() or "an unnamed process"
            raise BusyError(f"{folder} is in use by {holder}; wait for it to end, or choose another path")
        file.truncate(0)
        file.write(_name_of_this_process())
        file.flush()
        yield
        file.truncate(0)


@contextmanager
def claimed(files: Iterable[Path]) -> Iterator[frozenset[Path]]:
    """Those of some lock files that nobody else holds; they are held while the block runs.

    A dead holder loses them. The files, which are made where they are missing, stay.
    """
    with ExitStack() as stack:
        free = set()
        for path in sorted(set(files)):
            file = stack.enter_context(path.open("a"))
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free.add(path)
        yield frozenset(free)


def _taken(descriptor: int, wait: float) -> bool:
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


def _name_of_this_process() -> str:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"host": socket.gethostname(), "process": os.getpid(), "since": started})
