"""What can go wrong, one kind for each thing that the command line does about it.

Every message says what is wrong, the value that was met, what was expected and the remedy.
"""

from __future__ import annotations

from typing import ClassVar


class KpcaStreamError(Exception):
    """Root of all errors that this package raises on purpose."""

    exit_code: ClassVar[int] = 1


class ConfigError(KpcaStreamError, ValueError):
    """A setting or an argument is wrong, or asks for more than the limits allow (exit 2)."""

    exit_code = 2


class DataError(KpcaStreamError, ValueError):
    """Rows, a kernel's values or a stored file are not what they must be (exit 65)."""

    exit_code = 65


class ConvergenceError(KpcaStreamError):
    """The eigensolve ended before the asked components met the tolerance (exit 1)."""


class BusyError(KpcaStreamError):
    """Somebody else works here, or the cluster is gone: the same call may succeed later (exit 75)."""

    exit_code = 75


class KpcaStreamWarning(UserWarning):
    """The answer is right, but probably not the one that was wanted."""
