"""What lies in an input, in a folder or in a bucket."""

from __future__ import annotations

from kpca_stream.addresses import is_address
from kpca_stream.storage.bucket_deliveries import is_one_object, objects
from kpca_stream.storage.deliveries import Delivery, deliveries, is_one


def arrived(path: str, rows: str | None = None) -> list[Delivery]:
    """All that lies in the input, in order of names: see `deliveries`, and for a bucket `objects`."""
    return objects(path, rows) if is_address(path) else deliveries(path, rows)


def is_single(path: str) -> bool:
    """Whether an input is one file, object or array rather than a place where many land."""
    return is_one_object(path) if is_address(path) else is_one(path)
