"""Tuning: what is judged, by what, on which rows; and the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from converters import rows
from numpy.typing import NDArray
from sklearn.datasets import make_circles
from sklearn.decomposition import KernelPCA as Reference
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca_stream import tune
from kpca_stream.errors import ConfigError, DataError, KpcaStreamWarning
from kpca_stream.tuning import Around
from kpca_stream.tuning.trials import fold_numbers

Array = NDArray[Any]


def rings(n_samples: int = 120) -> tuple[Array, Array]:
    X, ring = make_circles(n_samples, factor=0.3, noise=0.05, random_state=0)
    return X, ring


def by_hand(X: Array, gamma: float, alpha: float, folds: Array) -> list[float]:
    """Pre-image errors of each fold, by scikit-learn."""
    errors = []
    for fold in range(folds.max() + 1):
        fitted, held = X[folds != fold], X[folds == fold]
        model = Reference(2, kernel="rbf", gamma=gamma, alpha=alpha, fit_inverse_transform=True).fit(fitted)
        back = model.inverse_transform(model.transform(held))
        errors.append(((back - held) ** 2).sum() / ((held - fitted.mean(axis=0)) ** 2).sum())
    return errors


def test_pre_image_errors_are_those_of_scikit_learn() -> None:
    """The error that is told is the mean over folds of what scikit-learn's ridge leaves of rows held back."""
    X, _ = rings()
    found = tune(X, gamma=[0.5, 5.0], n_components=2, alpha=0.1, folds=4)
    folds = fold_numbers(120, 4, 0, None)
    for trial in found.trials:
        expected = by_hand(X, trial.gamma or 0.0, 0.1, folds)
        np.testing.assert_allclose(trial.score, np.mean(expected), rtol=1e-7)
        np.testing.assert_allclose(trial.spread, np.std(expected), rtol=1e-6)


def test_labels_judge_by_an_estimator() -> None:
    """With labels the score is the estimator's own, of standardised scores, on rows held back."""
    X, ring = rings()
    found = tune(X, ring, gamma=[0.1, 5.0], n_components=2, folds=3)
    assert [trial.gamma for trial in found.trials] == [5.0, 0.1]
    assert found.best.score == 1
    folds = fold_numbers(120, 3, 0, ring)
    scores = []
    for fold in range(3):
        model = Reference(2, kernel="rbf", gamma=0.1).fit(X[folds != fold])
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        pipeline.fit(model.transform(X[folds != fold]), ring[folds != fold])
        scores.append(pipeline.score(model.transform(X[folds == fold]), ring[folds == fold]))
    np.testing.assert_allclose(found.trials[1].score, np.mean(scores), rtol=1e-9)


def test_the_best_alpha_is_told() -> None:
    """Of several alphas each trial tells the one with the least error, and that error."""
    X, _ = rings()
    every = tune(X, gamma=2.0, n_components=3, alpha=[1e-6, 1e-2, 1.0]).best
    each = {alpha: tune(X, gamma=2.0, n_components=3, alpha=alpha).best.score for alpha in (1e-6, 1e-2, 1.0)}
    assert every.alpha == min(each, key=lambda alpha: each[alpha] or 0.0)
    assert every.score == min(each.values(), key=lambda score: score or 0.0)


def test_units_change_nothing() -> None:
    """With rows scaled by 1000 and γ about the rule, labels judge kernels the same."""
    X, ring = rings()
    small, large = (tune(factor * X, ring, n_components=2, folds=3) for factor in (1, 1000))
    np.testing.assert_allclose(
        [trial.score for trial in small.trials], [trial.score for trial in large.trials], rtol=1e-9
    )
    for a, b in zip(small.trials, large.trials, strict=True):
        assert a.gamma is not None
        assert b.gamma is not None
        np.testing.assert_allclose(a.gamma, 1e6 * b.gamma, rtol=1e-9)


def test_a_kernel_has_only_its_own_numbers() -> None:
    """Each kernel is tried once with each of the numbers that it has; rules are resolved to numbers."""
    X, _ = rings()
    found = tune(
        X,
        kernel=["rbf", "polynomial", "linear"],
        gamma=["scale", 0.5],
        degree=[2, 3],
        coef0=[0.0, 1.0],
        n_components=[1, 2],
        alpha=0.1,
        folds=2,
    )
    counts = {name: sum(trial.kernel == name for trial in found.trials) for name in ("rbf", "poly", "linear")}
    assert counts == {"rbf": 2 * 2, "poly": 2 * 2 * 2 * 2, "linear": 2}
    scale = 1 / (2 * X.var())
    assert any(trial.gamma is not None and abs(trial.gamma / scale - 1) < 1e-9 for trial in found.trials)
    assert all(trial.gamma is None for trial in found.trials if trial.kernel == "linear")


@pytest.mark.filterwarnings("ignore:the best gamma:kpca_stream.errors.KpcaStreamWarning")
def test_a_sweep_goes_around_a_rule() -> None:
    """Without values gamma goes from a 32nd of the median rule to 32 times it in seven equal powers."""
    X, _ = rings()
    gammas = sorted(trial.gamma or 0.0 for trial in tune(X, n_components=2, folds=2).trials)
    steps = np.diff(np.log(gammas))
    np.testing.assert_allclose(steps, np.log(32**2) / 6)
    few = tune(X, gamma=Around(2.0, factor=4, n=3), n_components=2, folds=2)
    np.testing.assert_allclose(sorted(trial.gamma or 0.0 for trial in few.trials), [0.5, 2.0, 8.0])


@pytest.mark.filterwarnings("ignore:the best gamma:kpca_stream.errors.KpcaStreamWarning")
def test_the_same_seed_judges_the_same() -> None:
    """A sample is drawn by the seed: equal ones give equal scores, another one others."""
    X = rows(500)
    scores = [
        [trial.score for trial in tune(X, n_components=2, sample_rows=60, random_state=seed).trials]
        for seed in (0, 0, 1)
    ]
    assert scores[0] == scores[1] != scores[2]


@pytest.mark.parametrize("kind", ["dask", "sparse", "frame"])
def test_every_kind_of_rows(kind: str) -> None:
    """Lazy, sparse and named rows are judged as the array that they hold."""
    import pandas as pd
    from scipy import sparse

    X, ring = rings()
    given = {
        "dask": da.from_array(X, chunks=(50, 1)),
        "sparse": sparse.csr_array(X),
        "frame": pd.DataFrame(X),
    }
    found, expected = (tune(x, ring, gamma=2.0, n_components=2).trials for x in (given[kind], X))
    assert found == expected


def test_text_labels_are_classes() -> None:
    """Labels may be text."""
    X, ring = rings()
    names = np.where(ring == 1, "inner", "outer")
    assert tune(X, names, gamma=5.0, n_components=2).best.score == 1


def test_measures_are_told_by_a_ridge() -> None:
    """Labels that are measures are judged by R² of a ridge regression."""
    X = rows(200)
    y = np.sin(X[:, 0]) + X[:, 1]
    found = tune(X, y, gamma=[0.001, 0.1], n_components=20, estimator="ridge")
    assert found.criterion == "ridge"
    assert (found.best.score or 0.0) > 0.8


def test_an_estimator_of_ones_own() -> None:
    """An estimator is found by the name of what makes it."""
    X, ring = rings()
    found = tune(X, ring, gamma=5.0, n_components=2, estimator="sklearn.neighbors:KNeighborsClassifier")
    assert found.best.score == 1


def test_the_edge_of_a_sweep_is_told() -> None:
    """Where the best gamma is the smallest or the largest, a warning says so."""
    X, ring = rings()
    inside = tune(X, ring, gamma=[0.1, 5.0, 1000.0], n_components=2)
    assert inside.warnings == ()
    with pytest.warns(KpcaStreamWarning, match="the largest that was tried"):
        edge = tune(X, ring, gamma=[0.01, 0.02, 5.0], n_components=2)
    assert re.search(r"best gamma of rbf, 5, is the largest that was tried", edge.warnings[0])


def test_what_cannot_be_judged_says_why() -> None:
    """A kernel that is indefinite comes last, with the reason; if none can be judged, that is an error."""
    X, _ = rings()
    found = tune(X, kernel=["sigmoid", "rbf"], gamma=4.0, coef0=0.0, n_components=2)
    assert found.best.kernel == "rbf"
    assert found.trials[-1].score is None
    assert "indefinite: |negative|/largest" in found.trials[-1].problem
    with pytest.raises(DataError, match=r"none of 1 candidates could be judged, .* indefinite"):
        tune(X, kernel="sigmoid", gamma=4.0, coef0=0.0, n_components=2)


def test_feature_space_errors_are_never_compared() -> None:
    """What may be compared is said with every result."""
    X, ring = rings()
    for labels in (None, ring):
        note = tune(X, labels, gamma=2.0, n_components=2, folds=2).note
        assert "distances in feature space are not" in note
        assert "never compared" in note


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "precomputed"}, "kernel: got precomputed"),
        ({"kernel": "rbff"}, "unknown kernel, got 'rbff'"),
        ({"gamma": -1.0}, r"gamma: .* got -1.0"),
        ({"kernel": "poly", "gamma": "median"}, "no median rule for the poly kernel"),
        ({"n_components": 0}, "n_components: got 0, expected numbers ≥ 1"),
        ({"alpha": -0.1}, "alpha: got -0.1"),
        ({"gamma": []}, "gamma: got no value to try"),
        ({"kernel": ()}, "kernels: got no value to try"),
        ({"folds": 1}, "folds: got 1, expected a whole number ≥ 2"),
        ({"folds": 80}, "folds: got 80 for 120 rows"),
        ({"sample_rows": 3}, "sample_rows: got 3"),
        ({"y": np.zeros(7)}, r"labels: got shape \(7,\), expected one for each of 120 rows"),
        ({"y": np.full(120, np.nan)}, "labels: got nan for row 0"),
        ({"y": np.linspace(0, 1, 120)}, "expected classes; use estimator: ridge"),
        ({"y": np.arange(120) // 119}, "labels: got 1 for 1 sampled rows, .* at least folds=5"),
        ({"y": np.arange(120) % 2, "estimator": "forest"}, "estimator: got 'forest', expected logistic"),
        (
            {"y": np.arange(120) % 2, "estimator": "no.such:thing"},
            "estimator: 'no.such:thing' cannot be found",
        ),
    ],
)
def test_wrong_arguments_are_refused(parameters: dict[str, Any], message: str) -> None:
    """What cannot be tried is named with its value before anything is."""
    with pytest.raises((ConfigError, DataError), match=message):
        tune(rings()[0], **parameters)


def configured(folder: Path, **tune_section: Any) -> str:
    """A configuration of the rings, in JSON, which is YAML."""
    X, ring = rings()
    np.save(folder / "rings.npy", X)
    np.save(folder / "labels.npy", ring)
    sections = {
        "name": "rings",
        "data": {"train": {"path": str(folder / "rings.npy"), "rows": "0:100"}},
        "solver": {"n_components": 2},
        "tune": {"gamma": [0.1, 5.0, 200.0]} | tune_section,
    }
    path = folder / "rings.yaml"
    path.write_text(json.dumps(sections))
    return str(path)


def test_the_command(tmp_path: Path, told: Callable[..., dict[str, Any]]) -> None:
    """`tune` prints every trial, best first, and draws a picture where it is asked."""
    pytest.importorskip("matplotlib")
    plot = tmp_path / "tune.svg"
    path = configured(tmp_path, labels={"path": str(tmp_path / "labels.npy"), "rows": "0:100"})
    found = told("tune", path, "--plot", str(plot))["result"]
    assert found["trials"][0]["gamma"] == 5.0
    assert found["criterion"] == "logistic"
    assert found["plot"] == str(plot)
    text = plot.read_text()
    assert "<svg" in text
    assert len(text) > 5000


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the best first, says what may be compared, and how to go on."""
    from kpca_stream.cli import main

    assert main(["tune", configured(tmp_path), "--quiet", "--set", "tune.n_components=[1, 2]"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "tried 6, the best 6 below" in out
    assert "distances in feature space are not" in out
    assert re.search(
        r"kpca-stream run CONFIG --set kernel.name=rbf --set kernel.gamma=[\d.]+ --set solver", out
    )


def test_the_table_fits_a_narrow_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 60 columns numbers are rounded and nothing is cut; the next command keeps all digits."""
    from kpca_stream.cli import main

    monkeypatch.setenv("COLUMNS", "60")
    assert main(["tune", configured(tmp_path, gamma=[1 / 3, 5.0], kernels=["laplacian"]), "--quiet"]) == 0
    table, _, following = capsys.readouterr().out.partition("Next")
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 60
    assert re.search(r"laplacian +0\.333 ", table)
    assert "kpca-stream run CONFIG --set kernel.name=laplacian" in following


def test_the_table_tells_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels that could not be judged are told with the reason."""
    from kpca_stream.cli import main

    assert main(["tune", configured(tmp_path, kernels=["sigmoid", "linear"], coef0=[0.0]), "--quiet"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"[123] failed; sigmoid: indefinite: \|negative\|/largest", out), out


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"gamma": [0]}, 'tune.gamma: .*expected a list of numbers > 0, "median"'),
        ({"kernels": ["precomputed"]}, "tune: .*expected kernels of rows"),
        ({"folds": 1}, "tune.folds: .*a number >= 2"),
        ({"gama": [1]}, "tune.gama: unknown key, got 'gama', did you mean 'gamma'"),
        ({"labels": {"path": "no.npy"}}, "no.npy: no such file"),
        ({"labels": {"path": "sklearn:linnerud"}}, "labels: got 3 targets"),
    ],
)
def test_a_wrong_section_is_refused(
    tmp_path: Path, told: Callable[..., dict[str, Any]], section: dict[str, Any], message: str
) -> None:
    """Mistakes in the section are named by key, value and what was expected."""
    error = told("tune", configured(tmp_path, **section), code=2)["error"]
    assert re.search(message, error["message"]), error["message"]


def test_labels_from_a_column_of_the_rows(tmp_path: Path, told: Callable[..., dict[str, Any]]) -> None:
    """A column of the rows' own file may be the labels, where it is not one of those they are told by."""
    X, ring = rings()
    table = tmp_path / "rings.csv"
    np.savetxt(table, np.column_stack([X, ring]), delimiter=",", header="x,y,ring", comments="")
    path = configured(tmp_path, labels={"path": str(table), "rows": "0:100", "column": "ring"})
    error = told("tune", path, "--set", f"data.train.path={table}", code=2)["error"]
    assert "tune.labels.column: got ring, which is one of the columns" in error["message"]
    columns = ("--set", f"data.train.path={table}", "--set", "data.columns=[x, y]")
    assert told("tune", path, *columns)["result"]["trials"][0]["gamma"] == 5.0


def test_a_share_of_components_cannot_be_tuned(tmp_path: Path, told: Callable[..., dict[str, Any]]) -> None:
    """Where solver.n_components is a share, section tune must say how many."""
    path = configured(tmp_path)
    error = told("tune", path, "--set", "solver.n_components=0.9", code=2)["error"]
    assert "tune.n_components: got the share 0.9" in error["message"]


def test_a_sample_beyond_the_memory_is_refused(tmp_path: Path, told: Callable[..., dict[str, Any]]) -> None:
    """A sample whose trials take more than limits.memory is refused with both figures."""
    path = configured(tmp_path)
    error = told("tune", path, "--set", "limits.memory=300KiB", code=2)["error"]
    assert re.search(r"sample_rows: got 100, .* takes .* of memory", error["message"])


def test_a_picture_of_another_kind_is_refused(tmp_path: Path, told: Callable[..., dict[str, Any]]) -> None:
    """A picture that Matplotlib has no format for is refused before anything is tried."""
    pytest.importorskip("matplotlib")
    error = told("tune", configured(tmp_path), "--plot", str(tmp_path / "tune.doc"), code=2)["error"]
    assert "expected a name that ends in .png" in error["message"]


@pytest.mark.cluster
def test_processes_judge_the_same(two_processes: Any) -> None:
    """Two processes give the scores that threads give."""
    X = rows(1500, 400)  # more than a block of the sample
    here = tune(X, gamma=[0.001], n_components=2, alpha=0.1, folds=2, sample_rows=1400, n_jobs=2)
    there = tune(X, gamma=[0.001], n_components=2, alpha=0.1, folds=2, sample_rows=1400)
    assert two_processes.status == "running"
    assert here.trials == there.trials
