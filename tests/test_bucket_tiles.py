"""Tiles in a bucket: those of a folder to the byte, found again after a kill, refused if they are others'."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from kpca_stream.addresses import Address
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.pipeline import fit_config, plan_config, verify_store
from kpca_stream.refitting import refit_config
from kpca_stream.results import FitSummary
from kpca_stream.storage import objects
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import silent
from tests import refits
from tests.buckets import Buckets
from tests.disturb import killed, started, wait_until, write_yaml
from tests.jobs import command, configured, contents
from tests.scorings import X

N_ROWS, TILE_ROWS, N_TILES = 1200, 128, 55
SMALL_ROWS, N_SMALL = 64, 190
UNDER_WAY_SECONDS = 2.0
"""After which a put whose sender was killed has come, or never will."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "train.npy", X)
    return tmp_path


def fit(
    folder: Path, place: str, models: str = "models", *, restart: bool = False, **changes: Any
) -> FitSummary:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    asked = {"score": None, "gram.path": place, "models.path": str(folder / models)}
    return fit_config(configured(folder, asked | named), silent(), restart=restart)


def held(place: str) -> dict[str, bytes]:
    """All objects at a place."""
    root = Address.parse(place)
    found = {entry.key: objects.get(root / entry.key) for entry in objects.tree(root)}
    return {key: object_.data for key, object_ in found.items() if object_ is not None}


def test_tiles_are_those_of_a_folder(folder: Path, bucket: str) -> None:
    """The bucket holds the files that Zarr reads, byte for byte those of a folder; all else is local."""
    expected = fit(folder, str(folder / "gram.zarr"), "others")
    found = fit(folder, f"{bucket}/g.zarr")
    files = contents(folder / "gram.zarr" / "tiles")
    assert {key: data for key, data in held(f"{bucket}/g.zarr").items() if key != "zarr.json"} == {
        f"tiles/{key}": data for key, data in files.items()
    }
    assert (found.eigenvalues, found.residual_norms) == (expected.eigenvalues, expected.residual_norms)
    work = Path("work", bucket.removeprefix("s3://"), "g.zarr")
    assert found.store == str(work)
    assert not (work / "tiles").exists()
    assert (work / "row_means").exists()


def test_tiles_are_found_again(folder: Path, bucket: str) -> None:
    """Another fit of the same rows and kernel makes no tile, also where the run's folder is new."""
    fit(folder, f"{bucket}/g.zarr")
    again = fit(folder, f"{bucket}/g.zarr", "others", gram__work=str(folder / "elsewhere"))
    assert (again.tiles_found, again.tiles_made, again.n_tiles) == (15, 0, 15)


def test_tiles_of_another_run_are_refused(folder: Path, bucket: str) -> None:
    """Tiles of another kernel are refused by what differs, and stay; with restart they give way."""
    fit(folder, f"{bucket}/g.zarr")
    before, other = held(f"{bucket}/g.zarr"), {"kernel__gamma": 0.1, "gram__work": str(folder / "elsewhere")}
    with pytest.raises(DataError, match=r"s3://.*/g\.zarr holds another run \(gamma: 0\.05 there, 0\.1 now"):
        fit(folder, f"{bucket}/g.zarr", **other)
    assert held(f"{bucket}/g.zarr") == before
    found = fit(folder, f"{bucket}/g.zarr", restart=True, **other)
    assert (found.tiles_found, found.tiles_made) == (0, 15)
    assert held(f"{bucket}/g.zarr").keys() == before.keys()


def test_objects_of_others_are_left_alone(folder: Path, bucket: str) -> None:
    """An address where something else lies is refused, with restart too."""
    objects.put(Address.parse(f"{bucket}/mine/notes.txt"), b"to whom it may concern")
    for restart in (False, True):
        with pytest.raises(ConfigError, match=r"holds other objects .* notes\.txt; choose a new address"):
            fit(folder, f"{bucket}/mine", restart=restart)
    assert held(f"{bucket}/mine") == {"notes.txt": b"to whom it may concern"}
    tile = Address.parse(f"{bucket}/unnamed/tiles/c/0/0")
    objects.put(tile, b"1")
    with pytest.raises(DataError, match="has tiles, but does not say of which data"):
        fit(folder, f"{bucket}/unnamed")


def test_a_group_of_others_is_left_alone(folder: Path, bucket: str) -> None:
    """A Zarr group that is no run's is refused."""
    zarr.create_group(folder / "other.zarr", attributes={"a": 1})
    objects.put(Address.parse(f"{bucket}/other.zarr/zarr.json"), folder / "other.zarr" / "zarr.json")
    with pytest.raises(ConfigError, match="is another Zarr group"):
        fit(folder, f"{bucket}/other.zarr")


def test_damaged_tiles_are_found_and_made_again(folder: Path, bucket: str) -> None:
    """Verify, given the run's folder, names a tile in the bucket that was changed; a fit makes it again."""
    expected = fit(folder, f"{bucket}/g.zarr")
    place = f"{bucket}/g.zarr"
    key = Address.parse(place) / "tiles/c/1/2"
    before = held(place)
    objects.put(key, before["tiles/c/1/2"][:-1] + b"x")
    objects.delete(Address.parse(place) / "tiles/c/0/3")
    report = verify_store(expected.store, silent())
    details = {check.name: check.detail for check in report.checks if not check.ok}
    assert "first missing (0, 3)" in details["tiles"]
    assert "first damaged (1, 2)" in details["checksums"]
    with pytest.warns(UserWarning, match=r"2 tiles were cut, changed or lost .* \(0, 3\), \(1, 2\)"):
        again = fit(folder, place, "others")
    assert again.eigenvalues == expected.eigenvalues
    assert held(place) == before
    assert all(check.ok for check in verify_store(expected.store, silent()).checks)


def test_tiles_alone_are_no_store(folder: Path, bucket: str) -> None:
    """Verify of the bucket's address says what to give instead."""
    fit(folder, f"{bucket}/g.zarr")
    with pytest.raises(ConfigError, match=r"holds the tiles of a run; give the run's own folder"):
        verify_store(f"{bucket}/g.zarr", silent())


def test_a_refit_leaves_no_tiles(folder: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a re-fit lie in the bucket while it is under way, and go when its version is there."""
    refits.landed(folder)
    changes = {"gram__path": f"{bucket}/g.zarr", "gram__storage": "zarr"}
    seen: list[int] = []
    promote = Registry.promote

    def looked(registry: Registry, version: int, **more: Any) -> Any:
        seen.append(len(held(f"{bucket}/g.zarr.rows.refit")))
        return promote(registry, version, **more)

    monkeypatch.setattr(Registry, "promote", looked)
    found = refit_config(refits.model(folder, "lanczos", **changes), silent())
    assert found.action == "promoted"
    assert seen[0] > 5
    assert held(bucket) == {}


def test_a_plan_counts_tiles_where_they_lie(folder: Path) -> None:
    """Tiles in a bucket take none of the disk and longer; nothing is asked of the bucket."""
    asked = {"score": None, "limits.disk": "100MiB"}
    shape = (50_000, 20)
    on_disk = plan_config(configured(folder, asked), silent(), shape=shape)
    in_bucket = plan_config(
        configured(folder, asked | {"gram.path": "s3://nowhere/g.zarr"}), silent(), shape=shape
    )
    assert (on_disk.bucket_tiles, in_bucket.disk_tiles) == (0, 0)
    assert in_bucket.bucket_tiles == on_disk.disk_tiles > 0
    assert in_bucket.disk_total == on_disk.disk_total - on_disk.disk_tiles
    assert on_disk.refusals
    assert not in_bucket.refusals
    assert in_bucket.seconds > on_disk.seconds


def test_a_run_has_one_folder(folder: Path) -> None:
    """A folder for all but the tiles is refused where the tiles lie in a folder themselves."""
    with pytest.raises(ValueError, match=r"work.*only for a gram\.path such as s3://bucket/gram\.zarr"):
        configured(folder, {"gram.work": "elsewhere"})


def write_job(folder: Path, place: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((12, 40))[rng.integers(0, 12, N_ROWS)])
    np.save(folder / "x.npy", np.load(folder / "x.npy") + 0.7 * rng.standard_normal((N_ROWS, 40)))
    sections = {
        "name": "killed",
        "data": {"train": {"path": str(folder / "x.npy")}},
        "kernel": {"name": "rbf", "gamma": 0.01},
        "solver": {"method": "lanczos", "n_components": 5, "precision": "float64"},
        "gram": {"storage": "zarr", "path": place, "tile_rows": SMALL_ROWS, "checkpoint_seconds": 0.001},
        "cluster": {"kind": kind, "n_workers": 2, "threads_per_worker": 1},
    }
    write_yaml(folder / "c.yaml", sections)


def present(place: str) -> set[str]:
    return {entry.key for entry in objects.tree(Address.parse(f"{place}/tiles/c"))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", pytest.param("local", marks=pytest.mark.cluster)])
def test_a_fit_that_is_killed_makes_no_tile_twice(
    kind: str, tmp_path: Path, bucket: str, buckets: Buckets
) -> None:
    """Three kills in the build, of a store that fails, loses answers and stalls: each tile is made once."""
    (tmp_path / "alone").mkdir()
    write_job(tmp_path / "alone", "gram.zarr", "threads")
    done = command(tmp_path / "alone", "fit", "c.yaml", "--json", "--quiet", check=True)
    expected = json.loads(done.stdout)["result"]
    place = f"{bucket}/g.zarr"
    write_job(tmp_path, place, kind)
    buckets.fail(failing=0.05, lost=0.02, stalling=0.02, seed=8)
    before: set[str] = set()
    for _ in range(3):
        with started(tmp_path, "fit", "c.yaml") as process:
            assert wait_until(lambda: len(present(place)) >= len(before) + 6, process)  # noqa: B023  called at once
            assert killed(process) == []
        time.sleep(UNDER_WAY_SECONDS)
        assert before < present(place)
        before = present(place)
    assert len(before) < N_SMALL
    done = command(tmp_path, "fit", "c.yaml", "--json", "--quiet", check=True)
    found = json.loads(done.stdout)["result"]
    assert (found["tiles_found"], found["tiles_made"]) == (len(before), N_SMALL - len(before))
    for key in ("eigenvalues", "residual_norms", "n_passes"):
        assert found[key] == expected[key]
    assert buckets.counts()["failing"] > 5
    buckets.fail()
    tiles = contents(tmp_path / "alone" / "gram.zarr" / "tiles")
    assert {key: data for key, data in held(place).items() if key != "zarr.json"} == {
        f"tiles/{key}": data for key, data in tiles.items()
    }
