"""Digits with noise in, digits without it out.

1,437 of scikit-learn's digits are fitted, the other 360 get noise of a quarter of the scale of grey
levels, are scored, and brought back. Prints the mean squared distance to the clean digits for each number of
components; with ``--pictures FILE`` draws some of them (needs the extra report).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from kpca_stream import KernelPCA

Array = NDArray[Any]

N_TRAINED, NOISE = 1437, 0.25


def digits() -> tuple[Array, Array, Array]:
    """Digits to fit, and others, clean and noisy."""
    X = load_digits().data / 16
    clean = X[N_TRAINED:]
    return X[:N_TRAINED], clean, clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)


def distance(rows: Array, clean: Array) -> float:
    """Mean squared distance of a digit to the clean one."""
    return float(((rows - clean) ** 2).sum(axis=1).mean())


def draw(path: Path, rows_of_pictures: dict[str, Array]) -> None:
    """Ten digits a row, in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.1 * len(rows_of_pictures)), layout="constrained")
    axes = figure.subplots(len(rows_of_pictures), 10)
    for line, (name, rows) in zip(axes, rows_of_pictures.items(), strict=True):
        for place, row in zip(line, rows, strict=False):
            place.imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            place.set_xticks([])
            place.set_yticks([])
        line[0].set_ylabel(name)
    figure.savefig(path)


def main() -> None:
    """Print the table, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path)
    pictures = parser.parse_args().pictures
    trained, clean, noisy = digits()
    print(f"noisy: {distance(noisy, clean):.2f}")
    for n_components in (8, 16, 32):
        model = KernelPCA(
            n_components, kernel="rbf", gamma="median", alpha=0.01, fit_inverse_transform=True
        ).fit(trained)
        Z = model.transform(noisy)
        ridge, fixed = (model.pre_images(Z, method=method).rows for method in ("ridge", "fixed_point"))
        print(
            f"{n_components} components: ridge {distance(ridge, clean):.2f}, "
            f"fixed point {distance(fixed, clean):.2f}"
        )
    if pictures is not None:
        draw(pictures, {"clean": clean, "noisy": noisy, "ridge": ridge, "fixed point": fixed})


if __name__ == "__main__":
    main()
