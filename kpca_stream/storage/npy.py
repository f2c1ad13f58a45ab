"""The header of an ``.npy`` file, or of a member of an ``.npz`` archive."""

from __future__ import annotations

from typing import IO, Any

import numpy as np


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns lie in one piece, and type; the values begin where `file` stands then.

    Parameters
    ----------
    file : binary file
        At its beginning.

    Raises
    ------
    ValueError
        If it is no such file, or its header is damaged.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    return shape, is_fortran, dtype
