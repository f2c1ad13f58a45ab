"""Results that threads of this process wait for, and how these threads learn that none will come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

ANYTHING = (Exception, asyncio.CancelledError)
"""What Dask raises for a call under way as its client loses the scheduler or is closed has no common type:
among them are CancelledError of two kinds, ClosedClientError, AttributeError and UnboundLocalError."""
FORSAKE_SECONDS = 0.05
"""Between two calls of `forsake`."""

_awaited: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
_lock = threading.Lock()


def awaited(futures: Iterable[Any], of_pass: object = None) -> None:
    """Note that a thread of this process begins to wait for Dask's `futures`, maybe as part of a pass."""
    with _lock:
        _awaited.update(dict.fromkeys(futures, of_pass))


def forsake(client: Any, of_pass: object = None) -> None:
    """Let those who wait for results of `client`, all or those of a pass, know that none will come.

    No client may be closed while a thread waits: what is handed to an event loop that is being stopped never
    returns. Who begins to wait afterwards is not told; call it until nobody waits.
    """
    with _lock:
        futures = [future for future, whose in _awaited.items() if of_pass in (None, whose)]
    pending = [future for future in futures if future.client is client and not future.done()]
    if pending:
        with suppress(*ANYTHING):  # a client that has lost its scheduler, or is closed, has told them itself
            client.cancel(pending)
