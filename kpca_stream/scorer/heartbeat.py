"""How a scorer that follows is getting on: a status file, and counters for Prometheus."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from kpca_stream.addresses import Location, located
from kpca_stream.config.score_schema import Metrics, Score
from kpca_stream.errors import ConfigError
from kpca_stream.storage.deliveries import Delivery
from kpca_stream.storage.ledger import Entry, ScoredPart
from kpca_stream.storage.located import tell

QUIET_SECONDS = 1.0


@dataclass
class Done:
    """What a scorer did since it started."""

    looks: int = 0
    files: int = 0
    parts: int = 0
    rows: int = 0
    novel: int = 0
    set_aside: int = 0
    lag_seconds: float = 0.0
    """Between the last change of the file entered last and its entry."""
    last_success: float | None = None
    """When a file was entered last, in seconds since 1970."""

    def add(self, delivery: Delivery, entry: Entry, new: tuple[ScoredPart, ...]) -> None:
        """Count a file that was entered, with the parts that are new."""
        if entry.fault is not None:
            self.set_aside += 1
            return
        self.files += bool(new)
        self.parts += len(new)
        self.rows += sum(part.n_rows for part in new)
        self.novel += sum(part.n_novel for part in new)
        self.lag_seconds = max(0.0, entry.at - delivery.changed) if delivery.changed else 0.0
        self.last_success = entry.at


@dataclass
class Heart:
    """Writes the status file whenever it beats.

    Parameters
    ----------
    place : Path or Address
        Of the status.
    model : str
    done : Done
    gauges : dict
        Those of Prometheus, by the names in the status.
    port : int or None
        Where they are served.
    """

    place: Location
    model: str
    done: Done
    gauges: dict[str, Any]
    port: int | None = None
    started: float = field(default_factory=time.time)
    told: tuple[str, float] = ("", 0.0)

    @classmethod
    @contextmanager
    def of(cls, asked: Score, model: str, status: Location, done: Done) -> Iterator[Heart]:
        """The heart of a scorer; a server for Prometheus, where one is asked for, runs as long.

        `status` is where it tells, unless the configuration says where.
        """
        place = status if asked.status is None else located(asked.status)
        with ExitStack() as stack:
            gauges, port = (
                ({}, None) if asked.metrics is None else stack.enter_context(_served(asked.metrics, model))
            )
            yield cls(place, model, done, gauges, port)

    def beat(self, state: str, waiting: int) -> None:
        """Tell that the scorer lives: what it does, and how many files wait for it.

        That it goes on with the same is told once a second, since each time may be a request.
        """
        now = time.time()
        if state == "scoring" == self.told[0] and 0 <= now - self.told[1] < QUIET_SECONDS:
            return
        self.told = state, now
        numbers = {
            **asdict(self.done),
            "waiting": waiting,
            "rows_per_second": self.done.rows / max(now - self.started, 1e-9),
            "heartbeat": now,
        }
        who = {"process": os.getpid(), "host": socket.gethostname(), "started": self.started}
        tell(self.place, {"state": state, "model": self.model, **who, **numbers})
        for name, gauge in self.gauges.items():
            gauge.set(numbers[name] or 0)


@contextmanager
def _served(asked: Metrics, model: str) -> Iterator[tuple[dict[str, Any], int]]:
    try:
        from prometheus_client import CollectorRegistry, Gauge, start_http_server
    except ModuleNotFoundError as error:
        raise ConfigError(
            "score.metrics: needs prometheus-client, which is missing; pip install 'kpca-stream[metrics]'"
        ) from error
    registry = CollectorRegistry()
    gauges = {
        name: Gauge(f"kpca_stream_{name}", text, ["model"], registry=registry).labels(model)
        for name, text in _HELP.items()
    }
    server, thread = start_http_server(asked.port, asked.host, registry)
    try:
        yield gauges, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_HELP = {
    "looks": "Looks at the input since the start",
    "files": "Files scored since the start",
    "rows": "Rows scored since the start",
    "novel": "Novel rows among these",
    "set_aside": "Files set aside since the start",
    "waiting": "Files that wait",
    "lag_seconds": "From the last change of the file scored last to its entry",
    "last_success": "When a file was scored last, in seconds since 1970",
    "rows_per_second": "Rows scored a second since the start",
    "heartbeat": "When the scorer told last that it lives, in seconds since 1970",
}
