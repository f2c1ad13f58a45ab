"""The help of every command, and the facts that a report of a fault should have."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kpca_stream import show_versions
from kpca_stream.cli.commands import commands


def leaves(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names by which every command is called."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name)


def command_of(path: tuple[str, ...]) -> click.Command:
    found: click.Command = commands
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


@pytest.mark.parametrize("path", list(leaves()), ids=" ".join)
def test_every_help_has_an_example_that_can_be_called(path: tuple[str, ...]) -> None:
    """Each command's help says what it does, and gives an example whose arguments it takes."""
    shown = CliRunner().invoke(commands, [*path, "--help"])
    assert shown.exit_code == 0
    assert "\\b" not in shown.output
    example = re.search(r"Example:\n +kpca-stream (.*)", shown.output)
    assert example is not None, shown.output
    words = shlex.split(example[1].partition(" > ")[0])
    assert words[: len(path)] == list(path)
    command_of(path).make_context(path[-1], words[len(path) :])


def test_the_help_of_all_names_every_command() -> None:
    """`--help` lists every command with what it does."""
    shown = CliRunner().invoke(commands, ["--help"]).output
    for path in leaves():
        assert re.search(rf"^  {path[0]} +\w", shown, re.MULTILINE), path


@pytest.mark.parametrize("path", [(), ("models",), ("config",)], ids=" ".join)
def test_the_list_of_commands_fits_a_narrow_window(path: tuple[str, ...]) -> None:
    """In 60 columns no summary is cut."""
    shown = CliRunner().invoke(commands, [*path, "--help"], terminal_width=60).output
    assert "..." not in shown.split("Commands:")[1]


def test_the_version_is_told() -> None:
    """`--version` tells it, or that the package is not installed."""
    shown = CliRunner().invoke(commands, ["--version"])
    assert shown.exit_code == 0
    assert re.fullmatch(r"kpca-stream, version (\d+\.\d+\S*|of a folder, not installed)\n", shown.output)


def test_versions_are_shown() -> None:
    """Python, the packages, the system and the BLAS libraries are told, a line each."""
    stream = io.StringIO()
    show_versions(stream)
    told = dict(re.split(r" {2,}", line, maxsplit=1) for line in stream.getvalue().splitlines())
    assert set(told) >= {"system", "processors", "python", "numpy", "scipy", "scikit-learn", "dask", "zarr"}
    assert any("threads" in value for value in told.values())
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", told["python"])
