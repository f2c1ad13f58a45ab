"""Fits through a real Slurm, both ways: workers as jobs of their own, and all in one allocation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kpca_stream.config import load_config
from kpca_stream.pipeline import fit_config
from kpca_stream.results import FitSummary
from kpca_stream.telemetry import silent
from tests.disturb import ROOT, wait_until, write_yaml
from tests.minislurm import MiniSlurm, minislurm, why_not

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

FORMS = ("jobs", "allocation")
N_ROWS, TILE_ROWS = 1600, 64
KERNEL = """
import time

def slow(X, Y):
    time.sleep(0.04)
    return X @ Y.T
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[MiniSlurm]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, minislurm(Path(name)) as found:
        yield found


def write_job(folder: Path, form: str | None) -> Path:
    """A fit of seconds, whose configuration and script lie in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel_of_slurm.py").write_text(KERNEL)
    np.save(folder / "x.npy", np.random.default_rng(1).standard_normal((N_ROWS, 6)))
    cluster: dict[str, Any] = {
        "kind": "slurm",
        "n_workers": 2,
        "wait_seconds": 120,
        "slurm": {"interface": "lo", "queue": "main", "form": form, "walltime": "00:10:00"},
    }
    sections = {
        "name": "on-slurm",
        "data": {"train": {"path": "x.npy"}},
        "kernel": {"name": "kernel_of_slurm:slow"},
        "solver": {"method": "lanczos", "n_components": 3, "precision": "float64"},
        "gram": {"storage": "zarr", "path": "g.zarr", "tile_rows": TILE_ROWS, "checkpoint_seconds": 0.5},
        "limits": {"memory": "512MiB"},
        "cluster": {"kind": "threads", "n_workers": 2} if form is None else cluster,
    }
    write_yaml(folder / "c.yaml", sections)
    script = folder / "fit.sh"
    # exec: Slurm's signals reach the command itself.
    script.write_text(f"#!/bin/bash\nexec {sys.executable} -m kpca_stream fit c.yaml --json >out.json\n")
    return script


def submitted(slurm: MiniSlurm, script: Path) -> str:
    options = ["--ntasks=2", "--mem=2G", "--time=00:10:00", "--output=log-%j", f"--chdir={script.parent}"]
    return slurm.submit(script, *options, f"--export=ALL,PYTHONPATH={ROOT}")


def tiles(folder: Path) -> int:
    return sum(1 for path in (folder / "g.zarr" / "tiles" / "c").glob("*/*") if path.suffix == "")


def logs(folder: Path) -> str:
    found = [*folder.glob("log-*"), *folder.glob("work/logs/*")]
    return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in found)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> FitSummary:
    folder = tmp_path_factory.mktemp("undisturbed")
    write_job(folder, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        return fit_config(load_config("c.yaml"), silent())


@pytest.mark.parametrize("form", FORMS)
def test_a_cancelled_fit_goes_on_when_submitted_again(
    form: str, slurm: MiniSlurm, undisturbed: FitSummary, tmp_path: Path
) -> None:
    """A fit cancelled in the middle ends, submitted again, with the bits of an undisturbed one."""
    script = write_job(tmp_path, form)
    first = submitted(slurm, script)
    reached = wait_until(lambda: tiles(tmp_path) >= 20, seconds=180)
    assert reached, logs(tmp_path)
    slurm.call("scancel", first)
    assert wait_until(lambda: not slurm.jobs(), seconds=60), slurm.call("squeue")
    left = tiles(tmp_path)
    assert left < undisturbed.n_tiles, "the fit had ended before it was cancelled"
    assert not (tmp_path / "models" / "on-slurm" / "versions" / "1" / "manifest.json").exists()

    second = submitted(slurm, script)
    assert slurm.wait(second) == 0, logs(tmp_path)
    found = json.loads((tmp_path / "out.json").read_text())["result"]
    assert found["tiles_found"] == left
    assert found["eigenvalues"] == list(undisturbed.eigenvalues)
    assert found["residual_norms"] == list(undisturbed.residual_norms)
    assert wait_until(lambda: not slurm.jobs(), seconds=60), "jobs of workers were left behind"


def test_workers_that_are_cancelled_end_the_fit_for_now(
    slurm: MiniSlurm, undisturbed: FitSummary, tmp_path: Path
) -> None:
    """Where Slurm takes all workers away the command gives up with exit 75; the next one goes on."""
    write_job(tmp_path, "jobs")
    command = [sys.executable, "-m", "kpca_stream", "fit", "c.yaml", "--json", "--quiet"]
    environment = slurm.environment | {"PYTHONPATH": str(ROOT)}
    few = [*command, "--set", "cluster.wait_seconds=30"]
    process = subprocess.Popen(few, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: tiles(tmp_path) >= 20, process, 120), logs(tmp_path)
        slurm.call("scancel", "--name=dask-worker")
        assert process.wait(120) == 75, logs(tmp_path)
    finally:
        process.kill()
        process.wait()
    left = tiles(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["result"]
    assert found["tiles_found"] == left
    assert found["eigenvalues"] == list(undisturbed.eigenvalues)


def test_an_allocation_needs_a_job(tmp_path: Path) -> None:
    """Outside a job the form that starts its own workers says how to be run."""
    write_job(tmp_path, "allocation")
    environment = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_ID"}
    command = [sys.executable, "-m", "kpca_stream", "fit", "c.yaml", "--quiet"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "got allocation outside a job" in done.stderr


def test_the_deployed_scripts_work(slurm: MiniSlurm, tmp_path: Path) -> None:
    """The scripts of ``deploy/slurm`` and the recipe make a first fit, and score files as an array."""
    program = tmp_path / "bin" / "kpca-stream"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kpca_stream "$@"\n')
    program.chmod(0o755)
    deploy, recipe = ROOT / "deploy" / "slurm", str(ROOT / "configs" / "slurm.yaml")
    export = f"--export=ALL,PATH={program.parent}:{slurm.environment['PATH']}"
    here = [f"--chdir={tmp_path}", export]
    job = slurm.submit(deploy / "fit.sh", *here, arguments=[recipe])
    assert slurm.wait(job) == 0, "\n".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert (tmp_path / "models" / "digits" / "versions" / "1" / "manifest.json").exists()

    digits, incoming = load_digits(), tmp_path / "incoming"
    incoming.mkdir()
    header = ",".join(digits.feature_names)
    for number in range(3):
        rows = digits.data[1500 + 20 * number :][:20]
        np.savetxt(incoming / f"{number}.csv", rows, delimiter=",", header=header, comments="")
    arguments = [recipe, str(incoming)]
    slurm.submit(deploy / "score-array.sh", "--array=0-1", *here, arguments=arguments)
    assert wait_until(lambda: not slurm.jobs(), seconds=120)
    told = "\n".join(path.read_text() for path in tmp_path.glob("kpca-score-*.log"))
    scored = {path.parent.name for path in (tmp_path / "scores-of-files").glob("*/*.parquet")}
    assert scored == {"0.csv", "1.csv", "2.csv"}, told
