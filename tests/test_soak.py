"""Random faults end in a refusal or in the same bits, and what does not is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.soak.disks import can_mount
from tests.soak.job import Job, write_rows
from tests.soak.trial import KINDS, soak

pytestmark = pytest.mark.slow

SEED = 27
needs_mounts = pytest.mark.skipif(not can_mount(), reason="this user may not make a mount namespace")
MARKS = {"disk": needs_mounts, "worker": pytest.mark.cluster}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=MARKS[kind]) if kind in MARKS else kind for kind in KINDS]
)
def test_a_trial_of_each_kind_of_fault(kind: str, tmp_path: Path) -> None:
    """Each kind of fault is met, and the fit ends as the undisturbed one."""
    faults, n_differences = soak(tmp_path, SEED, 0, lambda done: done == 1, {kind: KINDS[kind]})
    assert n_differences == 0
    assert faults.total() > 1  # the last one is that of the basis
    assert list(tmp_path.iterdir()) == []


def test_another_end_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fit that silently ends otherwise is counted and told, its folder kept, and the next trial follows."""

    def change(job: Job) -> None:
        write_rows(job.train, job.X + np.arange(len(job.X))[:, None])

    _, n_differences = soak(tmp_path, SEED, 0, lambda done: done == 2, {"change": change})
    assert n_differences == 2
    out, err = capsys.readouterr()
    assert f"2 trials from 0 on, seed {SEED}: 2 differences" in out
    assert err.splitlines()[0].startswith("trial 0: fit: eigenvalues [")
    assert (tmp_path / "trial-1" / "log.txt").exists()
