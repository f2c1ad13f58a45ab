"""Which basis the folder of a model means."""

from __future__ import annotations

import pytest

from kpca_stream import load_basis
from kpca_stream.errors import ConfigError
from kpca_stream.storage.registry import Registry
from tests.storage.versions import anywhere, publish


@anywhere
def test_a_model_means_its_champion(models: str) -> None:
    """A model's folder opens as the version that its champion names, a version's and a basis's as itself."""
    registry, model = Registry.of(models, "digits"), f"{models}/digits"
    for _ in range(3):
        publish(registry)
    with pytest.raises(ConfigError, match=r"digits has no champion; fit a model first"):
        load_basis(model)
    for version in (1, 3, 2):
        registry.point(version)
        assert load_basis(model).facts["tag"] == version
    assert load_basis(f"{model}/versions/3").facts["tag"] == 3
    assert load_basis(f"{model}/versions/3/basis.zarr").facts["tag"] == 3
    for wrong in (models, f"{model}/versions"):
        with pytest.raises(ConfigError, match="is not a basis"):
            load_basis(wrong)
