"""What is read and what is written must lie apart, or one destroys the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath

from kpca_stream.addresses import address_problem, is_address

Key = tuple[str, ...]
PathProblem = tuple[Key, str]


def path_problems(
    inputs: Mapping[Key, str], outputs: Mapping[Key, str], *, stores: Collection[Key]
) -> Iterator[PathProblem]:
    """Yield each output that is, or lies inside, what is read, and what lies inside a store.

    Parameters
    ----------
    inputs, outputs : mapping
        From keys of the configuration to paths, or addresses in buckets; data sets by name are left out.
    stores : collection of tuple of str
        Keys of the outputs that belong to a run alone.
    """
    for key, text in {**inputs, **outputs}.items():
        if is_address(text) and (problem := address_problem(text)) is not None:
            yield key, problem
    read = {key: place for key, text in inputs.items() if (place := _place(text)) is not None}
    written = {key: place for key, text in outputs.items() if (place := _place(text)) is not None}
    for key, place in written.items():
        for other, source in read.items():
            if place == source or source in place.parents:
                yield key, _message(outputs[key], other, inputs[other])
    for key, place in (*read.items(), *written.items()):
        for store in (store for store in stores if store != key and store in written):
            if written[store] in place.parents or (key in written and place == written[store]):
                yield key, _message({**inputs, **outputs}[key], store, outputs[store])


def _message(got: str, other: Key, place: str) -> str:
    return f"at or inside {'.'.join(other)}, which is {place}, got {got!r}, expected a place of its own"


def _place(text: str) -> PurePath | None:
    """Where `text` lies: below the root of this machine, or of a bucket."""
    if text.startswith("sklearn:"):
        return None
    if is_address(text):
        scheme, _, rest = text.partition("::")[0].partition("://")
        return PurePosixPath(f"{scheme}:", *rest.strip("/").split("/"))
    return Path(text.partition("::")[0]).resolve()
