"""A place of keys and bytes, as an object store is one: puts under conditions, and no renames."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock


class Objects:
    """Objects in memory; `busy` is called before each swap, as if somebody else were there first."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.lock = Lock()
        self.busy: Callable[[], None] = lambda: None

    def names(self, key: str) -> list[str]:
        below = (k.removeprefix(f"{key}/").partition("/")[0] for k in self.objects if k.startswith(f"{key}/"))
        return list(dict.fromkeys(below))

    def read(self, key: str) -> bytes | None:
        return self.objects.get(key, (None, 0.0))[0]

    def modified(self, key: str) -> float:
        return self.objects.get(key, (b"", 0.0))[1]

    def swap(self, key: str, data: bytes, expected: bytes | None, *, needs: str) -> bool:
        self.busy()
        with self.lock:
            if self.read(key) != expected or needs not in self.objects:
                return False
            self.objects[key] = data, time.time()
        return True

    @contextmanager
    def making(self, key: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=Path(key).name) as folder:
            yield Path(folder)

    def adopt(self, folder: Path, key: str) -> bool:
        """Object by object, the manifest last, once the number is claimed."""
        with self.lock:
            if f"{key}/claim" in self.objects:
                return False
            self.objects[f"{key}/claim"] = b"", time.time()
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in sorted(files, key=lambda path: path.name == "manifest.json"):
            self.objects[f"{key}/{path.relative_to(folder)}"] = path.read_bytes(), path.stat().st_mtime
        return True

    def take_away(self, key: str, unless: Callable[[], bool]) -> bool:
        """The manifest first, so that the rest counts no more."""
        with self.lock:
            if unless():
                return False
            self.objects.pop(f"{key}/manifest.json", None)
        for name in [name for name in self.objects if name == key or name.startswith(f"{key}/")]:
            del self.objects[name]
        return True

    def sweep(self, key: str) -> None:
        for name in [name for name in self.objects if name.startswith(f"{key}/")]:
            version = name.split("/")[1]
            if f"{key}/{version}/manifest.json" not in self.objects:
                del self.objects[name]
