"""Bytes that went through the sockets of processes, as the kernel counted them."""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from distributed import get_client

INFO_BYTES, COUNTS_AT = 256, 120
"""Of ``struct tcp_info`` in <linux/tcp.h>: bytes that the peer has acknowledged, and those received."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that some processes received, and those that they sent."""

    received: int
    sent: int

    def __add__(self, other: Traffic) -> Self:
        return type(self)(self.received + other.received, self.sent + other.sent)

    def __sub__(self, other: Traffic) -> Self:
        return type(self)(self.received - other.received, self.sent - other.sent)


def of_this_process() -> Traffic:
    """Of all connections that are open now; those that were closed are not counted any more."""
    return sum((_of(int(path.name)) for path in Path("/proc/self/fd").iterdir()), Traffic(0, 0))


def _of(descriptor: int) -> Traffic:
    with suppress(OSError):  # closed meanwhile, or listening only
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as opened:
                if opened.type == socket.SOCK_STREAM and opened.family in (socket.AF_INET, socket.AF_INET6):
                    info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
                    sent, received = struct.unpack_from("QQ", info, COUNTS_AT)
                    return Traffic(received, sent)
    return Traffic(0, 0)


def of_workers(work: Callable[[], Any]) -> Traffic:
    """What the workers of the active client received and sent, all together, while `work` was done."""
    client = get_client()
    before = client.run(of_this_process)
    work()
    after = client.run(of_this_process)
    return sum((after[worker] - before[worker] for worker in after), Traffic(0, 0))
