"""Addresses of what lies in a bucket, as a path is the address of what lies in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kpca_stream.errors import ConfigError

SCHEMES = ("s3", "gs", "az")
"""Amazon's S3 and what speaks like it; Google's and Azure's stores, which are untested."""

_SHAPE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<bucket>[^/]*)/*(?P<key>.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Address:
    """A bucket, and a key in it or the beginning of keys: a value that is picklable and small.

    Parameters
    ----------
    scheme : {"s3", "gs", "az"}
    bucket : str
        Of Azure, the container.
    key : str
        Without slashes at its ends; empty for the bucket itself.
    """

    scheme: str
    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that `text` writes, such as ``s3://bucket/models``.

        Raises
        ------
        ConfigError
            If it is none, or holds a name and a password, which it does not repeat.
        """
        problem = address_problem(text)
        if problem is not None:
            raise ConfigError(problem)
        match = _SHAPE.fullmatch(text)
        assert match is not None  # noqa: S101 - for mypy: what has no problem has the shape
        return cls(match["scheme"].lower(), match["bucket"], match["key"].strip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, below: str) -> Self:
        key = f"{self.key}/{below}".strip("/")
        return type(self)(self.scheme, self.bucket, key)

    @property
    def name(self) -> str:
        """What stands behind the last slash of the key; of a whole bucket its name."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on, as that of a path."""
        return Path(self.name).suffix

    @property
    def parent(self) -> Self:
        """The address above; of a bucket the bucket."""
        return type(self)(self.scheme, self.bucket, self.key.rpartition("/")[0])


Location = Path | Address
"""Where something lies: in a folder, or in a bucket."""


def is_address(text: object) -> bool:
    """Whether `text` is meant as an address of a bucket: it begins with one of `SCHEMES`."""
    return isinstance(text, str) and text.partition("://")[0].lower() in SCHEMES and "://" in text


def located(place: str | Location) -> Location:
    """An address where `place` writes one, else a path.

    Raises
    ------
    ConfigError
        If it is an address of a form that is none.
    """
    if isinstance(place, Path | Address):
        return place
    return Address.parse(place) if is_address(place) else Path(place)


def address_problem(text: str) -> str | None:
    """What is wrong with the address `text`, on one line that holds no password; None where nothing is."""
    match = _SHAPE.fullmatch(text)
    if match is not None and "@" in text and not _BUCKET.fullmatch(match["bucket"]):
        return (
            f"{match['scheme']}://…@{text.rpartition('@')[2]}: got a name or password before @, expected "
            "none in an address; credentials come from the environment, such as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    if match is None or match["scheme"].lower() not in SCHEMES or not _BUCKET.fullmatch(match["bucket"]):
        return f"{text}: not an address of a bucket, expected such as s3://bucket/models"
    if any(part in ("", ".", "..") for part in match["key"].strip("/").split("/")) and match["key"].strip(
        "/"
    ):
        return f"{text}: got an empty part, . or .. in an address, expected names between single slashes"
    return None
