"""Stores are looked at before they are believed: no links, and no array that is larger than its files.

A store may come from elsewhere. What its descriptions say decides how much memory is taken, and where files
are read and written; so both are checked first, by names and sizes alone.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from kpca_stream.addresses import Address, Location
from kpca_stream.errors import DataError
from kpca_stream.storage import objects
from kpca_stream.storage.chunked import CHECKSUM_BYTES, CODECS

MOST_CHUNK_BYTES, LEAST_CHUNK_ROWS = 2**27, 64
"""A chunk is larger only where so few rows are."""
MOST_QUANTILES = 2**16
MOST_NUMBER = 1e300
BASIS_ARRAYS = {
    "eigenvalues": "k",
    "centring": "k",
    "rotation": "kk",
    "coefficients": "nk",
    "row_means": "m",
    "weights": "n",
    "rows": "nd",
    "centre": "d",
    "multiplier": "d",
    "error_quantiles": "?",
    "t2_quantiles": "?",
    "provisional_mean": "n",
    "sums": "n",
    "products": "nn",
    "sample": "q-",
    "sample_weights": "q",
}
"""All arrays of a basis, and their sizes; m is n, but of a given matrix by landmarks their number."""
REMEDY = "restore it from a copy, or remove it"


def check_folder(place: Location) -> None:
    """Check that a store holds folders and files only, which cannot lead elsewhere or never end.

    Raises
    ------
    DataError
        For a link, a pipe or a device; for a description that is too large to be one.
    """
    if isinstance(place, Address):
        for found in objects.tree(place):
            if found.key.endswith(".json"):
                check_bytes(place / found.key, found.size)
        return
    for entry in _entries(place):
        if not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
            raise DataError(
                f"{entry.path} is a link, a pipe or a device, expected folders and files of a store's own; "
                f"{REMEDY}"
            )
        if entry.name.endswith(".json"):
            check_size(Path(entry.path))


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def check_size(path: Path) -> None:
    """Check that a JSON file can be one of this package's.

    Raises
    ------
    DataError
        If it is larger than any.
    """
    check_bytes(path, path.stat().st_size)


def check_bytes(place: Location | str, n_bytes: int, remedy: str = REMEDY) -> None:
    """The same of one that has, or would have, so many bytes."""
    if n_bytes > objects.MOST_SMALL_BYTES:
        raise DataError(
            f"{place}: got {n_bytes:,} bytes of JSON, expected at most {objects.MOST_SMALL_BYTES:,}; {remedy}"
        )


def parsed_json(data: bytes | str, **options: Any) -> Any:
    """A JSON value.

    Raises
    ------
    ValueError
        Also where it is nested too deep.
    """
    try:
        return json.loads(data, **options)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def check_arrays(
    path: Location,
    arrays: Mapping[str, zarr.Array[Any]],
    *,
    whole: bool = True,
    dtypes: Sequence[str] = ("float32", "float64"),
) -> None:
    """Check that stored arrays are numbers under this package's codecs, and no larger than their files.

    Parameters
    ----------
    path : Path or Address
        Of the group.
    arrays : mapping
        By name.
    whole : bool
        Whether all chunks must be there.
    dtypes : sequence of str
        Types that they may have.

    Raises
    ------
    DataError
    """
    for name, array in arrays.items():
        if str(array.dtype) not in dtypes:
            raise DataError(
                f"{path}/{name}: got type {array.dtype}, expected {' or '.join(dtypes)}; {REMEDY}"
            )
        problem = _problem(path / name / "c", array, whole=whole)
        if problem:
            raise DataError(f"{path}/{name} is no array of this package's: {problem}; {REMEDY}")


def _problem(place: Location, array: zarr.Array[Any], *, whole: bool) -> str | None:
    dtype, codecs = np.dtype(array.dtype), tuple(getattr(array.metadata, "codecs", ()))
    if codecs != CODECS:
        names, ours = ([type(codec).__name__ for codec in each] for each in (codecs, CODECS))
        return f"got codecs {names}, expected {ours}"
    n_bytes = math.prod(array.chunks) * dtype.itemsize
    if n_bytes > MOST_CHUNK_BYTES and array.chunks[0] > LEAST_CHUNK_ROWS:
        return f"got chunks of {n_bytes:,} bytes, expected at most {MOST_CHUNK_BYTES:,}"
    sizes = _sizes(place)
    if any(size != n_bytes + CHECKSUM_BYTES for size in sizes):
        return f"got a chunk of another size than its shape says, {n_bytes + CHECKSUM_BYTES:,} bytes"
    n_chunks = math.prod(-(-size // chunk) for size, chunk in zip(array.shape, array.chunks, strict=True))
    if whole and len(sizes) != n_chunks:
        return f"got {len(sizes):,} chunks, expected {n_chunks:,} for shape {array.shape}"
    return None


def _sizes(place: Location) -> list[int]:
    """Bytes of each file below `place` that is not just being written."""
    if isinstance(place, Address):
        return [entry.size for entry in objects.tree(place)]
    files = (entry for entry in (_entries(place) if place.exists() else ()) if entry.is_file())
    return [file.stat().st_size for file in files if not file.name.endswith(".partial")]  # Zarr's own ending


def check_content(path: Location, content: Mapping[str, Any]) -> None:
    """Check the names and numbers that a basis says of itself.

    Raises
    ------
    DataError
    """
    strange = [name for name in content["arrays"] if name not in BASIS_ARRAYS]
    if strange:
        raise DataError(f"{path}: got an array {strange[0]!r}, expected those of a basis; {REMEDY}")
    if not all(isinstance(name, str) for name in content["columns"]):
        raise DataError(f"{path}: got columns {content['columns']!r:.60}, expected names; {REMEDY}")
    if content["precision"] not in ("float32", "float64"):
        raise DataError(
            f"{path}: got precision {content['precision']!r:.60}, expected a float type; {REMEDY}"
        )
    optional = {"gamma", "degree", "coef0", "shift"} & content["kernel"].keys()
    numbers = {key: content[key] for key in ("reduced_grand_mean", "grand_mean", "trace")}
    counts = {key: content[key] for key in ("n_rows", "total_weight")}
    for key, value in (counts | numbers | {key: content["kernel"][key] for key in optional}).items():
        usual = type(value) in (int, float) and abs(value) < MOST_NUMBER
        if not usual or (key in counts and value <= 0):
            raise DataError(f"{path}: got {key} {value!r:.60}, expected a number that a fit writes; {REMEDY}")


def check_shapes(path: Location, arrays: Mapping[str, zarr.Array[Any]], content: Mapping[str, Any]) -> None:
    """Check that the arrays of a basis belong together: n rows (or landmarks), d columns, k components.

    Raises
    ------
    DataError
    """
    sample = arrays.get("sample")
    sizes = {
        "n": content["n_rows"],
        "k": arrays["eigenvalues"].shape[0],
        "d": len(content["columns"]),
        "q": 0 if sample is None else sample.shape[0],
    }
    if content["kernel"]["name"] != "precomputed":
        sizes["m"] = content["n_rows"]
    for name, array in arrays.items():
        expected = tuple(
            sizes.get(size, found) for size, found in zip(BASIS_ARRAYS[name], array.shape, strict=True)
        )
        if array.shape != expected or ("?" in BASIS_ARRAYS[name] and array.size > MOST_QUANTILES):
            raise DataError(f"{path}: array {name} has shape {array.shape}, expected {expected}; {REMEDY}")
