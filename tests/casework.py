"""How the hard cases are fitted: by the estimator, by settings of the command line, by its commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from cases import Case
from numpy.typing import NDArray

from kpca_stream import KernelPCA
from kpca_stream.cli import main
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import Fit, fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.storage.source import open_source

Array = NDArray[Any]
Method = Literal["dense", "lanczos"]


def estimator(case: Case, n_components: int | None = None, **more: Any) -> KernelPCA:
    return KernelPCA(n_components or len(case.eigenvalues), **{**case.parameters, **more})


def fitted(case: Case, X: Array | None = None, **more: Any) -> Fit:
    """A fit by the settings of the command line."""
    parameters = dict(case.parameters)
    spec = KernelSpec(parameters.pop("kernel", "linear"), **parameters)
    settings = FitSettings(kernel=spec, **{"n_components": len(case.eigenvalues), **more})
    return fit(open_source(case.X if X is None else X), settings)


class Commands:
    """The command line in a folder of its own, with a configuration that fits `x.npy`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def configure(self, case: Case, X: Array | str | None = None, **more: Any) -> None:
        if not isinstance(X, str):
            np.save("x.npy", case.X if X is None else X)
        kernel = {"name" if key == "kernel" else key: value for key, value in case.parameters.items()}
        config = {
            "name": "case",
            "data": {"train": {"path": X if isinstance(X, str) else "x.npy"}, **more.pop("data", {})},
            "kernel": kernel or {"name": "linear"},
            "solver": {"n_components": len(case.eigenvalues), "tol": 1e-13, **more.pop("solver", {})},
            "gram": {"storage": "zarr", "path": "gram.zarr", **more.pop("gram", {})},
            **more,
        }
        Path("c.yaml").write_text(json.dumps(config))

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The JSON object that a command prints."""
        assert main([*arguments, "--json", "--quiet"]) == code
        printed: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return printed
