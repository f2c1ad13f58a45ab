"""Fits by landmarks from the command line: what they print, refuse, and leave."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from kpca_stream.cli import main
from kpca_stream.numerics.resolve import KernelSpec
from tests.disturb import write_yaml
from tests.fits import fitted
from tests.landmark_jobs import M, Run, correlated, halves, refused, runner, write_job

LIMITS = {"memory": ("limits.memory=300MiB",), "core_hours": ("limits.core_hours=0.5", "limits.memory=1TiB")}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path)
    return runner(capsys)


def test_a_run_fits_publishes_and_scores(run: Run) -> None:
    """Landmarks, bounds and components are told, scores are written, and the exact spectrum is bracketed."""
    printed = run("run", "c.yaml")
    fit, score = printed["result"]["fit"], printed["result"]["score"]
    used = fit["landmarks"]
    assert (fit["method"], fit["n_tiles"], fit["n_passes"], fit["residual_norms"]) == ("nystrom", 0, 1, [])
    assert (used["n_landmarks"], used["method"]) == (M, "kmeans")
    assert [(bound["kind"], bound["certified"]) for bound in used["bounds"]] == [("trace", True)]
    assert used["residual_trace_share"] < 0.05
    assert not printed["warnings"]
    exact = fitted(correlated(), KernelSpec("rbf", gamma=0.1)).basis.eigenvalues
    lower = np.array(fit["eigenvalues"])
    assert (lower <= exact).all()
    assert (exact <= lower + used["bounds"][0]["bound"]).all()
    assert (score["n_rows"], score["parts_written"]) == (60, 3)
    assert sum(pq.read_table(path).num_rows for path in Path("scores").glob("*.parquet")) == 60


def test_real_data_are_planned_fitted_and_scored(run: Run) -> None:
    """Digits by 300 landmarks: the plan tells them, the fit keeps to it, new rows are scored apart."""
    write_yaml(
        Path("c.yaml"),
        {
            "name": "digits",
            "data": {"train": {"path": "sklearn:digits", "rows": "0:1437"}},
            "kernel": {"gamma": "median"},
            "solver": {"method": "nystrom"},
            "nystrom": {"landmarks": 300},
            "score": {"input": {"path": "sklearn:digits", "rows": "1437:"}},
        },
    )
    plan = run("plan", "c.yaml")["result"]
    assert (plan["method"], plan["n_landmarks"], plan["n_tiles"]) == ("nystrom", 300, 0)
    assert (plan["evaluations"], plan["disk_tiles"]) == (300 * 1437, 0)
    fit = run("fit", "c.yaml")["result"]
    assert fit["landmarks"]["n_landmarks"] <= 300
    assert fit["eigenvalues"][0] == pytest.approx(65.475, rel=2e-3)
    assert run("score", "c.yaml")["result"]["n_rows"] == 360


def test_a_second_run_has_nothing_to_do(run: Run) -> None:
    """The same command finds its version and its parts; --restart fits anew, to the same bits."""
    first = run("run", "c.yaml")["result"]
    second = run("run", "c.yaml")["result"]
    assert second["fit"]["reused"]
    assert second["fit"]["landmarks"] == first["fit"]["landmarks"]
    assert (second["score"]["parts_written"], second["score"]["parts_skipped"]) == (0, 3)
    again = run("fit", "c.yaml", "--restart")["result"]
    assert (again["reused"], again["version"]) == (False, 2)
    assert again["eigenvalues"] == first["fit"]["eigenvalues"]


@pytest.mark.parametrize("first", ["nystrom", "lanczos"])
def test_a_store_is_of_one_method(first: str, run: Run) -> None:
    """An exact run and one by landmarks are told apart by name in a store, until --restart."""
    second = "lanczos" if first == "nystrom" else "nystrom"
    run("fit", "c.yaml", settings=(f"solver.method={first}",))
    other = (f"solver.method={second}",)
    message = refused(run("fit", "c.yaml", settings=other, code=65))
    kinds = {"nystrom": "nystrom", "lanczos": "exact"}
    there, now = f"{kinds[first]!r} there", f"{kinds[second]!r} now"
    assert "gram.zarr holds another run (" in message
    assert f"method: {there}, {now}" in message
    assert run("fit", "c.yaml", "--restart", settings=other)["result"]["method"] == second


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("command", ["plan", "run", "run again", "merge"])
def test_tables_fit_the_terminal(
    command: str, width: int, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No figure is cut, and no line but a command to copy is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    arguments = [command.split(maxsplit=1)[0], "c.yaml"]
    if command == "run again":
        run("run", "c.yaml")
    if command == "merge":
        arguments = ["merge", *halves(run), "--into", "all.zarr"]
    assert main([*arguments, "--quiet"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert not [line for line in lines if "…" in line]
    assert max(len(line) for line in lines if "kpca-stream" not in line) <= width
    assert "Gram matrix" not in lines
    if command != "plan":
        headers = [line.split() for line in lines if "eigenvalue " in line and line.endswith("at most")]
        assert [header[0] for header in headers] == ["component" if width == 80 else "no."]


def test_components_are_told_as_brackets(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Each eigenvalue stands beside the most that the exact one can be, by the tightest certified bound."""
    settings = ("nystrom.bound=probabilistic",)
    used = run("fit", "c.yaml", settings=settings)["result"]
    kinds = {bound["kind"]: bound["bound"] for bound in used["landmarks"]["bounds"]}
    assert main(["fit", "c.yaml", "--quiet", "--set", *settings]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    told = [float(row[-1]) for row in rows if len(row) == 5 and row[0] in "123"]
    expected = np.array(used["eigenvalues"]) + min(kinds.values())
    np.testing.assert_allclose(told, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("bound", "certified", "told"),
    [
        ("probabilistic", True, ", but for a chance of 1e-06"),
        ("sampled", False, ": an estimate, not certified"),
    ],
)
def test_bounds_are_named_as_what_they_are(
    bound: str, told: str, run: Run, *, certified: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the trace a fit tells the bound that was asked for, its chance to fail, or that it guesses."""
    settings = (f"nystrom.bound={bound}",)
    bounds = run("fit", "c.yaml", settings=settings)["result"]["landmarks"]["bounds"]
    assert [each["kind"] for each in bounds] == ["trace", bound]
    assert bounds[1]["certified"] is certified
    assert bounds[1].get("failure_probability") == (1e-6 if certified else None)
    assert main(["fit", "c.yaml", "--restart", "--quiet", "--set", *settings]) == 0
    assert f"{bound} bound" in (text := " ".join(capsys.readouterr().out.split()))
    assert told in text


@pytest.mark.parametrize("limit", LIMITS)
def test_beyond_the_limits_an_approximation_is_offered(limit: str, run: Run) -> None:
    """`auto` refuses what an exact fit cannot do, and names both ways to approximate."""
    settings = ("solver.method=auto", *LIMITS[limit])
    message = refused(run("plan", "c.yaml", "--shape", "1000000x5", settings=settings, code=2))
    assert f"limits.{limit} is" in message
    assert f"an approximation by {M} landmarks" in message
    assert "set solver.allow_approximate: true or solver.method: nystrom" in message


@pytest.mark.parametrize("limit", LIMITS)
def test_an_approximation_that_is_allowed_is_taken_with_its_reason(limit: str, run: Run) -> None:
    """`auto` with `allow_approximate` takes landmarks where an exact fit is beyond a limit, and says so."""
    settings = ("solver.method=auto", "solver.allow_approximate=true", *LIMITS[limit])
    plan = run("plan", "c.yaml", "--shape", "1000000x5", settings=settings)["result"]
    assert plan["method"] == "nystrom"
    assert f"approximated by {M} landmarks, since an exact fit" in plan["method_reason"]
    assert f"limits.{limit} is" in plan["method_reason"]
    small = run("plan", "c.yaml", settings=settings)["result"]
    assert (small["method"], small["method_reason"]) == ("dense", "")


def test_what_may_be_approximated_is_exact_within_the_limits(run: Run) -> None:
    """`allow_approximate` changes nothing where an exact fit keeps to the limits."""
    settings = ("solver.method=auto", "solver.allow_approximate=true")
    found = run("fit", "c.yaml", settings=settings)["result"]
    assert (found["method"] != "nystrom", found["landmarks"], found["method_reason"]) == (True, None, "")


def test_a_fit_says_why_it_was_approximated(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused for its hours, a fit is made by landmarks once that is allowed, and its table says why."""
    np.save("x.npy", correlated(3000))
    settings = ("solver.method=auto", "limits.core_hours=2e-6")
    refused(run("fit", "c.yaml", settings=settings, code=2))
    assert not Path("models").exists()
    allowed = (*settings, "solver.allow_approximate=true")
    fit = run("fit", "c.yaml", settings=allowed)["result"]
    assert fit["method"] == "nystrom"
    assert "limits.core_hours is 2e-06" in fit["method_reason"]
    changes = [part for setting in allowed for part in ("--set", setting)]
    assert main(["fit", "c.yaml", "--restart", "--quiet", *changes]) == 0
    assert "reason approximated by 40 landmarks" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nystrom: {residual: 2}", "5:21: nystrom.residual: .* got 2, expected a share"),
        ("nystrom: {method: kmean}", "5:19: nystrom.method: .*'kmean', expected auto, kmeans"),
        ("nystrom: {landmarks: 0}", "5:22: nystrom.landmarks: .* got 0, expected a whole number >= 1"),
        ("nystrom: {bound: sample}", "5:18: nystrom.bound: .*'sample', expected trace, prob"),
        ("nystrom: {landmark: 5}", "5:11: nystrom.landmark: .*landmarks"),
        ("nystrom: {landmarks: {base: a}}", "5:2.: nystrom.landmarks.*basis"),
    ],
)
def test_bad_settings_are_one_line_at_their_place(text: str, problem: str, run: Run) -> None:
    """A mistake in the section is told with file, line and column, what it got and what was expected."""
    lines = ["name: rows", "data:", "  train: {path: x.npy}", "solver: {method: nystrom}", text]
    Path("c.yaml").write_text("\n".join(lines))
    printed = run("config", "check", "c.yaml", code=2)
    pattern = f"c.yaml:{problem}"
    assert re.search(pattern, refused(printed)), printed["error"]["message"]


def test_centres_of_a_given_matrix_are_refused(run: Run) -> None:
    """A precomputed kernel has no rows to average, so that kmeans is refused by the name of its key."""
    X = correlated(60)
    np.save("x.npy", X @ X.T)
    settings = ("kernel.name=precomputed", "kernel.gamma=null", "nystrom.method=kmeans")
    assert "nystrom.method: got kmeans for a precomputed" in refused(
        run("fit", "c.yaml", settings=settings, code=2)
    )


def test_own_landmarks_are_used_or_refused_by_their_columns(run: Run) -> None:
    """Rows of one's own are the landmarks; of other columns they are refused, and missing ones named."""
    np.save("z.npy", correlated()[:30])
    np.save("narrow.npy", correlated()[:30, :4])
    fit = run("fit", "c.yaml", settings=("nystrom.landmarks={path: z.npy}",))["result"]
    assert (fit["landmarks"]["n_landmarks"], fit["landmarks"]["method"]) == (30, "given")
    rest = ("gram.path=other.zarr",)
    message = refused(run("fit", "c.yaml", settings=("nystrom.landmarks={path: narrow.npy}", *rest), code=2))
    assert "shape (30, 4)" in message
    assert "shape (m, 5)" in message
    assert "none.npy: no such file" in refused(
        run("fit", "c.yaml", settings=("nystrom.landmarks={path: none.npy}", *rest), code=2)
    )


def test_landmarks_of_a_basis_that_has_none_are_refused(run: Run) -> None:
    """A basis that is exact, of another kernel, or not there cannot lend its landmarks."""
    exact = ("solver.method=lanczos", "gram.path=exact.zarr", "models.path=exact")
    path = run("fit", "c.yaml", settings=exact)["result"]["basis"]
    take = f"nystrom.landmarks={{basis: {path}}}"
    assert "of method lanczos and keeps no sums" in refused(run("fit", "c.yaml", settings=(take,), code=65))
    own = run("fit", "c.yaml")["result"]["basis"]
    take, rest = f"nystrom.landmarks={{basis: {own}}}", "gram.path=third.zarr"
    for kernel in ("kernel.name=laplacian", "kernel.gamma=0.2"):
        message = refused(run("fit", "c.yaml", settings=(take, rest, kernel), code=2))
        assert "rbf with gamma 0.1, since its landmarks are taken" in message
    take = "nystrom.landmarks={basis: none.zarr}"
    assert "none.zarr is not a basis" in refused(run("fit", "c.yaml", settings=(take, rest), code=2))


def test_a_share_of_the_trace_finds_how_many_landmarks(run: Run) -> None:
    """`residual: 5%` takes some landmarks, and 0.5 % more of them."""
    counts = []
    for share in ("5%", "0.5%"):
        settings = ("nystrom.landmarks=300", f"nystrom.residual={share}", f"gram.path={share}.zarr")
        used = run("fit", "c.yaml", settings=settings)["result"]["landmarks"]
        assert used["method"] == "rpcholesky"
        assert used["residual_trace_share"] < 1.5 * float(share[:-1]) / 100
        counts.append(used["n_landmarks"])
    assert 1 < counts[0] < counts[1] < 300


def test_a_large_residual_is_warned_of(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Above 5 % of the trace a fit says so and how many landmarks would do, on stderr and in the JSON."""
    settings = ("nystrom.landmarks=4",)
    printed = run("fit", "c.yaml", settings=settings)
    assert printed["result"]["landmarks"]["residual_trace_share"] > 0.05
    (warning,) = printed["warnings"]
    assert printed["result"]["warnings"] == [warning]
    assert "landmarks would bring it below 5 % (now nystrom.landmarks: 4)" in warning
    assert main(["fit", "c.yaml", "--restart", "--quiet", "--set", *settings]) == 0
    assert warning in " ".join(capsys.readouterr().err.split())
