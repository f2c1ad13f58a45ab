"""Two rings: which γ tells them apart on component 1, and how far back the way to the plane leads.

Prints the best single cut on the first component for some γ, and for plain PCA; then, for γ = 5 and two
components, the mean squared distance between rows and their pre-images.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA

from kpca_stream import KernelPCA

GAMMAS = (0.1, 1.0, 5.0, 100.0)


def best_cut(values: NDArray[Any], ring: NDArray[Any]) -> float:
    """The share of rows on the right side of the best single cut, whichever side is which."""
    inner = ring[np.argsort(values)]
    below = np.cumsum(inner) + np.cumsum((1 - inner)[::-1])[::-1] - (1 - inner)
    right = np.append(below, (1 - inner).sum())
    return float(max(right.max(), len(ring) - right.min()) / len(ring))


def main() -> None:
    """Print the table."""
    X, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    for gamma in GAMMAS:
        Z = KernelPCA(2, kernel="rbf", gamma=gamma).fit_transform(X)
        print(f"rbf, gamma {gamma:g}: {best_cut(Z[:, 0], ring):.0%}")
    print(f"plain PCA: {best_cut(PCA(2).fit_transform(X)[:, 0], ring):.0%}")
    model = KernelPCA(2, kernel="rbf", gamma=5, alpha=0.1, fit_inverse_transform=True)
    back = model.inverse_transform(model.fit_transform(X))
    print(f"pre-images, gamma 5: mean squared distance {((back - X) ** 2).sum(axis=1).mean():.3f}")


if __name__ == "__main__":
    main()
