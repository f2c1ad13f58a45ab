"""What is read and what is written must lie apart, or one destroys the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

Key = tuple[str, ...]
PathProblem = tuple[Key, str]


def path_problems(
    inputs: Mapping[Key, str], outputs: Mapping[Key, str], *, store: Key
) -> Iterator[PathProblem]:
    """Yield each output that is, or lies inside, what is read, and what lies inside the store.

    Parameters
    ----------
    inputs, outputs : mapping
        From keys of the configuration to paths; inputs that are no local files are left out.
    store : tuple of str
        The key of the output whose folder belongs to a run alone.
    """
    read = {key: place for key, text in inputs.items() if (place := _local(text)) is not None}
    written = {key: Path(text).resolve() for key, text in outputs.items()}
    for key, place in written.items():
        for other, source in read.items():
            if place == source or source in place.parents:
                yield key, _message(outputs[key], other, inputs[other])
    for key, place in (*read.items(), *written.items()):
        is_other_output = key in written and key != store
        if written[store] in place.parents or (is_other_output and place == written[store]):
            yield key, _message({**inputs, **outputs}[key], store, outputs[store])


def _message(got: str, other: Key, place: str) -> str:
    return f"at or inside {'.'.join(other)}, which is {place}, got {got!r}, expected a place of its own"


def _local(text: str) -> Path | None:
    if text.startswith("sklearn:") or "://" in text:
        return None
    return Path(text.partition("::")[0]).resolve()
