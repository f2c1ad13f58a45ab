"""Approximate fits and merged bases, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

from kpca_stream.cli.commands import commands, main
from kpca_stream.results import json_schema
from kpca_stream.storage.basis import open_basis
from tests.disturb import flip, write_yaml

N_ROWS = 500


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration of a fit by 60 landmarks in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((6, 4))
    np.save("x.npy", centres[rng.integers(0, 6, N_ROWS)] + 0.4 * rng.standard_normal((N_ROWS, 4)))
    write_yaml(
        tmp_path / "c.yaml",
        {
            "name": "rows",
            "data": {"train": {"path": "x.npy"}},
            "kernel": {"name": "rbf", "gamma": 0.05},
            "solver": {"method": "nystrom", "n_components": 3, "precision": "float64"},
            "nystrom": {"landmarks": 60},
            "gram": {"path": "gram.zarr"},
            "models": {"path": "models"},
            "score": {"input": {"path": "x.npy", "rows": "0:50"}, "output": "scores"},
        },
    )


def told(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and errors of a command."""
    capfd.readouterr()
    code = main([*arguments, "--json", "--quiet"])
    out, err = capfd.readouterr()
    printed = json.loads(out)
    jsonschema.validate(printed, json_schema())
    return code, printed, err


def sets(**changes: str) -> list[str]:
    return [part for key, value in changes.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]


def test_run_fits_publishes_and_scores(capfd: pytest.CaptureFixture[str]) -> None:
    """A run by landmarks tells how good they are; the second one has nothing to do; the basis verifies."""
    code, printed, err = told(capfd, "run", "c.yaml")
    assert (code, err) == (0, "")
    fit = printed["result"]["fit"]
    assert (fit["method"], fit["n_tiles"], fit["n_passes"], fit["residual_norms"]) == ("nystrom", 0, 1, [])
    landmarks = fit["landmarks"]
    assert (landmarks["n_landmarks"], landmarks["method"]) == (60, "kmeans")
    assert 0 < landmarks["residual_trace_share"] < 0.05
    assert [bound["kind"] for bound in landmarks["bounds"]] == ["trace"]
    assert printed["result"]["score"]["n_rows"] == 50
    code, again, _ = told(capfd, "fit", "c.yaml")
    assert (code, again["result"]["reused"]) == (0, True)
    assert again["result"]["landmarks"] == landmarks
    code, report, _ = told(capfd, "verify", fit["basis"])
    assert code == 0
    assert {"eigenpairs", "residual trace"} <= {check["name"] for check in report["result"]["checks"]}


@pytest.mark.parametrize("width", [40, 80])
def test_tables_in_any_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed fits the window, names the bounds and gives each eigenvalue a bracket."""
    monkeypatch.setenv("COLUMNS", str(width))
    runner = CliRunner()
    for name in ("plan", "fit"):
        done = runner.invoke(
            commands, [name, "c.yaml", *sets(nystrom__bound="probabilistic")], standalone_mode=False
        )
        assert done.exit_code == 0
        assert max(map(len, done.stdout.splitlines())) <= max(width, 60)
        words = " ".join(done.stdout.split())
        if name == "fit":
            assert "trace bound exact eigenvalues are higher by at most" in words
            assert "but for a chance of 1e-06" in words
            assert "at most" in words
        else:
            assert "landmarks 60 at most, rows in 1 task" in words


@pytest.mark.parametrize("bound", ["probabilistic", "sampled"])
def test_every_bound_is_named_as_what_it_is(bound: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A probabilistic bound is certified but for a chance, a sampled one is an estimate."""
    _, printed, _ = told(capfd, "fit", "c.yaml", *sets(nystrom__bound=bound))
    first, second = printed["result"]["landmarks"]["bounds"]
    assert (first["kind"], first["certified"], first["failure_probability"]) == ("trace", True, 0)
    assert second["kind"] == bound
    assert second["certified"] == (bound == "probabilistic")
    assert (second["failure_probability"] is None) == (bound == "sampled")
    assert second["bound"] > 0


def test_auto_never_approximates_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    """Beyond the limits an exact fit is refused with the way out; where allowed, landmarks are taken."""
    auto = sets(solver__method="auto", limits__core_hours="2e-7", nystrom__landmarks="5")
    code, printed, _ = told(capfd, "fit", "c.yaml", *auto)
    message = printed["error"]["message"]
    assert code == 2
    assert "limits.core_hours is 2e-07" in message
    assert "set solver.allow_approximate: true or solver.method: nystrom" in message
    assert not Path("models").exists()
    allowed = [*auto, *sets(solver__allow_approximate="true")]
    code, printed, _ = told(capfd, "plan", "c.yaml", *allowed)
    assert (code, printed["result"]["method"]) == (0, "nystrom")
    assert printed["result"]["method_reason"].startswith("approximated by 5 landmarks, since an exact fit")
    code, printed, _ = told(capfd, "fit", "c.yaml", *allowed)
    assert (code, printed["result"]["method"]) == (0, "nystrom")
    assert any("landmarks would bring it below 5 %" in text for text in printed["warnings"])
    generous = sets(solver__method="auto", solver__allow_approximate="true", gram__path="other.zarr")
    code, printed, _ = told(capfd, "fit", "c.yaml", *generous)
    assert (code, printed["result"]["method"]) == (0, "dense")


def test_a_target_finds_the_number_of_landmarks(capfd: pytest.CaptureFixture[str]) -> None:
    """The fewest landmarks that leave the asked share are taken."""
    _, printed, _ = told(capfd, "fit", "c.yaml", *sets(nystrom__residual="1%", nystrom__landmarks="400"))
    landmarks = printed["result"]["landmarks"]
    assert landmarks["method"] == "rpcholesky"
    assert landmarks["residual_trace_share"] <= 0.011
    assert landmarks["n_landmarks"] < 400


@pytest.mark.parametrize(
    ("changes", "code", "part"),
    [
        ({"nystrom__method": "kmean"}, 2, "nystrom.method: wrong value, got the text 'kmean', expected auto"),
        ({"nystrom__residual": "2"}, 2, "nystrom.residual: wrong value, got 2, expected a share"),
        ({"nystrom__landmarks": "0"}, 2, "nystrom.landmarks: wrong value, got 0, expected a whole number"),
        ({"nystrom__bound": "norm"}, 2, "nystrom.bound: wrong value, got the text 'norm', expected trace"),
        ({"limits__core_hours": "-1"}, 2, "limits.core_hours: wrong value, got -1"),
        ({"nystrom__landmarks": "{path: nowhere.npy}"}, 2, "nowhere.npy: no such file or folder"),
        ({"nystrom__landmarks": "{path: narrow.npy}"}, 2, "expected real numbers of shape (m, 4)"),
        ({"nystrom__landmarks": "{basis: nowhere.zarr}"}, 2, "nowhere.zarr is not a basis"),
        (
            {"nystrom__landmarks": "{basis: exact.zarr}"},
            65,
            "exact.zarr is of method dense and keeps no sums",
        ),
        ({"nystrom__landmarks": "{basis: other.zarr}"}, 2, "expected that of other.zarr, rbf with gamma 0.5"),
    ],
)
def test_every_mistake_is_one_line(
    changes: dict[str, str], code: int, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is wrong with settings or landmarks is told in a line with the value, and nothing is published."""
    np.save("narrow.npy", np.ones((3, 2)))
    for name, settings in (("exact", {"solver__method": "dense"}), ("other", {"kernel__gamma": "0.5"})):
        if f"{name}.zarr" in changes.get("nystrom__landmarks", ""):
            own = sets(gram__path=f"{name}-run.zarr", models__path=name, **settings)
            told(capfd, "fit", "c.yaml", *own)
            (Path(name) / "rows" / "versions" / "1" / "basis.zarr").rename(f"{name}.zarr")
    found, printed, err = told(capfd, "fit", "c.yaml", *sets(**changes))
    assert (found, err.count("\n")) == (code, 1)
    assert part in printed["error"]["message"]
    assert not Path("models").exists()


def test_exact_and_approximate_runs_do_not_share_a_store(capfd: pytest.CaptureFixture[str]) -> None:
    """A store of one kind of fit is refused to the other by name, and restarted where asked."""
    assert told(capfd, "fit", "c.yaml")[0] == 0
    code, printed, _ = told(capfd, "fit", "c.yaml", *sets(solver__method="dense"))
    assert code == 65
    assert "holds another run (method: 'nystrom' there" in printed["error"]["message"]
    assert told(capfd, "fit", "c.yaml", "--restart", *sets(solver__method="dense"))[0] == 0


def fitted(capfd: pytest.CaptureFixture[str], name: str, **changes: str) -> str:
    """The basis of a fit with a store and models of its own."""
    settings = sets(gram__path=f"{name}-run.zarr", models__path=name, **changes)
    code, printed, err = told(capfd, "fit", "c.yaml", *settings)
    assert (code, err) == (0, "")
    return str(printed["result"]["basis"])


def test_merged_bases_are_that_of_all_rows(capfd: pytest.CaptureFixture[str]) -> None:
    """Two fits of parts with the same landmarks, merged, are one fit of all; a merged one merges again."""
    first = fitted(capfd, "first", data__train__rows='"0:300"')
    shared = f"{{basis: {first}}}"
    rest = fitted(capfd, "rest", data__train__rows='"300:450"', nystrom__landmarks=shared)
    last = fitted(capfd, "last", data__train__rows='"450:"', nystrom__landmarks=shared)
    every = fitted(capfd, "every", nystrom__landmarks=shared)
    code, printed, err = told(capfd, "merge", first, rest, "--into", "two.zarr")
    assert (code, err, printed["result"]["n_samples"]) == (0, "", 450)
    assert told(capfd, "merge", "two.zarr", last, "--into", "three.zarr")[0] == 0
    merged, expected = open_basis(Path("three.zarr")), open_basis(Path(every))
    np.testing.assert_allclose(merged.eigenvalues, expected.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(merged.coefficients.load(), expected.coefficients.load(), atol=1e-9)
    assert merged.total_weight == N_ROWS
    assert told(capfd, "verify", "three.zarr")[0] == 0


def test_what_merge_refuses(capfd: pytest.CaptureFixture[str]) -> None:
    """Other landmarks, other kernels, exact bases, one basis, a taken place, and sums that were changed."""
    first = fitted(capfd, "first")
    other = fitted(capfd, "other", seed="7")
    exact = fitted(capfd, "exact", solver__method="dense")
    for paths, code, part in (
        ([first, other], 65, f"{other} differs from {first} in landmarks"),
        ([first, exact], 65, f"{exact} is of method dense and keeps no sums"),
        ([first], 2, "got 1, expected at least two"),
        ([first, "nowhere.zarr"], 2, "nowhere.zarr is not a basis"),
    ):
        found, printed, err = told(capfd, "merge", *paths, "--into", "m.zarr")
        assert (found, err.count("\n")) == (code, 1)
        assert part in printed["error"]["message"]
    assert told(capfd, "merge", first, first, "--into", first)[0] == 2
    rest = fitted(capfd, "rest", data__train__rows='"0:100"', nystrom__landmarks=f"{{basis: {first}}}")
    flip(next(path for path in (Path(first) / "products" / "c").rglob("*") if path.is_file()))
    found, printed, _ = told(capfd, "merge", first, rest, "--into", "m.zarr")
    assert found == 65
    assert "damaged" in printed["error"]["message"] or "changed" in printed["error"]["message"]
    assert not Path("m.zarr").exists()
