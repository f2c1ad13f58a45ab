"""The commands and their arguments.

What a command needs is imported when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kpca_stream.cli.invocation import Invocation, usage_failure
from kpca_stream.errors import ConfigError
from kpca_stream.packages import package_versions
from kpca_stream.results import ConfigCheck
from kpca_stream.telemetry import Reporter

if TYPE_CHECKING:
    from kpca_stream.config import Config

F = TypeVar("F", bound=Callable[..., Any])

PROGRAM = "kpca-stream"
_SHAPE = re.compile(r"([1-9]\d*)[xX]([1-9]\d*)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``kpca-stream`` and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the program's name; default: those of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(commands.main(given, prog_name=PROGRAM, standalone_mode=False) or 0)
    except click.ClickException as error:
        return usage_failure(error, with_json="--json" in given)


def _shape(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    match = None if value is None else _SHAPE.fullmatch(value)
    if value is not None and match is None:
        message = f"got {value!r}, expected ROWSxCOLUMNS such as 1000000x50"
        raise click.BadParameter(message, context, parameter)
    return (int(match[1]), int(match[2])) if match else None


def _output_options(command: F) -> F:
    for option in (
        click.option("--debug", is_flag=True, help="Show tracebacks."),
        click.option("--quiet", is_flag=True, help="No progress; warnings and errors only."),
        click.option("--log-json", is_flag=True, help="Progress, warnings and errors as lines of JSON."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object to standard output."),
    ):
        command = option(command)
    return command


def _config_options(command: F) -> F:
    for option in (
        _output_options,
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a key, as solver.tol=1e-8.",
        ),
        click.argument("path", metavar="CONFIG"),
    ):
        command = option(command)
    return command


_restart_option = click.option(
    "--restart",
    is_flag=True,
    help="Fit anew; what earlier runs left in the store is removed once the rows are found sound.",
)

_EXIT_CODES = """\b
Exit codes:
  0    done, also when there was nothing to do
  1    failed
  2    a mistake in the arguments or the configuration, a plan beyond
       the limits, a full disk, or a place that is missing or forbidden
  65   bad data, files set aside, a store that does not pass verify, or a
       refused candidate
  75   try again: the store is in use, or the processes were lost
  130  interrupted
  143  terminated
"""


def example(arguments: str) -> str:
    """What a command's help ends with."""
    return f"\b\nExample:\n  {PROGRAM} {arguments}"


def _tell_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001  click's call
    if is_asked:
        version = package_versions().get(PROGRAM, "of a folder, not installed")
        click.echo(f"{PROGRAM}, version {version}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXIT_CODES)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version and exit.",
)
def commands() -> None:
    """Kernel PCA for data that do not fit.

    Builds the Gram matrix in tiles, solves for its leading eigenvectors, keeps the basis and scores
    new rows against it.
    """


@commands.command(epilog=example("run configs/quickstart.yaml --set solver.n_components=20"))
@_config_options
@_restart_option
def run(path: str, settings: tuple[str, ...], restart: bool, **output: bool) -> int:  # noqa: FBT001  click's call
    """Fit, publish and score: the main job."""

    def call(told: Reporter) -> Any:
        config = _load(path, settings)
        return _pipeline().run_config(config, told, restart=restart)

    return Invocation("run", **output).perform(call)


@commands.command(
    short_help="Tell what a fit will cost.", epilog=example("plan model.yaml --shape 1000000x50")
)
@_config_options
@click.option(
    "--shape",
    metavar="ROWSxCOLUMNS",
    callback=_shape,
    help="Plan for data of this size, which need not exist yet.",
)
def plan(path: str, settings: tuple[str, ...], shape: tuple[int, int] | None, **output: bool) -> int:
    """Tell what a fit will cost, and refuse what exceeds the limits."""

    def call(told: Reporter) -> Any:
        config = _load(path, settings)
        return _pipeline().plan_config(config, told, shape=shape)

    return Invocation("plan", **output).perform(call)


@commands.command(epilog=example("fit model.yaml --restart"))
@_config_options
@_restart_option
def fit(path: str, settings: tuple[str, ...], restart: bool, **output: bool) -> int:  # noqa: FBT001  click's call
    """Fit and publish a basis."""

    def call(told: Reporter) -> Any:
        config = _load(path, settings)
        return _pipeline().fit_config(config, told, restart=restart)

    return Invocation("fit", **output).perform(call)


@commands.command(
    short_help="Score what is new, each row once.",
    epilog=example("score model.yaml --set score.input.path=monday.parquet"),
)
@_config_options
@click.option(
    "--follow",
    is_flag=True,
    help="Go on, and look again and again for what has arrived, until SIGTERM or Ctrl-C.",
)
def score(path: str, settings: tuple[str, ...], follow: bool, **output: bool) -> int:  # noqa: FBT001  click's call
    """Score rows against the published basis, each once.

    Without --follow: what is there now.
    """

    def call(told: Reporter) -> Any:
        config = _load(path, settings)
        return _pipeline().score_config(config, told, follow=follow)

    return Invocation("score", **output).perform(call)


@commands.command(
    short_help="Check a Gram store or a basis.", epilog=example("verify models/digits/versions/1/basis.zarr")
)
@click.argument("path", metavar="STORE")
@_output_options
def verify(path: str, **output: bool) -> int:
    """Check a Gram store or a basis: checksums, tiles, means, residuals.

    Of a model's folder the basis of its champion is checked.
    """
    return Invocation("verify", **output).perform(lambda told: _pipeline().verify_store(path, told))


@commands.command(
    short_help="Add up Nyström bases of shared landmarks.",
    epilog=example("merge monday.zarr tuesday.zarr --into both.zarr"),
)
@click.argument("paths", metavar="BASIS BASIS...", nargs=-1, required=True)
@click.option("--into", required=True, metavar="PATH", help="The new basis; a folder that is not there yet.")
@_output_options
def merge(paths: tuple[str, ...], into: str, **output: bool) -> int:
    """Add up Nyström bases that share their landmarks, without reading their rows again.

    A model's folder stands for the basis of its champion.
    """

    def call(_: Reporter) -> Any:
        if len(paths) < 2:
            raise ConfigError(
                f"BASIS: got {len(paths)}, expected at least two; name all that are to be merged"
            )
        return _pipeline().merge_bases(paths, into)

    return Invocation("merge", **output).perform(call)


@commands.group(short_help="Check a configuration, or print the schema.")
def config() -> None:
    """Check a configuration, or print the schema of all."""


@config.command(short_help="Check a configuration.", epilog=example("config check model.yaml"))
@_config_options
def check(path: str, settings: tuple[str, ...], **output: bool) -> int:
    """Look for mistakes; each is told as file:line:column: key: what, got, expected."""
    return Invocation("config check", **output).perform(
        lambda _: ConfigCheck(path=path, name=_load(path, settings).name)
    )


@config.command(epilog=example("config schema > kpca-stream.schema.json"))
@click.option(
    "--output",
    "of",
    type=click.Choice(["config", "result"]),
    default="config",
    help="Of configurations, or of what --json prints.",
)
def schema(of: str) -> int:
    """Print a JSON Schema."""
    from kpca_stream.config import json_schema
    from kpca_stream.results import json_schema as result_schema

    click.echo(json.dumps(json_schema() if of == "config" else result_schema(), indent=2))
    return 0


def _pipeline() -> ModuleType:
    import kpca_stream.pipeline

    return kpca_stream.pipeline


def _load(path: str, settings: Sequence[str]) -> Config:
    from kpca_stream.config import load_config

    return load_config(path, settings, _function_problems)


def _function_problems(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Whether a kernel of one's own can be imported; others need no pipeline for this."""
    if ":" in config.kernel.name:
        try:
            from kpca_stream.asked import check_function

            check_function(config)
        except ConfigError as error:
            yield ("kernel", "name"), str(error).removeprefix("kernel name: ")
