"""What libraries raise for bytes that are not what they should be, told as one kind of error."""

from __future__ import annotations

import lzma
import tokenize
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from kpca_stream.errors import DataError, KpcaStreamError

FAULTS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,  # of JSON that is no object
    EOFError,
    LookupError,
    MemoryError,  # a size that is none
    OSError,
    RuntimeError,
    SyntaxError,
    SystemError,  # of codecs that believe a negative size
    TypeError,
    ValueError,
    lzma.LZMAError,
    pa.ArrowException,
    tokenize.TokenError,
    zlib.error,
)


@contextmanager
def told_as(problem: str, remedy: str) -> Iterator[None]:
    """Around what reads bytes that may be damaged.

    Parameters
    ----------
    problem : str
        Which data, and what could not be done.
    remedy : str
        What to do about it.

    Raises
    ------
    DataError
        For each of `FAULTS`; this package's own errors come through.
    """
    try:
        yield
    except KpcaStreamError:
        raise
    except FAULTS as error:
        raise DataError(f"{problem} ({first_line(error)}); {remedy}") from error


def first_line(error: BaseException) -> str:
    """An error's own words, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
