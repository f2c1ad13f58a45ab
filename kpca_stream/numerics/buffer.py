"""Memory that is used again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]


class Buffer:
    """Memory for one array after the other: new pages cost a system as much as reading them does."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def of(self, n_bytes: int) -> Array:
        """So many bytes, which hold until the next are asked for."""
        if len(self._bytes) < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes]

    def array(self, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        """An array of this shape and type, as `of`; its values are anything."""
        dtype = np.dtype(dtype)
        return self.of(shape[0] * shape[1] * dtype.itemsize).view(dtype).reshape(shape)
