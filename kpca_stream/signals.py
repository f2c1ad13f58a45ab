"""How a process is asked to end, what must not be cut short by that, and what is not waited for then."""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 1.0
"""At the end of a process, for what was begun apart: Python up to 3.13 aborts where a thread comes back from
a library in Rust while the interpreter goes."""

_apart: set[Future[Any]] = set()


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


def begun_apart(function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> Future[T]:
    """The result to come of a call in a thread of its own, which can be left: a process ends without it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            result = function(*arguments, **keywords)
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        else:
            future.set_result(result)

    _apart.add(future)
    future.add_done_callback(_apart.discard)
    threading.Thread(target=work, daemon=True).start()
    return future


def interruptible(function: Callable[P, T]) -> Callable[P, T]:
    """Make `function`, which waits outside of Python, end at once by a signal where the main thread calls it.

    Handlers run in the main thread, and only while it is in Python: what waits for an answer of the network
    would hold Ctrl-C for minutes. For what only reads: what was asked for goes on, and may still be done.
    """

    @wraps(function)
    def called(*arguments: P.args, **keywords: P.kwargs) -> T:
        if threading.current_thread() is not threading.main_thread():
            return function(*arguments, **keywords)
        return begun_apart(function, *arguments, **keywords).result()

    return called


@atexit.register
def _wait_for_those_apart() -> None:
    wait(list(_apart), GRACE_SECONDS)
