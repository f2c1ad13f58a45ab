"""Buckets on loopback, in a process of their own, whose answers fail and stall as they are told to.

Run as a program it serves moto's S3 and prints its port. In front of it stands what makes requests fail:
some are answered with 503, some are done and never answered, some wait for a second. What a request gets
depends on the seed and on how many came before it.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote
from urllib.request import Request, urlopen

import pytest

KEY, SECRET = "key-of-tests", "secret-of-tests"
STALL_SECONDS = 1.0
CONTROL = "/_faults"


@dataclass(frozen=True)
class Buckets:
    """Where they are served."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach them."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def make(self, name: str | None = None) -> str:
        """A new bucket's name."""
        name = name or f"kpca-{uuid.uuid4().hex[:12]}"
        urlopen(Request(f"{self.endpoint}/{name}", method="PUT", headers=_signed())).close()  # noqa: S310
        return name

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """An object of any key, as another program puts it."""
        place = f"{self.endpoint}/{bucket.removeprefix('s3://')}/{quote(key)}"
        headers = _signed() | {"Content-Type": "application/octet-stream"}
        urlopen(Request(place, data=data, method="PUT", headers=headers)).close()  # noqa: S310

    def fail(self, failing: float = 0, lost: float = 0, stalling: float = 0, seed: int = 0) -> None:
        """From now on these shares of requests are refused, done without an answer, and late."""
        query = f"failing={failing}&lost={lost}&stalling={stalling}&seed={seed}"
        urlopen(f"{self.endpoint}{CONTROL}?{query}").close()  # noqa: S310

    def counts(self) -> Counter[str]:
        """Requests since by method, those that failed by how, and bytes of answers."""
        with urlopen(f"{self.endpoint}{CONTROL}") as answer:  # noqa: S310
            return Counter(json.load(answer))


@pytest.fixture(scope="session")
def all_buckets() -> Iterator[Buckets]:
    """A server of buckets."""
    for name in ("moto", "flask_cors", "obstore"):
        pytest.importorskip(name, reason="needs the packages of the extra test")
    with subprocess.Popen(
        [sys.executable, str(Path(__file__))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, "the server of buckets does not start"
            yield Buckets(f"http://127.0.0.1:{port}")
        finally:
            process.kill()


@pytest.fixture
def buckets(all_buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """The same, answering always, which the environment tells of."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in all_buckets.environment.items():
        monkeypatch.setenv(name, value)
    all_buckets.fail()
    yield all_buckets
    all_buckets.fail()


@pytest.fixture
def bucket(buckets: Buckets) -> str:
    """The address of a new bucket."""
    return f"s3://{buckets.make()}"


class Faults:
    """What stands in front of an application."""

    def __init__(self, served: Callable[..., Iterable[bytes]]) -> None:
        self.served = served
        self.lock, self.writing = Lock(), Lock()
        self.set(failing=0, lost=0, stalling=0, seed=0)

    def set(self, *, failing: float, lost: float, stalling: float, seed: float) -> None:
        self.shares = {"failing": failing, "lost": lost, "stalling": stalling}
        self.random = random.Random(int(seed))  # noqa: S311
        self.counts: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            return self._control(environ, start)
        fault = self._drawn(environ["REQUEST_METHOD"])
        if f"Credential={KEY}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return _error(environ, start, "403 Forbidden", "InvalidAccessKeyId")
        if fault == "failing":
            return _error(environ, start, "503 Service Unavailable", "SlowDown")
        if fault == "stalling":
            time.sleep(STALL_SECONDS)
        with self.writing if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            answer = self.served(environ, start)  # moto looks at a condition and puts in two steps
        answer = list(answer)
        with self.lock:
            self.counts["bytes"] += sum(map(len, answer))
        if fault == "lost":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        return answer

    def _drawn(self, method: str) -> str | None:
        with self.lock:
            at, fault = self.random.random(), None
            for name, share in self.shares.items():
                if fault is None and at < share:
                    fault = name
                at -= share if fault is None else 0
            self.counts.update([method] if fault is None else [method, fault])
        return fault

    def _control(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        asked = {name: float(values[0]) for name, values in parse_qs(environ["QUERY_STRING"]).items()}
        with self.lock:
            if asked:
                self.set(**asked)
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self.counts).encode()]


def _error(environ: dict[str, Any], start: Callable[..., Any], status: str, code: str) -> Iterable[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()]


def _signed() -> dict[str, str]:
    scope = f"{KEY}/20260101/us-east-1/s3/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    served = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, served, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
