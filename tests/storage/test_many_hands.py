"""Promotions by many hands, beside readers, and sudden deaths."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import anywhere, publish, read_whole

ROOT = Path(__file__).resolve().parents[2]
SEED = 20261


@pytest.fixture
def registry(models: str) -> Registry:
    made = Registry.of(models, "digits")
    for _ in range(3):
        publish(made)
    return made


READ = """
import sys, time
from pathlib import Path
from kpca_stream.storage.registry import Registry
from tests.storage.versions import anywhere, read_whole
registry, seen = Registry.of(sys.argv[1], "digits"), []
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    seen.append(read_whole(registry))
print(len(seen), len(set(seen)), min(seen), seen[-1])
"""


@anywhere
@pytest.mark.slow
def test_readers_see_one_whole_version_during_many_promotions(
    registry: Registry, tmp_path: Path, models: str
) -> None:
    """Four processes that open the champion in a loop see no mixture and never nothing, while versions go."""
    registry.promote(1)
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", READ, models, str(stop)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    readers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    assert [reader.stdout.readline() for reader in readers if reader.stdout] == ["ready\n"] * 4
    removed = []
    n_promotions, patience = (50, 0.2) if isinstance(registry.folder, Path) else (15, 3)
    for _ in range(n_promotions):
        registry.promote(publish(registry))
        removed += collect(registry, Retention(keep=1, age=0.5)).removed
    time.sleep(patience)  # so that each opens the last one
    stop.touch()
    told = [reader.communicate(timeout=60) for reader in readers]
    assert [(reader.returncode, errors) for reader, (_, errors) in zip(readers, told, strict=True)] == [
        (0, "")
    ] * 4
    seen = [[int(word) for word in out.split()] for out, _ in told]
    assert all(distinct > 3 and last == 3 + n_promotions for _, distinct, _, last in seen)
    assert len(removed) > n_promotions / 5


PROMOTE = """
import sys
from pathlib import Path
from kpca_stream.storage.registry import Registry
registry = Registry.of(sys.argv[1], "digits")
for _ in range(20):
    for version in (1, 2, 3):
        registry.promote(version)
"""


@anywhere
def test_promotions_at_the_same_time_lose_no_way_back(registry: Registry, models: str) -> None:
    """Of three processes that promote at once each one's steps are remembered, and the alias is whole."""
    registry.promote(1)
    command = [sys.executable, "-c", PROMOTE, models]
    children = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [child.wait(timeout=120) for child in children] == [0, 0, 0]
    found = registry.aliases()["champion"]
    assert sorted((found.version, *found.before)) == [1, 2, 3]
    assert {version for version, _ in found.left} == {1, 2, 3}


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import anywhere, contents

models, step = Path(sys.argv[1]), sys.argv[2]
whole = contents(models / "digits" / "versions")
steps = {
    "promote": lambda r: r.promote(3),
    "rollback": lambda r: r.rollback(),
    "refuse": lambda r: r.refuse(1, "worse"),
    "collect": lambda r: collect(r, Retention(keep=1, age=0)),
}
WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "open", "fcntl.flock")


def done_by_a_child(registry, n):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    left = [n]

    def hook(event, _):
        if event in WRITES:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    steps[step](registry)
    os._exit(0)


for n in range(2000):
    copy = models.with_name(f"{models.name}-{n}")
    shutil.copytree(models, copy)
    registry = Registry.of(copy, "digits")
    done = done_by_a_child(registry, n)
    champion = registry.resolve()
    assert champion in (1, 2, 3), champion
    for version in registry.versions():
        found = contents(registry.basis_path(version).parent)
        assert found == {k.partition("/")[2]: v for k, v in whole.items() if k.startswith(f"{version}/")}
    assert champion in registry.versions()
    if step != "rollback" or registry.resolve() == 2:  # a second call would go back once more
        steps[step](registry)
    left = [p.name for p in (registry.folder / "versions").iterdir()]
    result = registry.resolve(), registry.versions(), registry.refusal(registry.versions()[0]), left
    shutil.rmtree(copy)
    if done:
        break
    ends = result if n == 0 else ends
    assert result == ends, (n, result, ends)
print(n)
"""


@pytest.mark.parametrize("step", ["promote", "rollback", "refuse", "collect"])
def test_killed_at_every_step(registry: Registry, tmp_path: Path, step: str) -> None:
    """Killed before each system call in turn, a step leaves a whole champion, and the next call ends it."""
    registry.promote(1)
    registry.promote(2)
    publish(registry)
    command = [sys.executable, "-c", KILLED, str(tmp_path), step]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 5


PUBLISH = """
import sys
from pathlib import Path
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.retention import Retention, collect
from tests.storage.versions import anywhere, publish
registry = Registry.of(sys.argv[1], "digits")
print("ready", flush=True)
while True:
    registry.promote(publish(registry))
    collect(registry, Retention(keep=2, age=0))
"""


@anywhere
@pytest.mark.slow
def test_killed_at_seeded_moments(registry: Registry, models: str) -> None:
    """A process that publishes, promotes and takes away leaves a whole champion at each of ten kills."""
    registry.promote(1)
    rng = np.random.default_rng(SEED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    champions = []
    for _ in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", PUBLISH, models], stdout=subprocess.PIPE, env=environment
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.25))
        child.kill()
        child.communicate()
        champions.append(read_whole(registry))
    assert champions == sorted(champions)
    registry.promote(publish(registry))
    collect(registry, Retention(keep=1, age=0))
    assert read_whole(registry) == registry.versions()[-1] > 5
