"""The commands of the registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kpca_stream.cli.commands import _config_options, _load, example
from kpca_stream.cli.invocation import Invocation
from kpca_stream.telemetry import Reporter

if TYPE_CHECKING:
    from kpca_stream.storage.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

_MODEL = """\b
MODEL is the folder of a model, such as models/digits, or a configuration.
VERSION is a number, or what an alias names.
"""


def _model_options(command: F) -> F:
    """As commands of a configuration, but MODEL may be a folder too."""
    command = _config_options(command)
    for parameter in getattr(command, "__click_params__", []):
        if isinstance(parameter, click.Argument) and parameter.name == "path":
            parameter.metavar = "MODEL"
    return command


_alias_option = click.option("--alias", default="champion", show_default=True, help="Which pointer.")


@click.group(epilog=_MODEL, short_help="Look at versions, choose which one serves.")
def models() -> None:
    """Look at the versions of a model, and choose which one serves."""


@models.command(
    "list", short_help="Tell all versions and their standing.", epilog=example("models list models/digits")
)
@_model_options
def list_(path: str, settings: tuple[str, ...], **output: bool) -> int:
    """Tell all versions, their standing, and what names them."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions

        return model_versions.list_versions(_registry(path, settings))

    return Invocation("models list", **output).perform(call)


@models.command(short_help="Tell all of one VERSION.", epilog=example("models show models/digits 2"))
@_model_options
@click.argument("version", default="champion")
def show(path: str, settings: tuple[str, ...], version: str, **output: bool) -> int:
    """Tell all of one VERSION; default: the champion."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions

        registry = _registry(path, settings)
        return model_versions.show_version(registry, model_versions.version_of(registry, version))

    return Invocation("models show", **output).perform(call)


@models.command(epilog=example("models promote models/digits 2"))
@_model_options
@click.argument("version")
@_alias_option
@click.option("--force", is_flag=True, help="Also a version that was refused.")
def promote(
    path: str,
    settings: tuple[str, ...],
    version: str,
    alias: str,
    force: bool,  # noqa: FBT001  click's call
    **output: bool,
) -> int:
    """Let VERSION serve from now on."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions

        registry = _registry(path, settings)
        number = model_versions.version_of(registry, version)
        return model_versions.promote_version(registry, number, alias, force=force)

    return Invocation("models promote", **output).perform(call)


@models.command(
    short_help="Let the version before serve again.",
    epilog=example("models rollback models/digits --reason 'drifted'"),
)
@_model_options
@_alias_option
@click.option("--reason", help="Why the version that served is refused from now on.")
def rollback(path: str, settings: tuple[str, ...], alias: str, reason: str | None, **output: bool) -> int:
    """Let the version before serve again; the one that served is refused, so that it stays away."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions

        return model_versions.roll_back(_registry(path, settings), alias, reason=reason)

    return Invocation("models rollback", **output).perform(call)


@models.command(short_help="Compare two versions.", epilog=example("models diff models/digits 1 2"))
@_model_options
@click.argument("first")
@click.argument("second")
def diff(path: str, settings: tuple[str, ...], first: str, second: str, **output: bool) -> int:
    """Tell what version SECOND has other than FIRST: facts, variances, angles, where scores move."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions
        from kpca_stream.asked import make_importable

        make_importable()
        registry = _registry(path, settings)
        numbers = (model_versions.version_of(registry, which) for which in (first, second))
        return model_versions.diff_versions(registry, *numbers)

    return Invocation("models diff", **output).perform(call)


@models.command(
    short_help="Take old versions away.", epilog=example("models gc models/digits --keep 5 --dry-run")
)
@_model_options
@click.option(
    "--keep", type=int, default=5, show_default=True, help="So many of the newest, and of the refused."
)
@click.option(
    "--days",
    type=float,
    default=1.0,
    show_default=True,
    help="Keep what was made, or named by an alias, within so many days.",
)
@click.option("--dry-run", is_flag=True, help="Tell what would go; take nothing away.")
def gc(path: str, settings: tuple[str, ...], keep: int, days: float, dry_run: bool, **output: bool) -> int:  # noqa: FBT001  click's call
    """Take old versions away; what an alias names or would roll back to stays."""

    def call(_: Reporter) -> Any:
        from kpca_stream import model_versions
        from kpca_stream.storage.retention import DAY, Retention

        retention = Retention(keep=keep, age=days * DAY)
        return model_versions.collect_versions(_registry(path, settings), retention, dry_run=dry_run)

    return Invocation("models gc", **output).perform(call)


def _registry(path: str, settings: tuple[str, ...]) -> Registry:
    from kpca_stream import model_versions
    from kpca_stream.addresses import is_address, located
    from kpca_stream.errors import ConfigError

    if is_address(path):
        return model_versions.model_at(path)
    if not Path(path).exists() and Path(path).suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{path}: no such folder, expected that of a model, or a configuration; correct the path, or "
            "publish a first version: kpca-stream fit CONFIG"
        )
    if not Path(path).is_dir():
        config = _load(path, settings)
        return model_versions.model_at(located(config.models.path) / config.name)
    if settings:
        raise ConfigError(f"--set: got {settings[0]!r}, expected none with a folder; name a configuration")
    return model_versions.model_at(path)
