"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kpca_stream.storage.whole import folder_size, naming, remove, written_whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until the block ends what lay there stays; then the new content takes its name, alone."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError(), OSError(errno.ENOSPC, "no room")])
def test_a_failure_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    """Whatever ends the block, the old content stays and nothing is left of the new one."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail() -> None:
        with written_whole(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    """Two that write at once leave the whole content of the one that ends last."""
    path = tmp_path / "a.bin"
    with written_whole(path) as first:
        first.write(b"first")
        with written_whole(path) as second:
            second.write(b"second, longer")
    assert path.read_bytes() == b"first"


def test_failures_without_a_name_get_one(tmp_path: Path) -> None:
    """An error of the system is given the name of the file; one that has a name keeps it."""
    path = tmp_path / "a.bin"
    with pytest.raises(OSError, match="no room") as caught, naming(path):
        raise OSError(errno.ENOSPC, "no room")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(FileNotFoundError) as missing, naming(path):
        (tmp_path / "other").read_bytes()
    assert missing.value.filename == str(tmp_path / "other")
    with pytest.raises(OSError, match="of another kind") as plain, naming(path):
        raise OSError("of another kind")
    assert plain.value.filename is None


def test_what_goes_while_a_folder_is_measured_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders and files that somebody else takes away meanwhile are left out of its size."""
    (tmp_path / "goes").mkdir()
    for name, content in (("stays", b"12345"), ("goes/inner", b"678")):
        (tmp_path / name).write_bytes(content)
    assert folder_size(tmp_path) == 8
    scandir = os.scandir

    def late(path: Any) -> Any:
        if str(path) == str(tmp_path / "goes"):
            remove(tmp_path / "goes")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    assert folder_size(tmp_path) == 5
    assert folder_size(tmp_path / "missing") == 0


def test_anything_is_removed(tmp_path: Path) -> None:
    """A file, a folder, and a link (not what it leads to) go; what is not there is no error."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("folder", "file", "link", "missing"):
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
