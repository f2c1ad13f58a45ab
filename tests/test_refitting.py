"""Re-fits: decided by numbers, fitted warm, judged, and promoted or refused."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.cli.render import render
from kpca_stream.config import When
from kpca_stream.errors import BusyError, ConfigError, DataError
from kpca_stream.model import load_basis
from kpca_stream.numerics.drift import drift as distances
from kpca_stream.pipeline import fit_config, score_config, verify_store
from kpca_stream.refit_results import Drift, RefitResult
from kpca_stream.refitting import driver, newness
from kpca_stream.refitting.decision import Circumstances, decide
from kpca_stream.refitting.publishing import Published
from kpca_stream.refitting.stores import Stores
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.lock import locked
from kpca_stream.storage.trained import File, Landed, Trained
from kpca_stream.telemetry import silent
from tests.disturb import write_yaml
from tests.jobs import contents
from tests.landmark_jobs import refused, runner
from tests.refits import WEEK_ROWS, land, landed, model, refit, registry, week

Array = NDArray[Any]

METHODS = ["nystrom", "lanczos"]
OPEN = {"max_novelty": None, "max_column_ratio": None, "min_rows": None, "not_older": False}
"""A gate that asks for nothing."""

pytestmark = pytest.mark.filterwarnings("ignore:residual trace is:kpca_stream.errors.KpcaStreamWarning")


def basis_of(folder: Path, version: int) -> Basis:
    return open_basis(registry(folder).basis_path(version))


def scores_of(folder: Path, version: int, rows: Array) -> Array:
    return load_basis(registry(folder).basis_path(version)).transform(rows)


@pytest.mark.parametrize("method", METHODS)
def test_first_call_fits_and_second_does_nothing(method: str, tmp_path: Path) -> None:
    """Without a version one is fitted and promoted; called again, nothing is due and nothing is written."""
    landed(tmp_path)
    config = model(tmp_path, method)
    first = refit(config)
    assert (first.action, first.champion, registry(tmp_path).resolve()) == ("promoted", 1, 1)
    before = contents(tmp_path)
    second = refit(config)
    assert (second.action, second.champion, second.fitted) == ("none", 1, None)
    assert "no other rows" in second.reason
    assert contents(tmp_path) == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n_rows", "action"), [(79, "none"), (80, "promoted")])
def test_due_from_a_share_of_new_rows(method: str, n_rows: int, action: str, tmp_path: Path) -> None:
    """A tenth of the champion's rows makes a re-fit due, one row less does not; both tell the share."""
    landed(tmp_path)
    config = model(tmp_path, method)
    refit(config)
    land(tmp_path, 4, week(4, n_rows))
    found = refit(config)
    assert found.action == action, found.reason
    share = next(trigger for trigger in found.decision.triggers if trigger.name == "new_rows")
    assert (share.value, share.limit) == (n_rows / 800, 0.1)
    assert registry(tmp_path).resolve() == (2 if action == "promoted" else 1)


def test_numbers_are_kept_in_the_manifest(tmp_path: Path) -> None:
    """A version's manifest holds the decision that led to it, with thresholds, and what the gate measured."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    land(tmp_path, 4, week(4))
    found = refit(config)
    kept = registry(tmp_path).manifest(2)["refit"]
    assert kept["decision"]["reason"] == found.reason
    assert {trigger["name"]: trigger["limit"] for trigger in kept["decision"]["triggers"]}["new_rows"] == 0.1
    assert [check["name"] for check in kept["gate"]] == [check.name for check in found.gate]
    assert kept["fitted"]["rows_read"] == WEEK_ROWS


def circumstances(**changes: Any) -> Circumstances:
    """A champion of 1,000 rows in one file, and a second file of 10 rows."""
    file = File("a", "a:1:0:1000", 1000)
    values = {
        "champion": 1,
        "trained": Trained((file,), "s"),
        "landed": Landed(new=(), changed=(), gone=(File("b", "b:1:0:10", 10),), is_continued=False),
        "n_rows": 990,
        "settings": "s",
        "age_seconds": 100.0,
        **changes,
    }
    return Circumstances(**values)


def drifted(**values: Any) -> Drift:
    nothing = {"drift": None, "error_ratio": None, "t2_ratio": None, "residual_ratio": None, "novelty": None}
    return Drift(**{"source": "scores", "n_rows": 9, "sampling_bound": 0.1, **nothing, **values})


@pytest.mark.parametrize(
    ("when", "drift"),
    [
        ({"new_rows": 0.01}, {}),
        ({"max_age": 100.0}, {}),
        ({"drift": 0.2}, {"drift": 0.2}),
        ({"error_ratio": 2.0}, {"error_ratio": 2.0}),
        ({"residual_ratio": 2.0}, {"residual_ratio": 2.5}),
    ],
)
def test_each_limit_makes_a_refit_due(when: dict[str, Any], drift: dict[str, Any]) -> None:
    """Every limit that is reached makes a re-fit due, and is the reason that is told."""
    others = {"new_rows": None, "residual_ratio": None}
    seen = circumstances(drifts=[drifted(**drift)])
    found = decide(When(**{**others, **when}), seen, force=False)
    reached = [trigger.name for trigger in found.triggers if trigger.reached]
    assert (found.due, reached) == (True, list(when))
    assert "reaches" in found.reason
    assert not decide(When(**others), seen, force=False).due
    assert decide(When(**others), seen, force=True).reason.startswith("forced")


def test_drift_of_few_rows_may_be_chance() -> None:
    """A distance that an unchanged source may show makes no re-fit due, however large."""
    seen = circumstances(drifts=[drifted(drift=0.3, sampling_bound=0.4)])
    found = decide(When(drift=0.2, new_rows=None), seen, force=False)
    assert not found.due
    assert "may be chance" in found.reason


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_drift_without_other_rows_is_told_only(form: str, tmp_path: Path) -> None:
    """Scores that drifted are told, but no re-fit is due where there are no other rows to train on."""
    landed(tmp_path)
    np.save(tmp_path / "new.npy", week(7) + 2.0)
    score = {"input": {"path": str(tmp_path / "new.npy")}, "output": str(tmp_path / "scores"), "format": form}
    config = model(tmp_path, score=score, when={"drift": 0.2})
    refit(config)
    score_config(config, silent())
    found = refit(config)
    assert found.action == "none"
    assert [drift.source for drift in found.decision.drifts] == ["scores"]
    assert found.decision.drifts[0].n_rows == WEEK_ROWS
    assert "though drift" in found.reason


def test_drift_is_told_from_an_even_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more rows are held than asked, each as far from the next, however small files and parts are."""
    landed(tmp_path)
    np.save(tmp_path / "new.npy", week(7, 50))
    score = {"input": {"path": str(tmp_path / "new.npy"), "part_rows": 7}, "output": str(tmp_path / "scores")}
    config = model(tmp_path, score=score)
    refit(config)
    score_config(config, silent())
    for number, row in enumerate(week(8, 50), start=4):
        land(tmp_path, number, row[None])
    monkeypatch.setattr(newness, "drawn_rows", lambda _: 10)
    drifts = refit(config, dry_run=True).decision.drifts
    assert {drift.source: drift.n_rows for drift in drifts} == {"new rows": 10, "scores": 10}
    basis, chosen = basis_of(tmp_path, 1), week(8, 50)[::5]
    scores = load_basis(registry(tmp_path).basis_path(1)).score(chosen)
    expected = distances(basis.thresholds, scores.reconstruction_error, scores.hotelling_t2, n_training=800)
    assert drifts[0].drift == pytest.approx(expected.distance)


@pytest.mark.parametrize("method", METHODS)
def test_drift_of_new_rows_makes_a_refit_due(method: str, tmp_path: Path) -> None:
    """New rows too few to count by their share make a re-fit due by their drift; like ones do not."""
    landed(tmp_path)
    config = model(tmp_path, method, when={"new_rows": "50%", "drift": 0.3}, gate=OPEN)
    refit(config)
    land(tmp_path, 4, week(4))
    assert refit(config).action == "none"
    land(tmp_path, 5, week(5) + 1.0)
    found = refit(config)
    assert found.action == "promoted", found.reason
    assert "drift" in found.reason


def test_forced(tmp_path: Path) -> None:
    """A forced call fits though there are no other rows."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    found = refit(config, force=True)
    assert (found.action, found.champion) == ("promoted", 2)
    assert found.reason.startswith("forced")


def test_other_settings_make_a_refit_due(tmp_path: Path) -> None:
    """A champion of other settings is fitted anew, from all rows."""
    landed(tmp_path)
    refit(model(tmp_path))
    found = refit(model(tmp_path, solver__n_components=4))
    assert (found.action, found.fitted and found.fitted.kind) == ("promoted", "fresh")
    assert basis_of(tmp_path, 2).n_components == 4


@pytest.mark.parametrize("method", METHODS)
def test_another_function_under_its_name_makes_a_refit_due(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of one's own that gives other values is fitted to all rows, and not compared with before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"moving_{method}"
    (tmp_path / f"{name}.py").write_text(MOVING)
    landed(tmp_path)
    changes = {"kernel": {"name": f"{name}:near", "gamma": None}}
    config = model(tmp_path, method, **changes)
    results = [refit(config), refit(config)]
    for number, gamma in ((None, 0.024), (4, 0.2)):
        monkeypatch.setattr(f"{name}.GAMMA", gamma)
        if number is not None:
            land(tmp_path, number, week(number))
        found = refit(config)
        assert "function gives other values" in found.reason
        assert found.comparison is None
        results += [found, refit(config)]
    other = {"models__path": str(tmp_path / "other"), "gram__path": str(tmp_path / "other.zarr")}
    alone = fit_config(model(tmp_path, method, **changes, **other), silent())
    np.testing.assert_allclose(basis_of(tmp_path, 3).eigenvalues, alone.eigenvalues, rtol=1e-7)
    land(tmp_path, 5, week(5))
    warm = "added" if method == "nystrom" else "continued"
    assert kinds([*results, refit(config)]) == ["fresh", "none"] * 3 + [warm]


def test_columns_are_judged_under_another_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other units do to columns needs no kernel, and is refused also where that changed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "moved.py").write_text(MOVING)
    landed(tmp_path)
    config = model(tmp_path, kernel={"name": "moved:near", "gamma": None})
    refit(config)
    monkeypatch.setattr("moved.GAMMA", 0.03)
    land(tmp_path, 4, in_other_units(week(4)))
    found = refit(config)
    assert (found.action, [check.name for check in found.gate if not check.ok]) == (
        "refused",
        ["max_column_ratio"],
    )


MOVING = """import numpy as np

GAMMA = 0.02


def near(X, Y):
    return np.exp(-GAMMA * ((X[:, None] - Y[None]) ** 2).sum(axis=-1))
"""


def test_goes_on_from_a_plain_fit(tmp_path: Path) -> None:
    """A version that the command fit published is known by its files like any other."""
    landed(tmp_path)
    config = model(tmp_path)
    fit_config(config, silent())
    assert refit(config).action == "none"
    land(tmp_path, 4, week(4))
    found = refit(config)
    assert (found.action, found.fitted and found.fitted.kind) == ("promoted", "added")


def test_added_rows_give_the_fit_of_all(tmp_path: Path) -> None:
    """New files added to the sums give eigenvalues and scores of one fit of all rows, to 1e-10."""
    landed(tmp_path)
    np.save(tmp_path / "landmarks.npy", week(50, 60))
    given = {"landmarks": {"path": str(tmp_path / "landmarks.npy")}}
    config = model(tmp_path, nystrom=given, refit__align="none", when={"residual_ratio": None})
    refit(config)
    land(tmp_path, 4, week(4))
    land(tmp_path, 5, week(5))
    found = refit(config)
    assert found.fitted is not None
    assert (found.fitted.kind, found.fitted.rows_read) == ("added", 2 * WEEK_ROWS)
    whole = fit_config(
        model(
            tmp_path,
            nystrom=given,
            models__path=str(tmp_path / "other"),
            gram__path=str(tmp_path / "other.zarr"),
        ),
        silent(),
    )
    np.testing.assert_allclose(basis_of(tmp_path, 2).eigenvalues, whole.eigenvalues, rtol=1e-10)
    rows = week(60)
    scores = scores_of(tmp_path, 2, rows)
    np.testing.assert_allclose(scores, load_basis(whole.basis).transform(rows), atol=1e-10)


def test_files_of_before_are_not_read(tmp_path: Path) -> None:
    """Rows of before may be anything by now: where stamps are the same, an added re-fit never sees them."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    land(tmp_path, 4, week(4))
    twin = tmp_path / "twin"
    twin.mkdir()
    for number in range(4):
        path = land(tmp_path, number, np.full((WEEK_ROWS, 8), np.nan))
        assert np.isnan(np.load(path)).all()
    found = refit(config)
    assert (found.action, found.decision.rows_read) == ("promoted", WEEK_ROWS)
    assert found.fitted is not None
    assert found.fitted.bytes_read == WEEK_ROWS * 8 * 8
    assert basis_of(tmp_path, 2).total_weight == 5 * WEEK_ROWS


@pytest.mark.parametrize("change", ["changed", "gone"])
@pytest.mark.parametrize("method", METHODS)
def test_other_files_of_before_need_all_rows(method: str, change: str, tmp_path: Path) -> None:
    """Where a file of before changed or went, all that are there now are fitted afresh."""
    landed(tmp_path)
    config = model(tmp_path, method)
    refit(config)
    if change == "gone":
        (tmp_path / "weeks" / "week-00.npy").unlink()
    else:
        land(tmp_path, 0, week(30, WEEK_ROWS + 1))
    found = refit(config)
    assert found.fitted is not None, found.reason
    assert found.fitted.kind == "fresh"
    assert found.fitted.n_samples == (600 if change == "gone" else 801)
    assert found.decision.n_gone == WEEK_ROWS


def test_landmarks_that_leave_much_are_chosen_anew(tmp_path: Path) -> None:
    """Where landmarks leave more of new rows than the limit allows, all rows are fitted with fresh ones."""
    landed(tmp_path)
    config = model(tmp_path, gate=OPEN)
    refit(config)
    land(tmp_path, 4, week(4) + np.linspace(3, 5, 8))
    found = refit(config)
    assert found.fitted is not None
    assert (found.fitted.kind, found.fitted.rows_read) == ("fresh", 5 * WEEK_ROWS)
    assert "chosen anew" in found.fitted.reason
    assert not np.array_equal(rows_of(tmp_path, 1), rows_of(tmp_path, 2))


def rows_of(folder: Path, version: int) -> Array:
    rows = basis_of(folder, version).rows
    assert rows is not None
    return rows.load()


def test_exact_refit_goes_on_from_the_champion(tmp_path: Path) -> None:
    """A solve that starts from the champion takes fewer passes, and finds what one from nothing finds."""
    landed(tmp_path)
    config = model(tmp_path, "lanczos", refit__align="none")
    refit(config)
    land(tmp_path, 4, week(4))
    found = refit(config)
    assert found.fitted is not None
    assert found.fitted.kind == "continued"
    assert found.fitted.passes_saved is not None
    assert found.fitted.passes_saved > 0
    other = {"models__path": str(tmp_path / "other"), "gram__path": str(tmp_path / "other.zarr")}
    cold = fit_config(model(tmp_path, "lanczos", **other), silent())
    assert found.fitted.n_passes < cold.n_passes
    np.testing.assert_allclose(basis_of(tmp_path, 2).eigenvalues, cold.eigenvalues, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_scores_stay_comparable(method: str, tmp_path: Path) -> None:
    """An aligned version scores a row nearly as the champion did; what moved is told."""
    landed(tmp_path)
    config = model(tmp_path, method)
    refit(config)
    land(tmp_path, 4, week(4))
    found = refit(config)
    assert found.comparison is not None
    assert found.comparison.displacement <= found.comparison.displacement_before
    assert 0 < max(found.comparison.angles) < 10
    rows = week(60)
    before, after = scores_of(tmp_path, 1, rows), scores_of(tmp_path, 2, rows)
    assert np.linalg.norm(after - before) < 0.2 * np.linalg.norm(before)


def stuck(rows: Array) -> Array:
    return np.column_stack([np.full(len(rows), rows[0, 0]), rows[:, 1:]])


def in_other_units(rows: Array) -> Array:
    return rows * np.array([1000.0, *np.ones(7)])


def shuffled(rows: Array) -> Array:
    return np.column_stack([np.random.default_rng(0).permutation(rows[:, 0]), rows[:, 1:]])


@pytest.mark.filterwarnings("ignore:column '0' has 100 % of the variance")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("poison", [stuck, in_other_units, shuffled])
def test_poisoned_week_is_refused(method: str, poison: Callable[[Array], Array], tmp_path: Path) -> None:
    """A stuck sensor, other units and a shuffled column are refused; the champion goes on scoring."""
    landed(tmp_path)
    np.save(tmp_path / "new.npy", week(8))
    score = {"input": {"path": str(tmp_path / "new.npy")}, "output": str(tmp_path / "scores")}
    config = model(tmp_path, method, score=score)
    refit(config)
    land(tmp_path, 4, week(4))
    land(tmp_path, 5, poison(week(5)))
    found = refit(config)
    assert (found.action, found.candidate, found.champion) == ("refused", 2, 1), found
    assert "week-05.npy" in found.reason
    assert registry(tmp_path).manifest(2)["refused"] in found.reason
    assert (registry(tmp_path).resolve(), score_config(config, silent()).version) == (1, 1)


def test_files_of_few_rows_are_judged_together(tmp_path: Path) -> None:
    """A novel row that is a file of its own is chance, many of them are not."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    rows = week(78, 120)
    rows[7] *= 3
    assert np.flatnonzero(load_basis(registry(tmp_path).basis_path(1)).score(rows).novelty).tolist() == [7]
    for number, row in enumerate(rows, start=4):
        land(tmp_path, number, row[None])
    found = refit(config)
    assert found.action == "promoted", found.reason
    for number, row in enumerate(week(79, 120), start=200):
        land(tmp_path, number, row[None] + 5.0)
    found = refit(config)
    assert (found.action, found.champion) == ("refused", 2), found
    assert "max_novelty: got 1 of all new rows" in found.reason


def test_each_of_many_files_is_judged_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that has enough rows enough are drawn, however many files land: a poisoned one is refused."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    monkeypatch.setattr("kpca_stream.refitting.newness.drawn_rows", lambda _: 60)
    for number in range(4, 12):
        land(tmp_path, number, week(number) + 9.0 * (number == 7))
    found = refit(config)
    assert (found.action, [check.name for check in found.gate if not check.ok]) == (
        "refused",
        ["max_novelty", "max_column_ratio"],
    )
    assert "week-07.npy" in found.reason
    assert {file.novelty is None for file in found.decision.new_files} == {False}


def test_a_champion_that_lost_its_basis_is_told(tmp_path: Path) -> None:
    """With the ways out; a fit makes it anew."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    shutil.rmtree(str(registry(tmp_path).basis_path(1)))
    land(tmp_path, 4, week(4))
    with pytest.raises(
        DataError, match=r"version 1 of .* has lost its basis; go back with .* or fit it anew"
    ):
        refit(config)
    with pytest.raises(ConfigError, match=r"promote one of \[\], or fit anew"):
        registry(tmp_path).rollback()


def test_refused_candidate_is_judged_again_without_a_fit(tmp_path: Path) -> None:
    """The next call finds the candidate and refuses it again; one with a wider gate promotes it."""
    landed(tmp_path)
    refit(model(tmp_path))
    land(tmp_path, 4, shuffled(week(4)))
    assert refit(model(tmp_path)).action == "refused"
    again = refit(model(tmp_path))
    assert (again.action, again.candidate, again.fitted and again.fitted.reused) == ("refused", 2, True)
    wider = refit(model(tmp_path, gate=OPEN))
    assert (wider.action, wider.champion, wider.fitted and wider.fitted.reused) == ("promoted", 2, True)


@pytest.mark.parametrize(
    ("method", "demand"),
    [
        ("nystrom", {"max_residual_trace": 1e-6}),
        ("lanczos", {"max_residual": 1e-300}),
        ("nystrom", {"min_captured": 0.999999}),
        ("lanczos", {"max_angle": 1e-9}),
        ("nystrom", {"max_novelty": 1e-3}),
        ("lanczos", {"max_column_ratio": 1.0001}),
        ("lanczos", {"min_rows": 10_000}),
        ("nystrom", {"min_rows": "99%"}),
        ("nystrom", {"not_older": True}),
    ],
)
def test_every_demand_can_refuse(method: str, demand: dict[str, Any], tmp_path: Path) -> None:
    """What a candidate does not pass is named, with what was got and asked."""
    landed(tmp_path)
    refit(model(tmp_path, method))
    if "min_rows" in demand or "not_older" in demand:
        (tmp_path / "weeks" / "week-03.npy").unlink()
    number = 2 if "not_older" in demand else 4
    path = land(tmp_path, number, 1.5 * week(4, 150))
    os.utime(path, ns=(path.stat().st_mtime_ns + 1, path.stat().st_mtime_ns + 1))
    found = refit(model(tmp_path, method, gate={**OPEN, **demand}))
    (name,) = demand
    assert (found.action, [check.name for check in found.gate if not check.ok]) == ("refused", [name])
    assert f"{name}: got" in found.reason


def test_rolled_back_version_stays_away(tmp_path: Path) -> None:
    """A version that was rolled back is not promoted again for the same rows, but where that is forced."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    land(tmp_path, 4, week(4))
    assert refit(config).champion == 2
    assert registry(tmp_path).rollback(reason="odd plots") == (2, 1)
    found = refit(config)
    assert (found.action, found.champion) == ("none", 1)
    assert "version 2, fitted on these rows, was taken back: odd plots" in found.reason
    land(tmp_path, 5, week(5))
    assert refit(config).champion == 3


def test_promoting_an_older_version_lasts(tmp_path: Path) -> None:
    """Where somebody promoted an older version, the newer one comes back only when that is forced."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    land(tmp_path, 4, week(4))
    refit(config)
    registry(tmp_path).promote(1)
    assert "version 1 was promoted instead" in refit(config).reason
    forced = refit(config, force=True)
    assert (forced.champion, forced.fitted and forced.fitted.reused) == (2, True)


def test_a_version_that_tells_no_time_has_no_age(tmp_path: Path) -> None:
    """A manifest whose time cannot be read stops no re-fit."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    manifest = registry(tmp_path).basis_path(1).parent / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"created": "20', '"created": "in 20'))
    found = refit(config)
    assert (found.action, found.decision.age_seconds) == ("none", None)


def test_published_but_not_promoted_is_promoted(tmp_path: Path) -> None:
    """A candidate whose call ended before the promotion is promoted by the next one, without a fit."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    land(tmp_path, 4, week(4))
    alias = tmp_path / "models" / "rows" / "aliases" / "champion"
    before = alias.read_bytes()
    refit(config)
    alias.write_bytes(before)
    found = refit(config)
    assert (found.action, found.champion) == ("promoted", 2)
    assert found.fitted is not None
    assert found.fitted.reused


def test_old_versions_go(tmp_path: Path) -> None:
    """Beside what an alias names and what is young, as many versions stay as are asked for."""
    landed(tmp_path)
    refit(model(tmp_path))
    for version in (2, 3, 4):
        land(tmp_path, 4, shuffled(week(version, WEEK_ROWS + version)))
        found = refit(model(tmp_path, keep=1))
        assert (found.action, found.candidate) == ("refused", version)
        manifest = registry(tmp_path).basis_path(version).parent / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"created": "20', '"created": "19'))
    assert found.removed == (3,)
    assert registry(tmp_path).versions() == [1, 4]


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    """What would be done is told, a refusal that can be foreseen included, and nothing is written."""
    landed(tmp_path)
    config = model(tmp_path)
    assert refit(config, dry_run=True).action == "planned"
    assert not (tmp_path / "models").exists()
    refit(config)
    land(tmp_path, 4, shuffled(week(4)))
    before = contents(tmp_path)
    found = refit(config, dry_run=True)
    assert (found.action, found.champion) == ("planned", 1)
    assert "would fit (fresh: the landmarks leave" in found.reason
    assert "refuse it: max_column_ratio" in found.reason
    assert contents(tmp_path) == before


def test_second_refit_is_told_who_is_at_work(tmp_path: Path) -> None:
    """While one re-fit of a model is under way, another is refused with the holder's name; then it may."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    with (
        locked(tmp_path / "models" / "rows", name="refit.lock"),
        pytest.raises(BusyError, match=f"{os.getpid()}"),
    ):
        refit(config)
    assert refit(config).action == "none"


def test_a_champion_of_somebody_else_is_not_replaced_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is promoted while the first re-fit is under way stays, until the next one has compared with it."""
    landed(tmp_path)
    config, publish = model(tmp_path), driver.publish

    def late(*arguments: Any) -> Published:
        fit_config(model(tmp_path, kernel__gamma=0.05, gram__path=str(tmp_path / "g2.zarr")), silent())
        return publish(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(driver, "publish", late)
        with pytest.raises(BusyError, match="names version 1, expected None"):
            refit(config)
    assert registry(tmp_path).resolve() == 1
    found = refit(config)
    assert (found.action, found.decision.champion, found.champion) == ("promoted", 1, 3)
    assert found.comparison is not None


@pytest.mark.parametrize("method", METHODS)
def test_versions_pass_verification(method: str, tmp_path: Path) -> None:
    """A version that was fitted warm and aligned passes every check of verify."""
    landed(tmp_path)
    config = model(tmp_path, method)
    refit(config)
    land(tmp_path, 4, week(4))
    refit(config)
    report = verify_store(registry(tmp_path).basis_path(2), silent())
    assert report.ok, report


@pytest.mark.cluster
@pytest.mark.parametrize("method", METHODS)
def test_same_bits_on_processes(method: str, tmp_path: Path) -> None:
    """Re-fits on two processes publish the bits, and tell the numbers, of those on threads."""
    landed(tmp_path)
    found, bits = [], []
    for kind in ("threads", "local"):
        cluster = {"kind": kind, "n_workers": 2}
        place = {"models__path": str(tmp_path / kind), "gram__path": str(tmp_path / f"{kind}.zarr")}
        config = model(tmp_path, method, cluster=cluster, **place)
        refit(config)
        path = land(tmp_path, 4, week(4))
        found.append(refit(config))
        path.unlink()
        bits.append(contents(tmp_path / kind / "rows" / "versions" / "2" / "basis.zarr"))
    assert bits[0] == bits[1]
    assert found[0].decision.drifts == found[1].decision.drifts
    assert found[0].comparison == found[1].comparison


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints what the published schema describes, and its exit code is that of the verdict."""
    landed(tmp_path)
    write_yaml(tmp_path / "c.yaml", model(tmp_path).model_dump(mode="json", exclude_none=True))
    run, path = runner(capsys), str(tmp_path / "c.yaml")
    assert run("refit", path, "--dry-run")["result"]["action"] == "planned"
    assert run("refit", path)["result"]["champion"] == 1
    assert run("refit", path)["result"]["action"] == "none"
    assert run("refit", path, "--force")["result"]["fitted"]["kind"] == "fresh"
    land(tmp_path, 4, in_other_units(week(4)))
    printed = run("refit", path, code=65)
    assert printed["result"]["action"] == "refused"
    assert "max_novelty" in refused(printed)
    with locked(tmp_path / "models" / "rows", name="refit.lock"):
        assert str(os.getpid()) in refused(run("refit", path, code=75))


def test_table(tmp_path: Path) -> None:
    """On a terminal the verdict comes first, then the numbers that it rests on."""
    landed(tmp_path)
    config = model(tmp_path, when={"drift": 0.2, "max_age": "7 days"})
    first, stream = io.StringIO(), io.StringIO()
    render(refit(config), first, width=100)
    assert re.search(r"max_column_ratio +not judged: expected at most 20", first.getvalue())
    land(tmp_path, 4, week(4))
    render(refit(config), stream, width=100)
    text = stream.getvalue()
    for told in ("promoted", "version 2", "week-04.npy", "added: only new files are read", "due from 168h"):
        assert told in text
    assert text.index("outcome") < text.index("new_rows") < text.index("largest angle")


def test_missing_values_are_refused_before_a_version(tmp_path: Path) -> None:
    """A file with missing values is named, and leaves no candidate behind."""
    landed(tmp_path)
    config = model(tmp_path)
    refit(config)
    rows = week(4)
    rows[7, 3] = np.nan
    land(tmp_path, 4, rows)
    with pytest.raises(DataError, match=r"week-04.npy, row 7, column '3'"):
        refit(config)
    assert registry(tmp_path).versions() == [1]
    assert not list(tmp_path.glob("*.refit"))


def test_matrix_cannot_be_refitted(tmp_path: Path) -> None:
    """A precomputed kernel has no new rows."""
    landed(tmp_path)
    with pytest.raises(ConfigError, match="precomputed"):
        refit(model(tmp_path, kernel={"name": "precomputed"}))


def kinds(results: list[RefitResult]) -> list[str]:
    return [result.fitted.kind if result.fitted else result.action for result in results]


@pytest.mark.parametrize("method", METHODS)
def test_stores_of_refits_do_not_pile_up(method: str, tmp_path: Path) -> None:
    """After each re-fit its working files are gone."""
    landed(tmp_path)
    config = model(tmp_path, method)
    results = [refit(config)]
    for number in (4, 5):
        land(tmp_path, number, week(number))
        results.append(refit(config))
    warm = "added" if method == "nystrom" else "continued"
    assert kinds(results) == ["fresh", warm, warm]
    assert not list(tmp_path.glob("*.refit"))


def test_a_refit_leaves_those_of_other_models_alone(tmp_path: Path) -> None:
    """A re-fit that ends touches nothing of another model's that is under way beside the same run's store."""
    landed(tmp_path)
    config, other = model(tmp_path), model(tmp_path, name="other")
    refit(other)
    with Stores.of(config).opened("begun", "fresh", silent()) as store:
        before = contents(store.path)
        assert before
        assert refit(other).action == "none"
        assert contents(store.path) == before


def test_a_promoted_version_is_reported(tmp_path: Path) -> None:
    """With a section report a re-fit that promotes writes the page, and one with nothing to do does not."""
    landed(tmp_path)
    page = tmp_path / "report.html"
    config = model(tmp_path, report={"path": str(page)})
    assert refit(config).report == str(page)
    assert "version 1" in page.read_text()
    page.unlink()
    assert refit(config).report is None
    assert not page.exists()
