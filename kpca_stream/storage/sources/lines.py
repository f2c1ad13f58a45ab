"""Where the rows of a text file begin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from kpca_stream.errors import DataError
from kpca_stream.storage.sources.table import WINDOW_ROWS

_CHUNK_BYTES = 2**20
LONGEST_LINE = 64 * 2**20
_LF, _CR = 10, 13
# A quote opens a field only where a field begins; one that is not closed yet reaches to the end.
_QUOTED = re.compile(rb'(?:(?<=[,\n\r])|\A)"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')


@dataclass(frozen=True)
class LineIndex:
    """Places of the rows of a text file.

    Parameters
    ----------
    starts : tuple of int
        Byte where row 0, 65,536, 131,072, … begins, and the end of the file.
    n_rows : int
        Number of lines that are not blank.
    longest : int
        Bytes of the longest line.
    is_quoted : bool
        Whether there are quotes, so that a field may hold line ends.
    """

    starts: tuple[int, ...]
    n_rows: int
    longest: int
    is_quoted: bool

    def range(self, first: int, last: int) -> tuple[int, int]:
        """Bytes that hold the rows of windows ``first`` to ``last``."""
        return self.starts[first], self.starts[last]


def index_lines(name: str, file: BinaryIO, begin: int) -> LineIndex:
    """Scan a file from byte `begin` on, in bounded memory.

    Blank lines are no rows; line ends inside quotes are no line ends.

    Raises
    ------
    DataError
        If a line passes 64 MiB: then this is no text in lines, or a quote was never closed.
    """
    starts: list[int] = []
    n_rows = longest = 0
    is_quoted = False
    at, pending = begin, b""
    file.seek(begin)
    while chunk := file.read(_CHUNK_BYTES):
        pending += chunk
        is_quoted = is_quoted or b'"' in chunk
        masked = _mask(pending) if is_quoted else pending
        whole = masked.rfind(b"\n") + 1
        if not whole:
            check_length(name, len(pending))
        first, length = _lines(masked[:whole])
        _note(starts, at + first, n_rows)
        n_rows, longest = n_rows + first.size, max(longest, int(length.max(initial=0)))
        at, pending = at + whole, pending[whole:]
    first, length = _lines(_mask(pending) if is_quoted else pending)
    _note(starts, at + first, n_rows)
    longest = max(longest, int(length.max(initial=0)))
    return LineIndex((*starts, at + len(pending)), n_rows + first.size, longest, is_quoted)


def check_length(name: str, n_bytes: int) -> None:
    """Refuse a line that is too long to be one.

    Raises
    ------
    DataError
        Where it passes `LONGEST_LINE`.
    """
    if n_bytes > LONGEST_LINE:
        raise DataError(
            f"{name}: got a line of {n_bytes} bytes, expected text in lines of at most {LONGEST_LINE}; "
            "look for a quote that is not closed"
        )


def _note(starts: list[int], first: NDArray[np.int64], n_before: int) -> None:
    starts.extend(first[(-n_before) % WINDOW_ROWS :: WINDOW_ROWS].tolist())


def _mask(text: bytes) -> bytes:
    return _QUOTED.sub(lambda match: b"x" * len(match.group()), text)


def _lines(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and lengths of the lines that are not blank; CR, LF and CRLF end a line."""
    codes = np.frombuffer(text, np.uint8)
    is_end = codes == _LF
    if b"\r" in text:
        is_end |= codes == _CR
    ends = np.flatnonzero(is_end)
    if codes.size and not is_end[-1]:
        ends = np.append(ends, codes.size)
    first = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    length = ends - first
    return first[length > 0], length[length > 0]
