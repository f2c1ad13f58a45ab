"""Accumulators and how far they got."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from kpca_stream.errors import KpcaStreamWarning
from kpca_stream.storage.checkpoint import Checkpoints

SUMS = np.random.default_rng(0).standard_normal((7, 3))
FACTS = {"n_folded": 4, "checksum": 2**32 - 1, "name": "γ"}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def saved(checkpoints: Checkpoints) -> Path:
    checkpoints.save("pass", {"sums": SUMS, "counts": np.arange(3)}, FACTS)
    return checkpoints.folder / "pass.npz"


def test_checkpoint_comes_back_to_the_bit(checkpoints: Checkpoints) -> None:
    """Arrays and facts are what was saved, in arrays that may be written to."""
    saved(checkpoints)
    found = checkpoints.load("pass")
    assert found is not None
    arrays, facts = found
    assert facts == FACTS
    assert set(arrays) == {"sums", "counts"}
    assert np.array_equal(arrays["sums"], SUMS)
    assert arrays["sums"].dtype == SUMS.dtype
    assert arrays["counts"].tolist() == [0, 1, 2]
    arrays["sums"] += 1


def test_later_checkpoint_replaces_the_earlier(checkpoints: Checkpoints) -> None:
    """Of two with one name the second counts; another name is another checkpoint."""
    saved(checkpoints)
    checkpoints.save("other", {}, {})
    checkpoints.save("pass", {"sums": SUMS + 1}, {"n_folded": 5})
    found = checkpoints.load("pass")
    assert found is not None
    assert np.array_equal(found[0]["sums"], SUMS + 1)
    assert checkpoints.load("other") == ({}, {})
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["other.npz", "pass.npz"]


def test_no_checkpoint_is_none_without_a_word(checkpoints: Checkpoints) -> None:
    """Where nothing was saved nothing is found, and nothing is said."""
    assert checkpoints.load("pass") is None
    saved(checkpoints)
    assert checkpoints.load("other") is None


@pytest.mark.parametrize("length", [0, 1, 30, 200, 500, -1])
def test_cut_checkpoint_is_warned_of(checkpoints: Checkpoints, length: int) -> None:
    """A file cut anywhere is named in a warning and counts as none."""
    path = saved(checkpoints)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.warns(KpcaStreamWarning, match=r"pass\.npz cannot be read .* done again"):
        assert checkpoints.load("pass") is None


def test_changed_checkpoint_is_never_believed(checkpoints: Checkpoints) -> None:
    """Whatever single bit of the file is flipped, what is loaded is what was saved or nothing."""
    path = saved(checkpoints)
    content = path.read_bytes()
    refused = 0
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KpcaStreamWarning)
            found = checkpoints.load("pass")
        refused += found is None
        if found is not None:
            assert found[1] == FACTS
            assert np.array_equal(found[0]["sums"], SUMS)
    assert refused > len(content) / 2


def test_file_of_something_else_is_warned_of(checkpoints: Checkpoints) -> None:
    """A file that is no archive, and an archive of other things, count as none."""
    path = saved(checkpoints)
    path.write_bytes(b"not an archive at all, but some text")
    with pytest.warns(KpcaStreamWarning, match="cannot be read"):
        assert checkpoints.load("pass") is None
    np.savez(path, something=np.zeros(3))
    with pytest.warns(KpcaStreamWarning, match="cannot be read"):
        assert checkpoints.load("pass") is None


def test_pickled_array_is_not_loaded(checkpoints: Checkpoints) -> None:
    """An archive that holds a pickle is not opened, since opening one runs code."""
    path = saved(checkpoints)
    np.savez(path, contents=np.array([object()], dtype=object))
    with pytest.warns(KpcaStreamWarning, match="cannot be read"):
        assert checkpoints.load("pass") is None


def test_objects_are_not_saved(checkpoints: Checkpoints) -> None:
    """An array of objects is refused, and the earlier checkpoint stays."""
    saved(checkpoints)
    with pytest.raises(ValueError, match="allow_pickle"):
        checkpoints.save("pass", {"sums": np.array([object()], dtype=object)}, {})
    found = checkpoints.load("pass")
    assert found is not None
    assert found[1] == FACTS


def test_interrupted_write_leaves_the_earlier(checkpoints: Checkpoints) -> None:
    """A half-written file beside it changes nothing, and goes with the next write or the clearing."""
    path = saved(checkpoints)
    partial = path.with_name("pass.npz.partial")
    partial.write_bytes(path.read_bytes()[:40])
    found = checkpoints.load("pass")
    assert found is not None
    assert found[1] == FACTS
    checkpoints.clear()
    assert list(checkpoints.folder.iterdir()) == []


def test_forgotten_checkpoints_are_gone(checkpoints: Checkpoints) -> None:
    """One is removed by name, all by clearing; both may be asked for again."""
    checkpoints.clear()
    saved(checkpoints)
    checkpoints.save("other", {}, {})
    for _ in range(2):
        checkpoints.remove("pass")
    assert checkpoints.load("pass") is None
    assert checkpoints.load("other") is not None
    for _ in range(2):
        checkpoints.clear()
    assert checkpoints.load("other") is None
