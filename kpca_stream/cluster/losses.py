"""What can happen to a cluster while it works, and what it means to the one who called.

A scheduler that is gone and workers that do not come back are a cluster that may be there another time; a
task that ends every worker it runs on is a failure, and is named.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kpca_stream.errors import BusyError, ConfigError, KpcaStreamError, KpcaStreamWarning
from kpca_stream.passes import ANYTHING, FORSAKE_SECONDS, forsake, name_of_task

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")

LOOK_SECONDS = 1.0
LOUD = ("distributed", "distributed.client")
"""Loggers that Dask gives a level of their own."""


@contextmanager
def turned_away(what: str) -> Iterator[None]:
    """Tell errors of starting and connecting as a cluster that may be there another time.

    The errors of Dask's handshake and of the libraries below it have no common type.

    Raises
    ------
    ConfigError
        Where something cannot be imported, or its versions do not go together.
    BusyError
    """
    try:
        yield
    except KpcaStreamError:
        raise
    except ImportError as error:
        raise ConfigError(
            f"{what}, got: {_one_line(error)}; expected packages whose versions go together: "
            "install the same ones wherever the cluster's processes run"
        ) from error
    except ANYTHING as error:
        raise BusyError(f"{what}, got: {_one_line(error)}; try again, or look whether it is up") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Dask's log lines: what goes wrong is raised, and told once."""
    loggers = [logging.getLogger(name) for name in LOUD]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextmanager
def closed_after(context: AbstractContextManager[T]) -> Iterator[T]:
    """What `context` opens, closed with the block; closing may fail, and neither hides an error nor is one.

    Dask's clients and clusters that have just lost something fail to close in ways of their own.

    Warns
    -----
    KpcaStreamWarning
        Where closing failed after a block that did not.
    """
    stack = ExitStack()
    opened = stack.enter_context(context)
    try:
        yield opened
    except BaseException:
        with suppress(*ANYTHING):  # the error of the block is the one to tell
            stack.close()
        raise
    try:
        stack.close()
    except ANYTHING as error:
        what = f"the cluster could not be closed, got: {_one_line(error)}; look whether it still runs"
        warnings.warn(what, KpcaStreamWarning, stacklevel=2)


class Watch:
    """Looks whether there are workers at all; without any for too long nobody waits for them any more.

    Parameters
    ----------
    client : distributed.Client
    seconds : float
        How long there may be none.
    problem : callable
        Says why none will come, if that is known.
    """

    def __init__(self, client: Client, seconds: float, problem: Callable[[], str | None]) -> None:
        self.client, self.seconds, self.problem = client, seconds, problem
        self.lost: str | None = None
        self._ended = threading.Event()

    @contextmanager
    def over(self) -> Iterator[None]:
        """Watch the workers while the block runs."""
        thread = threading.Thread(target=self._look, args=(self.client,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    @property
    def is_over(self) -> bool:
        """Whether the client has lost its scheduler, or was given up for want of workers."""
        return self.lost is not None or self.client.status != "running"

    def _look(self, client: Client) -> None:
        last_seen = time.monotonic()
        while self.lost is None and not self._ended.wait(min(LOOK_SECONDS, self.seconds / 4)):
            present, now = _has_workers(client), time.monotonic()
            last_seen = now if present else last_seen
            reason = None if present else self.problem()
            if reason or now - last_seen > self.seconds:
                self.lost = (
                    reason or f"no worker is left since {now - last_seen:.0f} s (cluster.wait_seconds)"
                )
        while not self._ended.wait(FORSAKE_SECONDS):
            forsake(client)


def _has_workers(client: Client) -> bool:
    """Whether the scheduler is there, and has any; a client that has lost it may find it again."""
    try:
        return client.status == "running" and bool(client.nthreads())
    except ANYTHING:  # the scheduler is gone, which the client tells
        return False


@contextmanager
def told(watch: Watch) -> Iterator[None]:
    """Raise what Dask says about lost workers and schedulers as errors of this package's."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise KpcaStreamError(_ended_all(error)) from error
    except KpcaStreamError:
        raise
    except ANYTHING as error:
        if watch.is_over or _is_loss(error):
            raise BusyError(_lost(watch, error)) from error
        raise


def _is_loss(error: BaseException) -> bool:
    from distributed.comm import CommClosedError  # type: ignore[attr-defined]

    return isinstance(error, CommClosedError | CancelledError)


def _lost(watch: Watch, error: BaseException) -> str:
    what = watch.lost or f"the scheduler is gone ({_one_line(error)})"
    return f"lost the cluster: {what}; run the same command again: it goes on where it stopped"


def _ended_all(error: Any) -> str:
    return (
        f"{name_of_task(error.task)} ended every worker it ran on, got {error.allowed_failures + 1} lost "
        f"in turn, the last {error.last_worker.address}; expected memory for it and no crash: "
        "lower limits.memory or threads_per_worker, or look at the workers' logs"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
