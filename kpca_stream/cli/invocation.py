"""One command, from its call to its exit code: warnings, errors and signals on the way.

Standard output gets the result, as tables or as one JSON object; all else goes to standard error.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from kpca_stream.errors import ConfigError, DataError, KpcaStreamError, KpcaStreamWarning
from kpca_stream.refit_results import RefitResult
from kpca_stream.results import (
    Failure,
    Output,
    Plan,
    Result,
    RunResult,
    ScoreSummary,
    VerifyReport,
    as_json,
)
from kpca_stream.signals import Terminated, terminable
from kpca_stream.telemetry import JsonLines, Reporter, new_run, reporter


@dataclass(frozen=True)
class Invocation:
    """A command's name and how it tells what it does."""

    command: str
    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    log_json: bool = False
    run: str = field(default_factory=new_run, init=False)

    def perform(self, call: Callable[[Reporter], Result]) -> int:
        """Do `call`, print what came of it and return the exit code."""
        if not self.debug:
            logging.getLogger("asyncio").addFilter(_is_no_echo)
        run = self.run if self.log_json else None
        with (
            reporter(sys.stderr, quiet=self.quiet, run=run) as told,
            _our_warnings(self._warn(told)) as warned,
        ):
            result, failure = self._attempt(call, told)
            for text in _warnings_of(result):
                warned(text)
        failure = failure or _verdict(result)
        output = Output(command=self.command, result=result, error=failure, warnings=tuple(warned.texts))
        try:
            self._print(output)
        except BrokenPipeError:
            # Nobody reads on; what is left in the buffer must not fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure.exit_code if failure else 0

    def _attempt(
        self, call: Callable[[Reporter], Result], told: Reporter
    ) -> tuple[Result | None, Failure | None]:
        try:
            with terminable():
                return call(told), None
        # The outermost place: whatever comes gets an exit code, and a traceback where it is a bug.
        except (Exception, KeyboardInterrupt, Terminated) as error:  # noqa: BLE001
            failure = _failure(error)
            if self.debug or failure is None:
                traceback.print_exc(file=sys.stderr)
            return None, failure or Failure(kind=type(error).__name__, message=_one_line(error), exit_code=1)

    def _warn(self, told: Reporter) -> Callable[[str], None]:
        if self.quiet and not self.log_json:
            return lambda text: click.echo(f"warning: {text}", err=True)
        return told.warn

    def _print(self, output: Output) -> None:
        if self.as_json:
            click.echo(json.dumps(as_json(output), allow_nan=False))
        elif output.result is not None:
            # Imported here: tables take longer to import than a failure takes to tell.
            from kpca_stream.cli.render import render

            render(output.result, sys.stdout)
            sys.stdout.flush()
        if output.error is not None:
            self._tell(output.error)

    def _tell(self, failure: Failure) -> None:
        for line in failure.message.splitlines() or [failure.kind]:
            if self.log_json:
                JsonLines(sys.stderr, self.run).tell("error", text=line, exit_code=failure.exit_code)
            else:
                click.echo(f"error: {line}", err=True)


def usage_failure(error: click.ClickException, *, with_json: bool) -> int:
    """Tell a mistake in the arguments; return the exit code."""
    if with_json:
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path.partition(" ")[2] if context else ""
        failure = Failure(kind="UsageError", message=error.format_message(), exit_code=error.exit_code)
        click.echo(json.dumps(as_json(Output(command=command, error=failure))))
    error.show()
    return error.exit_code


def _failure(error: BaseException) -> Failure | None:
    """What `error` means to a user; None for a mistake of this package's."""
    kind = type(error).__name__
    if isinstance(error, KpcaStreamError):
        return Failure(kind=kind, message=str(error), exit_code=error.exit_code)
    if isinstance(error, OSError):
        remedy = _remedy(error)
        exit_code = ConfigError.exit_code if remedy else 1
        return Failure(kind=kind, message=_one_line(error) + remedy, exit_code=exit_code)
    if isinstance(error, MemoryError):
        message = f"out of memory ({_one_line(error)}): lower limits.memory, or use fewer workers"
        return Failure(kind=kind, message=message, exit_code=1)
    if isinstance(error, KeyboardInterrupt):
        return Failure(kind=kind, message="interrupted", exit_code=130)
    if isinstance(error, Terminated):
        return Failure(kind=kind, message="terminated", exit_code=143)
    return None


def _verdict(result: Result | None) -> Failure | None:
    """Why a result is no success: a plan beyond the limits, a store with faults, files set aside."""
    score = result.score if isinstance(result, RunResult) else result
    if isinstance(score, ScoreSummary) and score.files_set_aside:
        first = score.set_aside[0].reason
        message = f"{score.files_set_aside} of {score.n_files} files set aside, the first: {first}"
        return Failure(kind=DataError.__name__, message=message, exit_code=DataError.exit_code)
    if isinstance(result, Plan) and result.refusals:
        message = "\n".join(result.refusals)
        return Failure(kind=ConfigError.__name__, message=message, exit_code=ConfigError.exit_code)
    if isinstance(result, RefitResult) and result.action == "refused":
        return Failure(kind=DataError.__name__, message=result.reason, exit_code=DataError.exit_code)
    if isinstance(result, VerifyReport) and not result.ok:
        failed = [check.name for check in result.checks if not check.ok]
        message = f"{result.path}: {len(failed)} of {len(result.checks)} checks failed: {', '.join(failed)}"
        return Failure(kind=DataError.__name__, message=message, exit_code=DataError.exit_code)
    return None


def _warnings_of(result: Result | None) -> tuple[str, ...]:
    if isinstance(result, RunResult):
        return result.fit.warnings
    return getattr(result, "warnings", ())


_REMEDIES = {
    (errno.ENOSPC, errno.EDQUOT): "make room and run the same command again: it goes on where it stopped",
    (errno.EROFS,): "expected a place that may be written to: choose another path, or allow it",
    (errno.EACCES, errno.EPERM): (
        "expected a place that this user may read, and write to where results go: allow it, or choose "
        "another path"
    ),
    (errno.ENOENT,): "expected it to be there: correct the path, or make its folder",
    (errno.EISDIR, errno.ENOTDIR, errno.EEXIST): (
        "expected no file for a folder, nor a folder for a file: choose another path, or move it away"
    ),
}
"""What somebody must do before the same command can work; such errors exit as a wrong setting does."""


def _remedy(error: OSError) -> str:
    return next((f"; {remedy}" for numbers, remedy in _REMEDIES.items() if error.errno in numbers), "")


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _is_no_echo(record: logging.LogRecord) -> bool:
    """Of writes that fail together one is raised, and told; the others are logged when they are forgotten."""
    return "exception was never retrieved" not in record.getMessage()


class _Once:
    """Tells every text once."""

    def __init__(self, tell_text: Callable[[str], None]) -> None:
        self.texts: list[str] = []
        self._tell = tell_text

    def __call__(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)
            self._tell(text)


@contextmanager
def _our_warnings(tell_text: Callable[[str], None]) -> Iterator[_Once]:
    """Tell this package's warnings as they come; all others go their usual way."""
    once, usual = _Once(tell_text), warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, KpcaStreamWarning):
            once(str(message))
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", KpcaStreamWarning)
        warnings.showwarning = show
        yield once
