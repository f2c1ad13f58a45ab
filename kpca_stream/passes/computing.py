"""Some calls computed at once, on whichever scheduler is the active one."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import dask
from dask.delayed import delayed

from kpca_stream.passes.calls import Call, as_delayed, is_lazy
from kpca_stream.passes.schedulers import active_client, is_clients
from kpca_stream.passes.waiting import awaited


def compute(calls: Sequence[Call], *, of_pass: object = None, **how: Any) -> Sequence[Any]:
    """Results of `calls`; without words to the scheduler a single one runs in the caller, without a graph.

    Who waits for them as part of a pass can be forsaken with it.
    """
    if not how and _is_trivial(calls):
        return [calls[0].function(*calls[0].arguments)]
    keeping = [call for call in calls if call.keeps]
    if not keeping:
        return _computed([as_delayed(call) for call in calls], of_pass, how)
    pairs = _persisted([as_delayed(call) for call in keeping], how)
    kept = iter(_persisted([delayed(operator.itemgetter(0))(pair) for pair in pairs], how))
    second = iter([delayed(operator.itemgetter(1))(pair) for pair in pairs])
    found = _computed([next(second) if call.keeps else as_delayed(call) for call in calls], of_pass, how)
    return [(next(kept), part) if call.keeps else part for call, part in zip(calls, found, strict=True)]


def shared(value: Any) -> Any:
    """What many calls take as an argument, made ready for that.

    Of a client's workers each gets it once, and not with every task; it stays with them as long as the caller
    holds on to the result. On threads it is the value itself.
    """
    if not is_clients():
        return value
    from distributed import futures_of

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):  # it is sent once
        held = _persisted([delayed(value, name=f"shared-{uuid.uuid4().hex}", traverse=False)], {})[0]
    futures = futures_of(held)
    awaited(futures)
    # Tasks go where what they take is: to all workers. The errors are Dask's where one of these goes
    # meanwhile: whoever has not got the value fetches it with its first task.
    with suppress(ValueError, AssertionError):
        active_client().replicate(futures)
    return held


def _computed(graphs: Sequence[Any], of_pass: object, how: dict[str, Any]) -> Sequence[Any]:
    if is_clients():
        return _brought_home(active_client(), graphs, of_pass)
    return tuple(dask.compute(*graphs, **how))  # type: ignore[attr-defined,no-untyped-call]


def _brought_home(client: Any, graphs: Sequence[Any], of_pass: object) -> Sequence[Any]:
    """Results as they come: one that is here is not lost with the worker that made it."""
    from distributed import as_completed

    futures, direct = client.compute(list(graphs)), dask.config.get("kpca_stream.direct", None)
    awaited(futures, of_pass)
    results: dict[Any, Any] = {}
    # Not with_results: as_completed waits for ever for a result that is lost and cannot be made again.
    for batch in as_completed(futures).batches():
        finished = {future.key: future for future in batch if future.status == "finished"}
        if finished:  # Dask asks the scheduler also for nothing, and waits for one that is gone
            results.update(client.gather(finished, direct=direct))
        for future in finished.values():
            future.release()
    for future in futures:
        if future.key not in results:
            results[future.key] = client.gather(future)  # or raises what went wrong first
    return tuple(results[future.key] for future in futures)


def _persisted(graphs: Sequence[Any], how: dict[str, Any]) -> Sequence[Any]:
    return tuple(dask.persist(*graphs, **how))  # type: ignore[attr-defined,no-untyped-call]


def _is_trivial(calls: Sequence[Call]) -> bool:
    return len(calls) == 1 and not any(map(is_lazy, calls[0].arguments)) and not is_clients()
