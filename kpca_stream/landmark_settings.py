"""How a configuration chooses landmarks: a number, rows of one's own, or those of another basis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca_stream.addresses import Location, located
from kpca_stream.approximation import DEFAULT_LANDMARKS, NystromSettings
from kpca_stream.config import Config, LandmarkRows, LandmarksOf
from kpca_stream.errors import ConfigError
from kpca_stream.joining import accumulated_of
from kpca_stream.storage.basis import Basis, open_basis
from kpca_stream.storage.source import open_source

KERNEL_NUMBERS = ("gamma", "degree", "coef0")


def landmark_settings(config: Config) -> NystromSettings:
    """The approximation that a configuration describes.

    Raises
    ------
    ConfigError
        If landmarks cannot be found, or belong to another kernel or scale.
    DataError
        If the basis whose landmarks shall be taken is exact, or damaged.
    """
    asked = config.nystrom
    rows, other = asked.landmarks, asked.landmarks
    return NystromSettings(
        n_landmarks=asked.landmarks if isinstance(asked.landmarks, int) else DEFAULT_LANDMARKS,
        method=asked.method,
        given=_given(config, rows) if isinstance(rows, LandmarkRows) else None,
        like=_basis_to_join(config, located(other.basis)) if isinstance(other, LandmarksOf) else None,
        residual=asked.residual,
        pool=asked.pool,
        bound=asked.bound,
    )


def _given(config: Config, asked: LandmarkRows) -> NDArray[Any]:
    is_matrix = config.kernel.name == "precomputed"
    columns = None if is_matrix else config.data.columns
    source = open_source(asked.path, rows=asked.rows, columns=columns)
    rows = np.concatenate(list(source.blocks(0, source.n_samples)))
    return rows[:, 0] if is_matrix else rows


def _basis_to_join(config: Config, path: Location) -> Basis:
    """The basis whose landmarks are taken; its kernel and scale are the configured ones."""
    basis = open_basis(path)
    accumulated_of(basis, str(path))
    _refuse_other_kernel(config, basis, path)
    scale = "none" if basis.kernel.preparation.multiplier is None else "standard"
    if scale != config.data.scale:
        raise ConfigError(
            f"data.scale: got {config.data.scale}, expected {scale}, that of {path}, since its landmarks are "
            "taken; change it, or choose other landmarks"
        )
    return basis


def _refuse_other_kernel(config: Config, basis: Basis, path: Location) -> None:
    """A rule for gamma, or none, takes what the basis has."""
    asked, kernel = config.kernel, basis.kernel
    name = getattr(kernel, "label", kernel.name)
    found = {key: getattr(kernel, key) for key in KERNEL_NUMBERS if hasattr(kernel, key)}
    given = {key: getattr(asked, key) for key in found} if asked.name == name else {}
    if "gamma" in given and not isinstance(asked.gamma, int | float):
        given["gamma"] = found["gamma"]
    if asked.name != name or given != found:
        raise ConfigError(
            f"kernel: got {_told(asked.name, given)}, expected that of {path}, {_told(name, found)}, "
            "since its landmarks are taken; change the kernel, or choose other landmarks"
        )


def _told(kernel: str, numbers: dict[str, float]) -> str:
    told = ", ".join(f"{key} {value:g}" for key, value in numbers.items())
    return f"{kernel} with {told}" if told else kernel
