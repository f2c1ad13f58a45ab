"""Who works here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kpca_stream.errors import BusyError
from kpca_stream.storage.lock import locked

HOLDER = """
import sys
from pathlib import Path
from kpca_stream.storage.lock import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it is told a line, or killed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], env=environment, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    """Whoever comes second gets an error that names the folder and the process, and tells it to wait."""
    with holder(tmp_path) as process:
        with pytest.raises(BusyError) as caught, locked(tmp_path):
            pytest.fail("two processes hold one lock")
        message = str(caught.value)
        assert str(tmp_path) in message
        assert f'"process": {process.pid}' in message
        assert f'"host": "{socket.gethostname()}"' in message
        assert "wait" in message
        assert caught.value.exit_code == 75


def test_refusal_does_not_disturb_the_holder(tmp_path: Path) -> None:
    """After one was refused the next is refused too, and is told the same holder."""
    with holder(tmp_path):
        messages = set()
        for _ in range(2):
            with pytest.raises(BusyError) as caught, locked(tmp_path):
                pass
            messages.add(str(caught.value))
        assert len(messages) == 1


def test_killed_holder_loses_it(tmp_path: Path) -> None:
    """A process that was killed holds nothing, although the file still names it."""
    with holder(tmp_path) as process:
        process.kill()
        process.wait(10)
        assert str(process.pid) in (tmp_path / "lock").read_text()
        with locked(tmp_path):
            assert json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()


def test_holder_that_ends_gives_it_back(tmp_path: Path) -> None:
    """After a holder is done the lock is free, and names nobody."""
    with holder(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(10) == 0
    assert (tmp_path / "lock").read_text() == ""
    with locked(tmp_path):
        pass


def test_same_process_is_refused_too(tmp_path: Path) -> None:
    """Two fits in one process do not share a folder either."""
    with locked(tmp_path):
        with pytest.raises(BusyError, match=f'"process": {os.getpid()}'), locked(tmp_path):
            pass
        with pytest.raises(BusyError), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_error_inside_frees_it(tmp_path: Path) -> None:
    """An exception inside passes through and leaves the lock free."""
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path):
        pass


def test_folders_have_locks_of_their_own(tmp_path: Path) -> None:
    """The lock of one folder does not hold another."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        pass
