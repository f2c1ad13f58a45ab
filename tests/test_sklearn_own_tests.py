"""scikit-learn's own tests of `KernelPCA`, from the installed package, run against ours."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from kpca_stream import KernelPCA

HOME = "sklearn.decomposition.tests.test_kernel_pca"

pytestmark = pytest.mark.filterwarnings("default")

CANNOT_HOLD = {
    "test_kernel_pca_precomputed_non_symmetric": "an asymmetric matrix is refused",
    "test_precomputed_kernel_not_psd[randomized]": "randomized is Lanczos, which takes no negative ones",
}
"""Departures that are meant: what scikit-learn accepts, or refuses, for the sake of a method of its own."""


def _installed() -> ModuleType:
    """A copy of the installed module of tests, with our class in place of scikit-learn's."""
    spec = importlib.util.find_spec(HOME)
    if spec is None or spec.loader is None:
        raise ImportError(f"{HOME} is not installed")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.KernelPCA = KernelPCA
    return module


def _tests(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    return ((name, value) for name, value in vars(module).items() if name.startswith("test_"))


@pytest.fixture
def global_random_seed() -> int:
    """The seed that scikit-learn's own run takes, unless told otherwise."""
    return 42


@pytest.fixture(autouse=True)
def _departures(request: pytest.FixtureRequest) -> None:
    """Expects those that cannot hold to fail, and to go on failing."""
    node = request.node
    reason = CANNOT_HOLD.get(node.name) or CANNOT_HOLD.get(node.originalname)
    if reason is not None:
        node.add_marker(pytest.mark.xfail(reason=reason, strict=True))


globals().update(_tests(_installed()))
