"""Headers of ``.npy`` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kpca_stream.storage.npy import npy_header


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_header_of_any_version_is_read(version: tuple[int, int], order: str, tmp_path: Path) -> None:
    """Shape, order and type are those of the array, whose values begin where the header ends."""
    X = np.array([[1, 2, 3], [4, 5, 6]], np.int16, order=order)  # type: ignore[call-overload]
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, X, version=version)
    with (tmp_path / "x.npy").open("rb") as file:
        assert npy_header(file) == ((2, 3), order == "F", X.dtype)
        assert file.read() == X.tobytes(order)  # type: ignore[arg-type]


def test_what_has_no_header_is_refused(tmp_path: Path) -> None:
    """A file that does not begin as an ``.npy`` file does is an error."""
    (tmp_path / "x.npy").write_bytes(b"PK\3\4 is how an archive begins")
    with (tmp_path / "x.npy").open("rb") as file, pytest.raises(ValueError, match="magic"):
        npy_header(file)
