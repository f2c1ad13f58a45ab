"""How a process is asked to end, and what must not be cut short by that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(BaseException):
    """SIGTERM came: everything that is open is closed on the way out."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn the first SIGTERM into `Terminated`; later ones do not disturb the cleaning up."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  the signal module's signature
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Have SIGTERM and SIGINT wait until the block, which must be short, is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signal module's signature
        came.append(number)

    numbers: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)
