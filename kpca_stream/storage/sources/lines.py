"""Where the rows of a text file begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

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
    numbers : tuple of int
        Line where each of these rows begins, counted from 1 as editors do.
    n_rows : int
        Number of lines that are not blank.
    longest : int
        Bytes of the longest line.
    is_quoted : bool
        Whether there are quotes, so that a field may hold line ends.
    """

    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    n_rows: int
    longest: int
    is_quoted: bool

    def range(self, first: int, last: int) -> tuple[int, int]:
        """Bytes that hold the rows of windows ``first`` to ``last``."""
        return self.starts[first], self.starts[last]

    def line(self, name: str, file: BinaryIO, row: int) -> int | None:
        """Line where a row begins, counted from 1 as editors do; None where the file has no such row."""
        if row >= self.n_rows:
            return None
        window, n_before = divmod(row, WINDOW_ROWS)
        line = self.numbers[window]
        for piece in _pieces(name, file, self.starts[window]):
            if n_before < piece.first.size:
                return line + _n_ends(piece.text[: piece.first[n_before]])
            n_before -= piece.first.size
            line += _n_ends(piece.text)
        return None


def index_lines(name: str, file: BinaryIO, begin: int) -> LineIndex:
    """Scan a file from byte `begin` on, in bounded memory.

    Blank lines are no rows; line ends inside quotes are no line ends.

    Raises
    ------
    DataError
        If a line passes 64 MiB: then this is no text in lines, or a quote was never closed.
    """
    starts: list[int] = []
    numbers: list[int] = []
    n_rows = longest = end = 0
    is_quoted = False
    file.seek(0)
    line = 1 + _n_ends(file.read(begin))
    for piece in _pieces(name, file, begin):
        for first in piece.first[-n_rows % WINDOW_ROWS :: WINDOW_ROWS].tolist():
            starts.append(piece.at + first)
            numbers.append(line + _n_ends(piece.text[:first]))
        n_rows += piece.first.size
        line += _n_ends(piece.text)
        longest = max(longest, int(piece.length.max(initial=0)))
        is_quoted = is_quoted or b'"' in piece.text
        end = piece.at + len(piece.text)
    return LineIndex((*starts, end), tuple(numbers), n_rows, longest, is_quoted)


class _Piece(NamedTuple):
    """Text from byte `at` on, and where in it the lines that are not blank begin, with their lengths."""

    at: int
    text: bytes
    first: NDArray[np.int64]
    length: NDArray[np.int64]


def _pieces(name: str, file: BinaryIO, begin: int) -> Iterator[_Piece]:
    """A file from byte `begin` on, where a line begins: pieces of bounded size that are cut between lines."""
    at, pending, is_quoted = begin, b"", False
    file.seek(begin)
    while chunk := file.read(_CHUNK_BYTES):
        pending += chunk
        is_quoted = is_quoted or b'"' in chunk
        masked = _mask(pending) if is_quoted else pending
        whole = masked.rfind(b"\n") + 1
        if not whole:
            check_length(name, len(pending))
        yield _Piece(at, pending[:whole], *_lines(masked[:whole]))
        at, pending = at + whole, pending[whole:]
    yield _Piece(at, pending, *_lines(_mask(pending) if is_quoted else pending))


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


def _n_ends(text: bytes) -> int:
    """Line ends of any kind, those inside quotes too."""
    codes = np.frombuffer(text, np.uint8)
    is_lf = codes == _LF
    n_ends = np.count_nonzero(is_lf)
    if b"\r" in text:
        is_cr = codes == _CR
        n_ends += np.count_nonzero(is_cr) - np.count_nonzero(is_cr[:-1] & is_lf[1:])
    return int(n_ends)
