"""What all tests share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import dask
import pytest
from buckets import all_buckets, bucket, buckets  # noqa: F401 - fixtures
from examples import SEED, drawn_of
from hypothesis import HealthCheck, settings

from kpca_stream.cli import main

if TYPE_CHECKING:
    from distributed import Client

# Time limits are pytest-timeout's; the same examples everywhere, so that a failure can be repeated.
settings.register_profile(
    "project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("project")


def pytest_report_header() -> str:
    """The seed that all generated examples come from."""
    return f"generated examples: KPCA_STREAM_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many examples were drawn, if any were."""
    if not drawn_of:
        return
    terminalreporter.write_line(
        f"{drawn_of.total()} generated examples for {len(drawn_of)} laws, KPCA_STREAM_SEED={SEED}"
    )


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs a command quietly, and gives what it prints as JSON; a line of errors where its code is not 0."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert main([*arguments, "--json", "--quiet"]) == code
        out, err = capsys.readouterr()
        assert len([line for line in err.splitlines() if not line.startswith("warning")]) == (code != 0), err
        printed: dict[str, Any] = json.loads(out)
        return printed

    return run


@pytest.fixture(autouse=True)
def _no_scheduler_is_left() -> Iterator[None]:
    """A test that ends a scheduler by force leaves the next one Dask's usual one."""
    before = dask.config.get("scheduler", None)
    yield
    if dask.config.get("scheduler", None) != before:
        dask.config.set(scheduler=before)


@pytest.fixture
def two_processes() -> Iterator[Client]:
    """The active client of two processes; for tests marked ``cluster``."""
    from distributed import get_client

    from kpca_stream.cluster import connect

    with connect("local", n_workers=2):
        yield get_client()
