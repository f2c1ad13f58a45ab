"""Bases of the same landmarks are added up; whatever would not add up is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kpca_stream import load_basis
from kpca_stream.storage.basis import open_basis
from tests.disturb import flip
from tests.landmark_jobs import Run, correlated, halves, part, refused, runner, write_job


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path)
    return runner(capsys)


def same(path: str, expected: str) -> None:
    """Two bases say the same of new rows, up to signs of nearly equal entries."""
    new = correlated(60, seed=1)
    a, b = load_basis(path), load_basis(expected)
    np.testing.assert_allclose(a.eigenvalues, b.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(a.transform(new), b.transform(new), atol=1e-10)
    np.testing.assert_allclose(a.reconstruction_error(new), b.reconstruction_error(new), atol=1e-10)


def test_merged_halves_are_one_fit_of_all_rows(run: Run) -> None:
    """Eigenvalues, scores and errors are those of one fit with the same landmarks, and `verify` passes."""
    first, second = halves(run)
    merged = run("merge", first, second, "--into", "all.zarr")["result"]
    assert (merged["n_samples"], merged["merged"]) == (400, [first, second])
    assert open_basis(Path("all.zarr")).total_weight == 400
    same("all.zarr", part(run, "0:400", first))
    assert all(check["ok"] for check in run("verify", "all.zarr")["result"]["checks"])


def test_what_was_merged_is_merged_again(run: Run) -> None:
    """Three parts in two steps, and in another order, are one fit of all rows."""
    first = part(run, "0:150")
    second, third = part(run, "150:250", first), part(run, "250:400", first)
    run("merge", first, second, "--into", "two.zarr")
    run("merge", third, "two.zarr", "--into", "three.zarr")
    run("merge", second, third, first, "--into", "other.zarr")
    whole = part(run, "0:400", first)
    same("three.zarr", whole)
    same("other.zarr", whole)


def test_rows_do_not_count_twice(run: Run) -> None:
    """A basis that is named twice, or is part of another one already, is refused."""
    first, second = halves(run)
    for paths in ((first, first), (first, str(Path(first).resolve())), (first, second, first)):
        message = refused(run("merge", *paths, "--into", "x.zarr", code=65))
        assert "which would count twice" in message
    run("merge", first, second, "--into", "all.zarr")
    assert "all.zarr holds too" in refused(run("merge", "all.zarr", second, "--into", "x.zarr", code=65))
    assert not Path("x.zarr").exists()


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        (("seed=5",), "landmarks"),
        (("kernel.gamma=0.2",), "kernel"),
        (("kernel.name=laplacian",), "kernel"),
        (("data.scale=standard",), "means or scales of columns"),
        (("data.columns=[0, 1, 2]",), "columns"),
    ],
)
def test_what_differs_is_named(settings: tuple[str, ...], differs: str, run: Run) -> None:
    """Bases of other landmarks, kernels or columns are refused by that name, and how to go on."""
    first, second = part(run, "0:150"), part(run, "150:400", None, *settings)
    message = refused(run("merge", first, second, "--into", "x.zarr", code=65))
    assert message.startswith(f"{second} differs from {first} in ")
    assert differs in message.split(";")[0]
    assert f"nystrom.landmarks: {{basis: {first}}}" in message
    assert not Path("x.zarr").exists()


def test_what_is_no_part_is_refused(run: Run) -> None:
    """One basis alone, an exact one, one that is not there, and a place that is taken are refused."""
    first, second = halves(run)
    exact = part(run, "0:300", None, "solver.method=lanczos")
    assert "got 1, expected at least two" in refused(run("merge", first, "--into", "x.zarr", code=2))
    assert "of method lanczos and keeps no sums" in refused(
        run("merge", first, exact, "--into", "x.zarr", code=65)
    )
    assert "of method lanczos and keeps no sums" in refused(
        run("merge", exact, first, "--into", "x.zarr", code=65)
    )
    assert "none.zarr is not a basis" in refused(run("merge", first, "none.zarr", "--into", "x.zarr", code=2))
    before = {path: path.read_bytes() for path in Path(first).rglob("*") if path.is_file()}
    assert "exists" in refused(run("merge", first, second, "--into", first, code=2))
    assert before == {path: path.read_bytes() for path in Path(first).rglob("*") if path.is_file()}
    assert not Path("x.zarr").exists()


def test_a_flipped_bit_in_the_sums_is_refused(run: Run) -> None:
    """Sums, landmarks and drawn rows that were changed on disk are not added to anything."""
    first, second = halves(run)
    pieces = [path for path in sorted(Path(second).rglob("c/*")) if path.is_file()]
    arrays = {path.relative_to(second).parts[0] for path in pieces}
    assert len(arrays) > 3
    for seed, path in enumerate(pieces):
        content = path.read_bytes()
        flip(path, seed)
        message = refused(run("merge", first, second, "--into", "x.zarr", code=65))
        assert second in message
        path.write_bytes(content)
    run("merge", first, second, "--into", "x.zarr")
