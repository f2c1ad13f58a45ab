"""What a store of objects answers when it does not do what was asked, told as this package's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kpca_stream.addresses import Address
from kpca_stream.errors import BusyError, ConfigError, KpcaStreamError

_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,80})</Code>")
_STATUS = re.compile(r"status code: (\d{3}(?: [A-Z][A-Za-z ]{1,40})?)")
_NO_BUCKET = ("NoSuchBucket", "InvalidBucketName", "ContainerNotFound")
_WITHOUT = ("/latest/api/token", "/latest/meta-data", "/computeMetadata/", "/metadata/identity/", "Missing ")
"""Where a machine asks for the credentials of its role; or one of two variables is set only."""
_DENIED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")


@contextmanager
def told_of(address: Address) -> Iterator[None]:
    """Around requests to the store of `address`.

    Raises
    ------
    ConfigError
        If there is no such bucket, the credentials are refused, or the environment is not understood.
    BusyError
        If the store cannot be reached or does not answer as it should: it may later.
    FileNotFoundError
        If there is no such object.
    """
    try:
        yield
    except KpcaStreamError:
        raise
    except Exception as error:
        told = _told(address, error)
        if told is None:
            raise
        raise told from None  # what lies below names headers and addresses that are signed


def _told(address: Address, error: Exception) -> KpcaStreamError | None:
    """The error to raise; None for what is no failure of the store's."""
    text = str(error)
    code = _first(_CODE, text)
    if code in _NO_BUCKET:
        return ConfigError(f"{address}: there is no bucket {address.bucket!r} ({code}); correct the address")
    if not _is_of_store(error):
        return None
    if code in _DENIED or type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
        return ConfigError(
            f"{address}: the store refuses the credentials of the environment ({code or 'denied'}); set "
            "those of somebody who may read and write there, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if any(place in text for place in _WITHOUT):
        return ConfigError(
            f"{address}: no credentials in the environment, and no role of this machine that gives some; "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of the store's kind"
        )
    if type(error).__name__ in ("UnknownConfigurationKeyError", "InvalidPathError") or "builder err" in text:
        return ConfigError(f"{address}: cannot be opened ({_reason(text)}); correct the environment")
    return BusyError(f"{address}: the store does not answer as it should ({_reason(text)}); try again later")


def _is_of_store(error: Exception) -> bool:
    try:
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    except ImportError:
        return False
    return isinstance(error, BaseError) and not isinstance(error, AlreadyExistsError | PreconditionError)


def _reason(text: str) -> str:
    """A few words without addresses, headers and bodies."""
    status, code = _first(_STATUS, text), _first(_CODE, text)
    if status:
        return f"{status}, {code}" if code else status
    tail = text.partition("\n")[0].rpartition(" - ")[2]
    return tail if "://" not in tail else "no answer"


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
