"""What an operator sees: lines of JSON, the dashboard's address, and Dask's own report."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.cli import main
from kpca_stream.cluster import connect_as, extras
from kpca_stream.config import Cluster
from kpca_stream.errors import ConfigError
from kpca_stream.telemetry import JsonLines, reporter


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_progress_tells_stage_rate_and_time_left() -> None:
    """A line of progress has the stage, what is done of how much, the rate and the seconds left."""
    stream, now = io.StringIO(), iter([0.0, 0.0, 20.0, 40.0])
    advance = JsonLines(stream, "r1", clock=lambda: next(now)).step("pass 2")
    for done in (0, 10, 20):
        advance(done, 20)
    first, middle, last = lines_of(stream.getvalue())
    assert first["rate"] is None
    assert first["seconds_left"] is None
    assert (middle["stage"], middle["done"], middle["total"]) == ("pass 2", 10, 20)
    assert (middle["rate"], middle["seconds"], middle["seconds_left"]) == (0.5, 20.0, 20.0)
    assert (last["event"], last["seconds_left"]) == ("progress", 0.0)


def test_every_line_has_its_run_and_time() -> None:
    """Notes, warnings and progress carry the run's name and a time that can be read."""
    stream = io.StringIO()
    with reporter(stream, run="abc") as told:
        told.note("line\nbreak")
        told.warn("careful")
        told.step("sweep")(1, 1)
    found = lines_of(stream.getvalue())
    assert [line["event"] for line in found] == ["note", "warning", "progress"]
    assert {line["run"] for line in found} == {"abc"}
    assert all(datetime.fromisoformat(line["time"]).utcoffset() is not None for line in found)


def test_quiet_leaves_warnings() -> None:
    """Quiet lines are those of warnings."""
    stream = io.StringIO()
    with reporter(stream, run="abc", quiet=True) as told:
        told.note("x")
        told.warn("careful")
        told.step("sweep")(1, 1)
    assert [line["text"] for line in lines_of(stream.getvalue())] == ["careful"]


def write(folder: Path, cluster: str) -> Path:
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((200, 3)))
    path = folder / "c.yaml"
    path.write_text(
        f"name: x\ndata: {{train: {{path: '{folder}/x.npy'}}}}\nsolver: {{n_components: 2}}\n"
        f"gram: {{path: '{folder}/g.zarr'}}\nmodels: {{path: '{folder}/models'}}\ncluster: {cluster}\n"
    )
    return path


def test_a_command_tells_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With ``--log-json`` all of standard error is lines of JSON of one run; the result stays."""
    path = write(tmp_path, "{kind: threads}")
    assert main(["fit", str(path), "--json", "--log-json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["result"]["n_samples"] == 200
    found = lines_of(err)
    assert len({line["run"] for line in found}) == 1
    assert "rows" in {line.get("stage") for line in found}


def test_failures_are_lines_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An error is a line with its exit code, one for each mistake."""
    path = write(tmp_path, "{kind: threads}")
    assert main(["fit", str(path), "--log-json", "--set", "solver.tol=-1", "--set", "seed=-1"]) == 2
    found = lines_of(capsys.readouterr().err)
    assert [(line["event"], line["exit_code"]) for line in found] == [("error", 2)] * 2


@pytest.mark.cluster
def test_the_dashboard_and_the_report_are_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A command on processes tells where its dashboard is, and leaves Dask's report where it is asked to."""
    pytest.importorskip("bokeh", reason="Bokeh is not installed: pip install 'kpca-stream[dashboard]'")
    cluster = f"{{kind: local, n_workers: 1, performance_report: '{tmp_path}/reports/dask.html'}}"
    assert main(["fit", str(write(tmp_path, cluster)), "--log-json"]) == 0
    found = lines_of(capsys.readouterr().err)
    dashboards = [line["text"] for line in found if line.get("text", "").startswith("dashboard: ")]
    assert len(dashboards) == 1
    assert dashboards[0].startswith("dashboard: http://127.0.0.1:")
    text = (tmp_path / "reports" / "dask.html").read_text()
    assert "look_at" in text


@pytest.mark.parametrize(
    ("extra", "section"),
    [
        ("slurm", {"kind": "slurm", "slurm": {"interface": "lo"}}),
        ("k8s", {"kind": "kubernetes", "kubernetes": {"image": "i"}}),
        ("dashboard", {"kind": "local", "n_workers": 1, "performance_report": "r.html"}),
    ],
)
@pytest.mark.cluster
def test_missing_extras_are_named(
    extra: str, section: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a package of an extra is not installed, the message names the extra and how to install it."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with (
        pytest.raises(ConfigError, match=rf"pip install 'kpca-stream\[{extra}\]'"),
        connect_as(Cluster.model_validate(section), memory=2**20),
    ):
        pytest.fail("started without its package")
