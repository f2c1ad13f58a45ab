"""The run's store."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from kpca_stream.errors import ConfigError, DataError
from kpca_stream.storage import premises
from kpca_stream.storage.chunked import create_array, write_array
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.naming import FORMAT_VERSION
from kpca_stream.storage.whole import remove_tree, sweep_leftovers, write_json

IDENTITY: dict[str, Any] = {
    "fingerprint": "abc",
    "kernel": "rbf",
    "gamma": 0.1,
    "tile_rows": 16,
    "columns": ("x", "y"),
}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.open(tmp_path / "runs" / "gram.zarr")


def test_new_store_is_an_empty_group(store: RunStore) -> None:
    """Opening a path that is not there makes it, with its parents, and nothing in it."""
    assert store.identity == {}
    assert store.rows() is None
    assert store.present_tiles() == set()
    assert zarr.open_group(store.path, mode="r").metadata.zarr_format == 3


def test_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    """A folder that is there but empty, or holds a lock only, is taken; so is a path that is not there."""
    premises.check(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "lock").touch()
    premises.check(tmp_path)
    assert RunStore.open(tmp_path).identity == {}


def test_something_else_is_not_overwritten(tmp_path: Path) -> None:
    """A file, or a folder with other things in it, is refused by name and left as it was."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("mine")
    for name in ("file", "folder"):
        for refuses in (premises.check, RunStore.open):
            with pytest.raises(ConfigError, match=f"{name} is not a run's store"):
                refuses(tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "thesis.tex"]


def test_store_belongs_to_one_run(store: RunStore) -> None:
    """A claimed store is found again by the same run, in another process too."""
    store.claim(IDENTITY)
    again = RunStore.open(store.path)
    again.claim(IDENTITY)
    assert again.identity == {"format_version": FORMAT_VERSION} | IDENTITY | {"columns": ["x", "y"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gamma": 0.2}, r"gamma: 0\.1 there, 0\.2 now"),
        ({"kernel": "laplacian"}, "kernel: 'rbf' there, 'laplacian' now"),
        ({"fingerprint": "abd"}, "fingerprint: 'abc' there, 'abd' now"),
        ({"tile_rows": 32, "gamma": 1}, r"gamma: 0\.1 there, 1 now; tile_rows: 16 there, 32 now"),
        ({"coef0": 1.0}, r"coef0: None there, 1\.0 now"),
        ({"format_version": 99}, f"format_version: {FORMAT_VERSION} there, 99 now"),
    ],
)
def test_another_run_is_refused_by_what_differs(store: RunStore, change: dict[str, Any], said: str) -> None:
    """Other data, another kernel, tiling or format are named with both values, and change nothing."""
    store.claim(IDENTITY)
    with pytest.raises(DataError, match=f"gram.zarr holds another run .*{said}"):
        RunStore.open(store.path).claim(IDENTITY | change)
    RunStore.open(store.path).claim(IDENTITY)


def test_some_of_the_identity_is_checked_early(store: RunStore) -> None:
    """What is known of a run before its sweep is compared alone; a new store refuses nothing."""
    early = {"kernel": "laplacian", "fingerprint": "other"}
    store.refuse_other(early, ["kernel"])
    store.claim(IDENTITY)
    with pytest.raises(DataError, match=r"\(kernel: 'rbf' there, 'laplacian' now\)"):
        store.refuse_other(early, ["kernel"])
    store.refuse_other({"kernel": "rbf", "fingerprint": "other"}, ["kernel"])


def test_tiles_are_chunks_with_a_checksum(store: RunStore) -> None:
    """Tiles are one chunk each, of crc32c alone, NaN where nothing was written, with named dimensions."""
    tiles = store.open_tiles(10, 4, np.float32)
    tiles[0:4, 4:8] = np.ones((4, 4), np.float32)
    metadata = json.loads((store.path / "tiles" / "zarr.json").read_text())
    assert [codec["name"] for codec in metadata["codecs"]] == ["bytes", "crc32c"]
    assert metadata["fill_value"] == "NaN"
    assert metadata["dimension_names"] == ["row", "column"]
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [4, 4]
    assert (store.path / "tiles" / "c" / "0" / "1").stat().st_size == 4 * 16 + 4
    assert np.isnan(np.asarray(tiles[8:10, 8:10])).all()


def test_tiles_are_opened_again(store: RunStore) -> None:
    """What was written is there when the store is opened again; other tiles are refused."""
    store.open_tiles(10, 4, np.float32)[0:4, 0:4] = np.full((4, 4), 7, np.float32)
    again = RunStore.open(store.path)
    assert np.asarray(again.open_tiles(10, 4, np.float32)[0, 0]) == 7
    for asked in ((11, 4, np.float32), (10, 5, np.float32), (10, 4, np.float64)):
        with pytest.raises(DataError, match="holds tiles of"):
            again.open_tiles(*asked)


def test_tiles_are_found_by_listing(store: RunStore) -> None:
    """Written tiles are listed, also one full of zeros; listing leaves what others are writing alone."""
    tiles = store.open_tiles(10, 4, np.float64)
    tiles[0:4, 8:10] = np.zeros((4, 2))
    tiles[4:8, 4:8] = np.ones((4, 4))
    leftover = store.path / "tiles" / "c" / "0" / "1.0123456789abcdef.partial"
    leftover.write_bytes(b"half")
    stranger = store.path / "tiles" / "c" / "0" / ".DS_Store"
    stranger.write_bytes(b"?")
    assert store.present_tiles() == {(0, 2), (1, 1)}
    assert store.leftovers() == [leftover]
    assert store.sweep() == [leftover]
    assert not leftover.exists()
    assert stranger.exists()


def test_vectors_are_published_whole(store: RunStore) -> None:
    """A block of vectors can be read in parts; the next one takes its place, without leftovers."""
    V = np.random.default_rng(0).standard_normal((20, 3))
    for block in (V, (V + 1).astype(np.float32)[:, :2]):
        rows = store.publish("vectors", block)
        assert rows.dtype == block.dtype
        assert np.array_equal(rows.part(5, 9).load(), block[5:9])
    assert [path.name for path in store.path.glob("vectors*")] == ["vectors.npy"]


def test_means_are_kept(store: RunStore) -> None:
    """Row means, diagonal, grand mean and trace are there in float64 when the store is opened again."""
    row_means, diagonal = np.random.default_rng(0).standard_normal((2, 9))
    for shift in (1.0, 0.0):  # the second time replaces the first
        store.write_means(row_means + shift, diagonal, grand_mean=0.25, trace=3.5)
    group = zarr.open_group(store.path, mode="r")
    for name, values in (("row_means", row_means), ("diagonal", diagonal)):
        array = group[name]
        assert isinstance(array, zarr.Array)
        assert array.dtype == np.float64
        assert np.array_equal(np.asarray(array[...]), values)
    assert (group.attrs["grand_mean"], group.attrs["trace"]) == (0.25, 3.5)


def test_finished_store_keeps_what_is_of_use(store: RunStore) -> None:
    """Checkpoints and vectors go, tiles, means and identity stay; finishing twice is no error."""
    store.claim(IDENTITY)
    store.open_tiles(4, 4, np.float32)[...] = np.ones((4, 4), np.float32)
    store.publish("vectors", np.ones((4, 1)))
    store.checkpoints.save("pass", {"sums": np.ones(3)}, {})
    for _ in range(2):
        store.finish()
    assert store.checkpoints.load("pass") is None
    assert not (store.path / "vectors.npy").exists()
    assert RunStore.open(store.path).present_tiles() == {(0, 0)}
    assert RunStore.open(store.path).identity["kernel"] == "rbf"


def test_rows_are_found_where_they_are_stored(store: RunStore) -> None:
    """Stored rows have an address."""
    X = np.arange(12.0).reshape(6, 2)
    write_array(store.group, "rows", X, dimensions=("row", "column"))
    rows = RunStore.open(store.path).rows()
    assert rows is not None
    assert np.array_equal(rows.part(2, 4).load(), X[2:4])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (70_000,), (7, 3)])
def test_arrays_of_any_length_are_written(store: RunStore, shape: tuple[int, ...]) -> None:
    """Empty, short and long arrays come back as they were, in chunks of at most 65,536 rows."""
    values = np.random.default_rng(0).standard_normal(shape)
    write_array(store.group, "a", values, dimensions=("row", "column")[: len(shape)])
    array = store.group["a"]
    assert isinstance(array, zarr.Array)
    assert array.chunks[0] <= 65_536
    assert np.array_equal(np.asarray(array[...]), values)


def test_flipped_bit_is_an_error(store: RunStore) -> None:
    """Every array has a checksum a chunk: a changed file is not read."""
    array = create_array(store.group, "a", (4,), (4,), np.float64, dimensions=("row",))
    array[...] = np.ones(4)
    file = store.path / "a" / "c" / "0"
    content = bytearray(file.read_bytes())
    content[3] ^= 4
    file.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        np.asarray(array[...])


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A value that JSON cannot hold leaves the earlier file as it was."""
    path = tmp_path / "manifest.json"
    write_json(path, {"a": [1, "γ"]})
    for value in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            write_json(path, value)
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": [1, "γ"]}
    write_json(path, {"b": 2})
    assert json.loads(path.read_text()) == {"b": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_old_leftovers_are_swept(tmp_path: Path) -> None:
    """Hidden partial files and folders of yesterday go; fresh ones, perhaps still written to, stay."""
    for name in (".a.1.partial", ".b.2.partial", "c.partial", ".d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").touch()
    (tmp_path / ".e.3.partial").touch()
    for name in (".a.1.partial", ".e.3.partial", "c.partial", ".d"):
        os.utime(tmp_path / name, (0, 0))
    sweep_leftovers(tmp_path)
    sweep_leftovers(tmp_path / "not there")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.2.partial", ".d", "c.partial"]


def test_tree_is_removed(tmp_path: Path) -> None:
    """A folder goes with all that is in it; one that is not there is no error."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    for _ in range(2):
        remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_another_group_is_no_store(tmp_path: Path) -> None:
    """A Zarr group that no run wrote, such as a basis, is refused and left as it is."""
    group = zarr.open_group(tmp_path / "basis.zarr", mode="w", zarr_format=3)
    group.attrs["kpca_stream"] = {"format_version": 1}
    before = (tmp_path / "basis.zarr" / "zarr.json").read_bytes()
    with pytest.raises(ConfigError, match="another Zarr group"):
        RunStore.open(tmp_path / "basis.zarr")
    assert (tmp_path / "basis.zarr" / "zarr.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"zarr_format": 4, "node_type": "group"}'])
def test_damaged_store_is_named(content: bytes, tmp_path: Path) -> None:
    """A store whose metadata cannot be read is named, with the remedy."""
    RunStore.open(tmp_path / "gram.zarr")
    (tmp_path / "gram.zarr" / "zarr.json").write_bytes(content)
    with pytest.raises(DataError, match=r"gram.zarr/zarr.json is damaged .* --restart"):
        RunStore.open(tmp_path / "gram.zarr")


def test_store_that_lost_its_identity_is_named(tmp_path: Path) -> None:
    """Tiles of which nobody knows the data are never used."""
    store = RunStore.open(tmp_path / "gram.zarr")
    store.open_tiles(4, 2, np.float32)
    with pytest.raises(DataError, match=r"gram.zarr has tiles, but does not say of which data"):
        store.claim({"fingerprint": "a"})


def test_a_store_is_named_in_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever its description is read, however short ago it was written, an identity has its digest."""
    seen: list[bool] = []
    replace = Path.replace

    def looked_at(path: Path, target: Path) -> Path:
        found = replace(path, target)
        if target.name == "zarr.json":
            attributes = json.loads(target.read_text())["attributes"]
            seen.append("identity" in attributes)
            assert ("identity" in attributes) == ("digest" in attributes)
        return found

    monkeypatch.setattr(Path, "replace", looked_at)
    RunStore.open(tmp_path / "gram.zarr").claim(IDENTITY)
    assert seen == [False, True]


def test_changed_attributes_are_refused(store: RunStore) -> None:
    """An identity that was changed by hand is not compared, but refused by the name of its file."""
    store.claim(IDENTITY)
    store.check_attributes()
    store.group.attrs["identity"] = store.identity | {"gamma": 0.2}
    for identity in (IDENTITY, IDENTITY | {"gamma": 0.2}):
        with pytest.raises(DataError, match=r"gram\.zarr/zarr\.json was changed .* --restart"):
            RunStore.open(store.path).claim(identity)


@pytest.mark.parametrize(("old", "new"), [('"NaN"', "0.0"), ('"little"', '"big"')])
def test_changed_descriptions_of_tiles_are_refused(old: str, new: str, store: RunStore) -> None:
    """Tiles whose description would have them read otherwise are not opened."""
    store.open_tiles(10, 4, np.float64)
    path = store.path / "tiles" / "zarr.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=r"tiles/zarr\.json was changed"):
        RunStore.open(store.path).open_tiles(10, 4, np.float64)
