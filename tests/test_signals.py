"""What ends by a signal, and at once: waiting for answers that do not come."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from buckets import Buckets

from kpca_stream.addresses import Address
from kpca_stream.signals import GRACE_SECONDS, begun_apart, interruptible
from kpca_stream.storage import objects

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 20.0
"""Seconds; a request alone is given 60."""


@pytest.fixture
def silent_store() -> Iterator[socket.socket]:
    """What takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.mark.parametrize("command", ["models list", "verify"])
def test_a_command_that_waits_for_a_bucket_ends_by_ctrl_c(silent_store: socket.socket, command: str) -> None:
    """A store that does not answer holds nobody: exit 130, in one line, long before its requests are over."""
    pytest.importorskip("obstore")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent_store.getsockname()[1]}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key-of-tests",
        "AWS_SECRET_ACCESS_KEY": "secret-of-tests",
        "AWS_REGION": "us-east-1",
    }
    words = [sys.executable, "-m", "kpca_stream", *command.split(), "s3://bucket/models"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        connection, _ = silent_store.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1)  # the request is under way
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=180)
    assert (process.returncode, errors) == (130, "error: interrupted\n")
    assert time.monotonic() - began < LONGEST


def test_a_signal_ends_what_waits_outside_of_python() -> None:
    """The main thread is interrupted, whatever the call that it waits for does."""
    released = threading.Event()
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(released.wait)(LONGEST)
    assert time.monotonic() - began < LONGEST / 2
    released.set()


def test_what_changes_a_bucket_is_done_when_a_signal_ends_it(bucket: str, buckets: Buckets) -> None:
    """Nothing lands after the one who asked for it has gone on, for instance to remove it again."""
    address = Address.parse(bucket) / "mark"
    assert objects.head(address) is None
    buckets.fail(stalling=1)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        objects.put(address, b"")
    timer.join()
    buckets.fail()
    assert objects.head(address) is not None


def test_results_and_errors_are_those_of_the_call() -> None:
    """As if it had been called directly, and from other threads it is."""
    assert interruptible(divmod)(7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod)(7, 0)
    where = interruptible(threading.current_thread)
    assert begun_apart(lambda: where() is threading.current_thread()).result() is True
    assert where() is not threading.current_thread()


def test_a_process_ends_without_what_was_left() -> None:
    """It waits for a call that nobody waits for any more only for a while."""
    left = "import time; from kpca_stream.signals import begun_apart; begun_apart(time.sleep, 60)"
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", left], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert GRACE_SECONDS <= time.monotonic() - began < LONGEST
