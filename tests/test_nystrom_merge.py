"""Bases of the same landmarks are added up; whatever would not add up is refused."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from kpca_stream import load_basis
from kpca_stream.cli import main
from kpca_stream.storage.basis import open_basis
from tests.disturb import ROOT, flip
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


def test_the_readme_merges_two_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The README's commands, word for word, come to one fit of both days' rows with Monday's landmarks."""
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path)
    Path("c.yaml").rename("days.yaml")
    Path("x.npy").unlink()
    X = correlated()
    np.save("monday.npy", X[:150])
    np.save("tuesday.npy", X[150:])
    commands = [shlex.split(line) for line in command_of_readme("merge").splitlines()]
    assert [command[:2] for command in commands] == [
        ["kpca-stream", what] for what in ("fit", "fit", "merge")
    ]
    for command in commands:
        assert main(command[1:]) == 0, capsys.readouterr()
    np.save("both.npy", X)
    landmarks = "nystrom.landmarks={basis: models/monday/versions/1/basis.zarr}"
    both = ("data.train.path=both.npy", "name=both", "gram.path=work/both.zarr", landmarks)
    capsys.readouterr()
    same("both.zarr", runner(capsys)("fit", "days.yaml", settings=both)["result"]["basis"])


def command_of_readme(name: str) -> str:
    """The lines of the command that the README marks with a name, those that go on joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = text.split(f"<!-- command: {name} -->\n```sh\n")[1]
    return marked.split("```")[0].replace("\\\n", " ")


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
    """A basis that is named twice, is of the same rows, or is part of another one already, is refused."""
    first, second = halves(run)
    again = part(run, "0:150", first, "gram.path=again.zarr", "models.path=again")
    same_rows = ((first, first), (first, str(Path(first).resolve())), (first, second, first), (first, again))
    for paths in same_rows:
        message = refused(run("merge", *paths, "--into", "x.zarr", code=65))
        assert "which would count twice" in message
    run("merge", first, second, "--into", "all.zarr")
    for basis in (first, second, again):
        assert "all.zarr holds too" in refused(run("merge", "all.zarr", basis, "--into", "x.zarr", code=65))
    assert not Path("x.zarr").exists()
    fingerprints = [open_basis(Path(basis)).facts["fingerprint"] for basis in (first, second)]
    assert open_basis(Path("all.zarr")).facts["merged"] == fingerprints


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        (("seed=5",), "means or scales of columns, landmarks"),
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
    for parts in ((first, second), ("none.zarr", "none.zarr")):  # before any work
        assert "exists" in refused(run("merge", *parts, "--into", first, code=2))
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
