"""A YAML document as plain values, and where each of them was written.

YAML 1.2: ``1e-3`` is a number and ``yes`` a text. The document is composed but never constructed: no
tag makes an object, no alias multiplies a value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kpca_stream.errors import ConfigError

MAX_BYTES = 2**18
MAX_DIGITS = 100

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """Plain values, and the place of every key and of every value.

    Parameters
    ----------
    name : str
        How messages name the document.
    values : dict
        Nested dicts, lists, texts, numbers, booleans and None.
    keys, places : dict
        From a path of keys to ``file:line:column`` of the last key, and of the value.
    """

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[Key, str] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)

    def place_of_key(self, path: Key) -> str:
        """Where the last key of `path` stands, else where the nearest section above it does."""
        return self.keys[path] if path in self.keys else self.place(path)

    def place(self, path: Key) -> str:
        """Where the value of `path` stands, else where the nearest section above it does."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, f"{self.name}:1:1")


def read(path: str | Path) -> Document:
    """Read the file at `path`.

    Raises
    ------
    ConfigError
        It cannot be read, is larger than 256 KiB, or holds no YAML mapping.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise ConfigError(
            f"{path}: unreadable, got: {reason}, expected a YAML file; correct the path"
        ) from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: too large, got over {MAX_BYTES} bytes, expected a configuration")
    return parse(content, str(path))


def parse(content: bytes, name: str) -> Document:
    """Parse `content`, a document that messages name `name`; an empty one has no values."""
    document = Document(name)
    root = _compose(content, name)
    if root is None:
        return document
    if not isinstance(root, MappingNode):
        raise ConfigError(
            f"{_place(root, name)}: not a configuration, got {_kind(root)}, expected sections of keys"
        )
    document.values.update(_Reader(document).value(root, ()))
    return document


def override(document: Document, settings: Sequence[str]) -> None:
    """Set ``a.b=c`` in `document`, for each of `settings` in order; c has YAML's syntax.

    Raises
    ------
    ConfigError
        A setting has no ``=``, an empty key or no YAML value, or sets a key of what is no section.
    """
    for setting in settings:
        dotted, equals, text = setting.partition("=")
        path = tuple(dotted.strip().split("."))
        name = f"--set {dotted.strip()}"
        if not equals or not all(path):
            raise ConfigError(f"--set: not a setting, got {setting!r}, expected section.key=value")
        _set(document, path, parse_value(text, name), name)


def parse_value(text: str, name: str) -> Any:
    """The YAML value `text`, named `name` in messages."""
    root = _compose(text.encode("utf-8", "surrogatepass"), name)
    return None if root is None else _Reader(Document(name)).value(root, ())


def _set(document: Document, path: tuple[str, ...], value: Any, place: str) -> None:
    section: Any = document.values
    for depth, key in enumerate(path[:-1]):
        if section.get(key) is None:
            section[key] = {}
            document.places[path[: depth + 1]] = place
        section = section[key]
        if not isinstance(section, dict):
            got = f"got {'.'.join(path[: depth + 1])} = {section!r}"
            raise ConfigError(f"{place}: no section to set a key of, {got}, expected a section")
    section[path[-1]] = value
    for places in (document.keys, document.places):
        for stale in [known for known in places if known[: len(path)] == path]:
            del places[stale]
    document.keys[path] = document.places[path] = place


def _compose(content: bytes, name: str) -> Node | None:
    try:
        # The pure reader: libyaml's is YAML 1.1.
        root: Node | None = YAML(typ="safe", pure=True).compose(content)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if isinstance(mark, StreamMark) else name
        what = error.problem or error.context or "unreadable"
        raise ConfigError(f"{place}: not YAML, got: {_line(what)}, expected keys and values") from error
    except (YAMLError, UnicodeError) as error:
        raise ConfigError(f"{name}: not YAML, got: {_line(str(error))}, expected UTF-8 text") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply, expected sections of keys") from error
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # Ruamel's scanner fails so on some byte sequences, such as a directive without a number.
        raise ConfigError(f"{name}: not YAML, got: {_line(repr(error))}, expected keys and values") from error
    return root


def _line(text: str) -> str:
    return " ".join(text.split())


def _place(node: Node, name: str) -> str:
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _kind(node: Node) -> str:
    return "a list" if isinstance(node, SequenceNode) else repr(node.value)


class _Reader:
    """Turns nodes into plain values and notes their places in a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.seen: set[int] = set()

    def value(self, node: Node, path: Key) -> Any:
        """The value of `node`, at `path`."""
        place = self.document.places[path] = _place(node, self.document.name)
        # An alias composes to the node of its anchor.
        if id(node) in self.seen:
            raise ConfigError(f"{place}: unsupported, got an alias of this value, expected the value itself")
        self.seen.add(id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, place)

    def _mapping(self, node: MappingNode, path: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = _place(key_node, self.document.name)
            if not isinstance(key_node, ScalarNode):
                raise ConfigError(f"{place}: not a key, got {_kind(key_node)}, expected a word")
            key = str(key_node.value)
            if key in values:
                first = self.document.keys[*path, key].removeprefix(f"{self.document.name}:")
                name = ".".join(str(part) for part in (*path, key))
                raise ConfigError(f"{place}: {name}: duplicate key, got it at {first} too, expected it once")
            self.document.keys[*path, key] = place
            values[key] = self.value(value_node, (*path, key))
            if values[key] is None:
                # A value that is not there is marked where the next thing begins.
                self.document.places[*path, key] = place
        return values

    def _scalar(self, node: Node, place: str) -> Any:
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        # Dates are no values of a configuration, but may be names.
        if tag in ("str", "timestamp"):
            return str(node.value)
        if tag == "null":
            return None
        if tag not in ("bool", "int", "float"):
            raise ConfigError(f"{place}: unsupported, got the tag {tag!r}, expected a plain value")
        return _number(tag, node, place)


def _number(tag: str, node: Node, place: str) -> Any:
    try:
        if len(node.value) <= MAX_DIGITS:
            return getattr(_constructor(), f"construct_yaml_{tag}")(node)
    except (ValueError, OverflowError, LookupError) as error:
        raise ConfigError(f"{place}: not a value, got {node.value!r}, expected a number") from error
    raise ConfigError(f"{place}: not a value, got {len(node.value)} digits, expected at most {MAX_DIGITS}")


@functools.cache
def _constructor() -> Any:
    return YAML(typ="safe", pure=True).constructor
