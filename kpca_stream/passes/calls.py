"""Tasks as functions and arguments, and as Dask's graphs."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask
from dask.delayed import delayed


class Call(NamedTuple):
    """One task: a module-level function and its arguments, all of which serialize.

    With `keeps` the function returns a pair, of which the first part stays where it was made; the result is a
    handle of that, and the second part. As an argument of other calls what a handle stands for does not move.
    What `shared` gives does so once. `label` names a call among its like, where one that fails must be found.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keeps: bool = False
    label: str = ""


@dataclass(frozen=True)
class Lazy(Sequence[Call]):
    """Calls that are made when their window is due.

    Parameters
    ----------
    n_calls : int
    make : callable
        The call of an index.
    """

    n_calls: int
    make: Callable[[int], Call]

    def __len__(self) -> int:
        """How many there are."""
        return self.n_calls

    def __getitem__(self, index: Any) -> Any:
        """Make one."""
        return self.make(range(self.n_calls)[index])


def as_delayed(call: Call) -> Any:
    """The Dask form of a call; only arguments that are Dask's own are looked into for graphs."""
    plain = tuple(itertools.takewhile(lambda argument: not is_lazy(argument), call.arguments))
    function = functools.partial(call.function, *plain)
    key = "-".join(filter(None, (call.function.__name__, call.label, uuid.uuid4().hex)))
    return delayed(function, pure=False, traverse=False)(*call.arguments[len(plain) :], dask_key_name=key)


def name_of_task(key: Any) -> str:
    """What a key of Dask's is called in messages: the call's function and its label."""
    function, _, rest = str(key).partition("-")
    return f"task {function} {rest.rpartition('-')[0]}".rstrip()


def is_lazy(argument: Any) -> bool:
    """Whether it is Dask's own: what stands for something that is, or will be, elsewhere."""
    return bool(dask.is_dask_collection(argument))  # type: ignore[attr-defined]
