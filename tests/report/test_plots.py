"""The plots: what they count, what they draw, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import ks_1samp
from sklearn.exceptions import NotFittedError

from kpca_stream import FittedBasis, KernelPCA, load_basis
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.nystrom import brackets_of
from kpca_stream.pipeline import run_config
from kpca_stream.report import (
    DARK,
    LIGHT,
    Palette,
    component_map,
    drift_plot,
    explained,
    kernel_map,
    novelty_plot,
    scree,
)
from kpca_stream.report.drift import Distance
from kpca_stream.report.kernel import kernel_values
from kpca_stream.report.maps import Density
from kpca_stream.report.novelty import Histogram
from kpca_stream.report.spectrum import brackets
from kpca_stream.storage.basis import open_basis
from kpca_stream.storage.scores import Label, PartWriter
from kpca_stream.telemetry import silent
from tests.memory import traced_peak
from tests.report.pages import NYSTROM, job, rows

Array = NDArray[Any]

palettes = pytest.mark.parametrize("palette", [LIGHT, DARK])


@pytest.fixture
def ax() -> Axes:
    return Figure().add_subplot()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model and its scores."""
    folder = tmp_path_factory.mktemp("model")
    run_config(job(folder, {"report": None}), silent())
    return folder


@pytest.fixture(scope="module")
def basis(folder: Path) -> FittedBasis:
    return load_basis(folder / "models/rows/versions/1/basis.zarr")


@pytest.fixture(scope="module")
def landmarks(tmp_path_factory: pytest.TempPathFactory) -> FittedBasis:
    folder = tmp_path_factory.mktemp("landmarks")
    run_config(job(folder, {**NYSTROM, "report": None, "score": None}), silent())
    return load_basis(folder / "models/rows/versions/1/basis.zarr")


def test_a_map_counts_every_row() -> None:
    """Rows on the map and beyond it add up to all, a row of weight w counting as w; in blocks as at once."""
    rng = np.random.default_rng(0)
    x, y, w = rng.standard_normal(500), rng.standard_normal(500), rng.integers(1, 4, 500)
    whole = Density((-1.0, 1.0), (-2.0, 2.0)).add(x, y, w)
    blocks = Density((-1.0, 1.0), (-2.0, 2.0))
    for part in np.array_split(np.arange(500), 7):
        blocks.add(x[part], y[part], w[part])
    np.testing.assert_array_equal(whole.counts, blocks.counts)
    assert whole.n_rows == w.sum()
    assert whole.n_outside > 0


def test_a_map_agrees_with_numpy() -> None:
    """Its cells are those of `numpy.histogram2d` over the same edges."""
    x, y = np.random.default_rng(1).standard_normal((2, 400))
    density = Density((-2.0, 2.0), (-1.0, 3.0), bins=9)
    density.add(x, y)
    edges = [np.linspace(*limits, 10) for limits in (density.x, density.y)]
    np.testing.assert_array_equal(density.counts, np.histogram2d(x, y, edges)[0].T)


def test_far_rows_are_beyond_the_map() -> None:
    """Rows however far away are counted, and do not overflow."""
    density = Density((0.0, 1.0), (0.0, 1.0)).add(np.array([1e300, -1e300, 0.5]), np.array([0.5, 0.5, 0.5]))
    assert (density.n_outside, density.counts.sum()) == (2, 1)


def test_the_line_of_a_map_holds_its_share() -> None:
    """The cells above the level of a share hold about this share of the rows."""
    rng = np.random.default_rng(2)
    density = Density((-4.0, 4.0), (-4.0, 4.0)).add(*rng.standard_normal((2, 40_000)))
    level = density.level_of(0.95)
    from scipy.ndimage import gaussian_filter

    assert density.counts[gaussian_filter(density.counts, 1.5) >= level].sum() == pytest.approx(
        38_000, rel=0.01
    )


def test_a_map_of_parts_is_that_of_their_rows(folder: Path, basis: FittedBasis, ax: Axes) -> None:
    """A folder of parts gives the picture that all scores in memory give."""
    Z = basis.transform(rows(90, seed=1))
    of_parts = component_map(str(folder / "scores"), ax, first=2, second=3)
    of_rows = component_map(Z, Figure().add_subplot(), first=2, second=3)
    shown = [np.ma.filled(each.images[0].get_array(), 0) for each in (of_parts, of_rows)]
    np.testing.assert_array_equal(*shown)
    assert shown[0].sum() == 90
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 2", "component 3")


def test_a_map_takes_bounded_memory(tmp_path: Path, ax: Axes) -> None:
    """A map of 400,000 rows of 8 columns takes a fraction of what they hold."""
    rng = np.random.default_rng(0)
    with PartWriter(tmp_path / "a.parquet", 5, Label(source="a", model="rows", version=1)) as writer:
        for start in range(0, 400_000, 50_000):
            Z = rng.standard_normal((50_000, 5))
            writer.write(np.arange(start, start + 50_000), Z, Z[:, 0] ** 2, Z[:, 1] ** 2, Z[:, 0] > 2)
    component_map(tmp_path, ax)
    assert traced_peak(lambda: component_map(tmp_path, Figure().add_subplot())) < 8e6
    assert float(np.ma.filled(ax.images[0].get_array(), 0).sum()) == 400_000


def test_scree_shows_the_eigenvalues(basis: FittedBasis, folder: Path, ax: Axes) -> None:
    """Points are the eigenvalues over 1, 2, …; a path serves as well as a basis."""
    scree(basis, ax)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.c_[[1, 2, 3], basis.eigenvalues])
    again = scree(folder / "models/rows/versions/1/basis.zarr", Figure().add_subplot())
    np.testing.assert_array_equal(again.lines[0].get_ydata(), basis.eigenvalues)


def test_brackets_are_those_of_the_certificates(landmarks: FittedBasis, ax: Axes) -> None:
    """An approximate spectrum shows each bound; that by the trace is the basis's own."""
    found = brackets(landmarks)
    assert [each.certificate.kind for each in found] == sorted(
        ["trace", "probabilistic"],
        key=lambda kind: -next(each.certificate.bound for each in found if each.certificate.kind == kind),
    )
    by_trace = next(each for each in found if each.certificate.kind == "trace")
    np.testing.assert_array_equal(by_trace.limits, brackets_of(landmarks.frozen))
    scree(landmarks, ax)
    labels = ax.get_legend_handles_labels()[1]
    assert {"at most, trace", "at most, probabilistic"} <= set(labels)
    assert len(ax.collections) == 2


def test_explained_adds_up_to_the_ratio(basis: FittedBasis, ax: Axes) -> None:
    """Bars are shares of the whole trace in percent, and the line adds them up."""
    explained(basis, ax)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, 100 * basis.explained_variance_ratio)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.cumsum(heights))


def test_a_histogram_counts_all_values(basis: FittedBasis) -> None:
    """Shares of scored and of training rows add up to one, values beyond the end included."""
    histogram = Histogram(basis.thresholds, "reconstruction_error", largest=9.0)
    values = np.r_[np.linspace(0, 1, 50), 5.0, 9.0, np.nan]
    histogram.add(values)
    assert histogram.n_rows == 52
    assert histogram.shares.sum() == pytest.approx(1.0)
    assert histogram.training_shares.sum() == pytest.approx(1.0)
    assert histogram.n_above == (values[:-1] > basis.thresholds.reconstruction_error).sum()
    assert histogram.n_past_end == (values[:-1] > histogram.edges[-1]).sum() >= 2


@pytest.mark.parametrize("of", ["reconstruction_error", "hotelling_t2"])
def test_novelty_is_shown_with_its_threshold(folder: Path, basis: FittedBasis, ax: Axes, of: str) -> None:
    """The line lies at the threshold; scores in memory show what their parts show."""
    novelty_plot(folder / "scores", basis, ax, of=of)
    assert list(ax.lines[0].get_xdata()) == [getattr(basis.thresholds, of)] * 2
    again = novelty_plot(basis.score(rows(90, seed=1)), basis, Figure().add_subplot(), of=of)
    for found, other in zip(ax.patches, again.patches, strict=True):
        np.testing.assert_allclose(found.get_data().values, other.get_data().values)  # type: ignore[attr-defined]


def test_distances_are_those_of_kolmogorov_and_smirnov(basis: FittedBasis) -> None:
    """The distance agrees with SciPy's for the same distribution, to the step of its quantiles."""
    quantiles = basis.thresholds.error_quantiles
    levels = np.linspace(0, 1, len(quantiles))
    for seed, shift in ((0, 1.0), (1, 1.3), (2, 3.0)):
        values = shift * np.interp(np.random.default_rng(seed).random(400), levels, quantiles)
        distance = Distance(basis.thresholds, "reconstruction_error", 200)
        for block in np.array_split(values, 3):
            distance.add(block)
        expected = ks_1samp(values, lambda x: np.interp(x, quantiles, levels)).statistic
        assert distance.statistic == pytest.approx(expected, abs=0.004)
        assert distance.relative_mean == pytest.approx(values.mean() / np.trapezoid(quantiles, levels))


def test_drift_is_beyond_chance_only_where_rows_drift(basis: FittedBasis, ax: Axes) -> None:
    """Parts like the training rows stay within the band, shifted ones leave it."""
    parts = [basis.score(rows(80, seed=seed)) for seed in (1, 2)] + [basis.score(rows(80, seed=3, shift=1.0))]
    drift_plot(parts, basis, ax)
    errors = next(line for line in ax.lines if line.get_label() == "error e")
    band = ax.collections[0].get_datalim(ax.transData).y1
    values = np.asarray(errors.get_ydata())
    assert (values[:2] < band).all()
    assert values[2] > band


def test_copies_of_training_rows_have_no_distance(tmp_path: Path) -> None:
    """Rounding does not part values that are all the same from quantiles that are."""
    X = np.repeat(rows(8), 125, axis=0)
    KernelPCA(2, kernel="rbf", gamma=0.05, merge_duplicates=True).fit(X).save(tmp_path / "basis.zarr")
    thresholds = open_basis(tmp_path / "basis.zarr").thresholds
    values = np.repeat(thresholds.t2_quantiles[62::125], 125) * (1 - 1e-12)
    assert Distance(thresholds, "hotelling_t2", 1000).add(values).statistic < 0.004


def test_a_kernel_map_is_ordered_by_the_first_component(basis: FittedBasis) -> None:
    """Its rows are training rows, from the least to the largest score on component 1."""
    X = rows(200)
    order = np.argsort(basis.transform(X)[:, 0])
    distances = ((X[order][:, None] - X[order]) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel_values(basis.frozen, 200), np.exp(-0.05 * distances), atol=1e-6)
    assert kernel_values(basis.frozen, 30).shape == (30, 30)


def test_a_kernel_map_of_landmarks(landmarks: FittedBasis, ax: Axes) -> None:
    """Landmarks serve as rows, in the order of their scores."""
    kernel_map(landmarks, ax)
    X = landmarks.frozen.in_memory().rows.load()  # type: ignore[union-attr]
    X = X[np.argsort(landmarks.transform(X)[:, 0])]
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(ax.images[0].get_array(), np.exp(-0.05 * distances), atol=1e-6)


def test_the_kernel_itself_is_shown_not_the_reduced_one(tmp_path: Path) -> None:
    """A linear kernel is that of the rows as they are, not of centred ones."""
    X = rows(40) + 5
    KernelPCA(2, kernel="linear").fit(X).save(tmp_path / "basis.zarr")
    values = kernel_values(open_basis(tmp_path / "basis.zarr"))
    np.testing.assert_allclose(np.sort(np.diag(values)), np.sort((X**2).sum(axis=1)))


@palettes
def test_each_plot_takes_one_call(folder: Path, basis: FittedBasis, palette: Palette, ax: Axes) -> None:
    """Every plot returns the axes that it was given, in either palette."""
    scores = folder / "scores"
    assert scree(basis, ax, palette=palette) is ax
    assert explained(basis, ax, palette=palette) is ax
    assert component_map(scores, ax, palette=palette) is ax
    assert novelty_plot(scores, basis, ax, palette=palette) is ax
    assert drift_plot(scores, basis, ax, palette=palette) is ax
    assert kernel_map(basis, ax, palette=palette) is ax


@pytest.mark.parametrize("method", ["lanczos", "nystrom"])
def test_a_fitted_estimator_is_plotted_by_one_call(method: str, ax: Axes) -> None:
    """Each plot takes a fitted KernelPCA, and shows what it shows of the basis that this holds."""
    model = KernelPCA(3, kernel="rbf", gamma=0.05, eigen_solver=method, n_landmarks=40).fit(rows(200))
    scored = [model.basis_.score(rows(60, seed=seed)) for seed in (1, 2)]
    assert scree(model, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.eigenvalues_)
    shares = [bar.get_height() for bar in explained(model, Figure().add_subplot()).patches]
    np.testing.assert_allclose(shares, 100 * model.explained_variance_ratio_)
    for of_model, of_basis in (
        (kernel_map(model, axes()), kernel_map(model.basis_, axes())),
        (component_map(model, axes(), second=3), component_map(model.transform(rows(200)), axes(), second=3)),
    ):
        np.testing.assert_array_equal(
            *(np.ma.filled(each.images[0].get_array(), 0) for each in (of_model, of_basis))
        )
    assert (
        novelty_plot(scored[0], model, axes()).lines[0].get_xdata()[0]
        == model.basis_.thresholds.reconstruction_error
    )
    assert drift_plot(scored, model, axes()).get_xlim() == (0.5, 2.5)


def test_a_map_of_a_model_counts_merged_rows() -> None:
    """Rows that were fitted as one with a weight are on the map as often as they occurred."""
    X = np.repeat(rows(50), 4, axis=0)
    model = KernelPCA(2, kernel="rbf", gamma=0.05, merge_duplicates=True).fit(X)
    shown = component_map(model, axes()).images[0].get_array()
    assert float(np.ma.filled(shown, 0).sum()) == 200


def axes() -> Axes:
    return Figure().add_subplot()


def test_a_plot_makes_axes_of_its_own(basis: FittedBasis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without axes it draws on a new figure of pyplot's."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot as plt

    made = scree(basis)
    assert made.figure.number in plt.get_fignums()  # type: ignore[union-attr]
    plt.close("all")


def test_mistakes_are_told(folder: Path, basis: FittedBasis, tmp_path: Path, ax: Axes) -> None:
    """Components, measures, folders and bases that are not there are named."""
    with pytest.raises(ConfigError, match="component 4: not there, expected a number from 1 to 3"):
        component_map(folder / "scores", ax, second=4)
    with pytest.raises(ConfigError, match="component 0: not there"):
        component_map(np.zeros((3, 2)), ax, first=0)
    with pytest.raises(ConfigError, match="of: got 't2', expected one of reconstruction_error"):
        novelty_plot(folder / "scores", basis, ax, of="t2")
    with pytest.raises(ConfigError, match="no such folder, expected that of the scores"):
        component_map(tmp_path / "none", ax)
    with pytest.raises(ConfigError, match="got int, expected what load_basis gives, a fitted KernelPCA"):
        kernel_map(3, ax)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError, match="KernelPCA instance is not fitted yet"):
        scree(KernelPCA(), ax)


def test_no_rows_are_told(basis: FittedBasis, tmp_path: Path, ax: Axes) -> None:
    """An empty folder, and values that are not known, are refused."""
    with pytest.raises(DataError, match="got no rows to show"):
        component_map(tmp_path, ax)
    with pytest.raises(DataError, match="got no known values"):
        novelty_plot(np.full(5, np.nan), basis, ax)
    with pytest.raises(DataError, match="got no parts"):
        drift_plot(tmp_path, basis, ax)
    with pytest.raises(DataError, match="expected 2: rows x components"):
        component_map(np.zeros(3), ax)


def test_a_precomputed_kernel_has_no_map(tmp_path: Path, ax: Axes) -> None:
    """The message says that its basis holds no rows."""
    X = rows(30)
    KernelPCA(2, kernel="precomputed").fit(X @ X.T).save(tmp_path / "basis.zarr")
    with pytest.raises(DataError, match="precomputed, so that it holds no rows"):
        kernel_map(tmp_path / "basis.zarr", ax)


def test_matplotlib_is_imported_by_plots_alone() -> None:
    """Neither the package nor the pipeline imports what only plots need."""
    code = "import sys, kpca_stream.report, kpca_stream.pipeline; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_extra_is_named(basis: FittedBasis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Matplotlib is absent, a plot without axes names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'kpca-stream\[report\]'"):
        scree(basis)
