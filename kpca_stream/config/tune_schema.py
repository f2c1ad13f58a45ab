"""The section of tuning: what is tried, and by what it is judged."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kpca_stream.config.values import PositiveInt, Section, Text, expected
from kpca_stream.parameters import canonical_kernel

Gamma = Annotated[float, Field(gt=0)] | Literal["median", "scale"]
Number = Annotated[float, Field(allow_inf_nan=False)]


def _one_or_more(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, int | float | str) and not isinstance(value, bool) else value


Several = BeforeValidator(_one_or_more)


class Around(Section):
    """Gammas about a middle one, equally far apart as powers."""

    around: Annotated[float, Field(gt=0)] | Literal["median", "scale"]
    factor: Annotated[float, Field(gt=1)] = 32.0
    """From the middle one divided by this to the middle one times it."""
    n: Annotated[int, Field(ge=2)] = 7


class Labels(Section):
    """What each training row is to be told as."""

    path: Text
    """A one-dimensional .npy file, a source of one column of numbers, or ``sklearn:NAME``, whose targets."""
    rows: str | None = None
    column: Annotated[Text | int | None, expected("a column's name or position, or null")] = None


class Tune(Section):
    """Values to try, each with each of the others; where none are given, those of the kernel's section."""

    kernels: Annotated[
        Annotated[tuple[Annotated[Text, AfterValidator(canonical_kernel)], ...], Field(min_length=1), Several]
        | None,
        expected("a list of kernels, or null for that of kernel.name"),
    ] = None
    gamma: Annotated[
        Around | Annotated[tuple[Gamma, ...], Field(min_length=1), Several] | None,
        expected('a list of numbers > 0, "median" or "scale"; around, factor and n; or null'),
    ] = None
    """null: seven about the median rule, or about scale where there is none."""
    degree: Annotated[
        Annotated[tuple[Number, ...], Field(min_length=1), Several] | None,
        expected("a list of numbers, or null for kernel.degree"),
    ] = None
    coef0: Annotated[
        Annotated[tuple[Number, ...], Field(min_length=1), Several] | None,
        expected("a list of numbers, or null for kernel.coef0"),
    ] = None
    n_components: Annotated[
        Annotated[tuple[PositiveInt, ...], Field(min_length=1), Several] | None,
        expected("a list of whole numbers >= 1, or null for solver.n_components"),
    ] = None
    alpha: Annotated[
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1), Several],
        expected("a list of numbers > 0"),
    ] = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
    """Of the ridge that leads back to rows; the best is taken for each kernel."""
    labels: Labels | None = None
    """Judge by an estimator of these; null: by how well rows that were held back come back."""
    estimator: Text = "logistic"
    """With labels: logistic (share of right ones), ridge (R²), or a "package.module:function" making one."""
    folds: Annotated[int, Field(ge=2)] = 5
    sample_rows: Annotated[int, Field(ge=20)] = 1000
    """Drawn by the seed, on which all is tried."""

    @model_validator(mode="after")
    def _is_tunable(self) -> Self:
        if self.kernels is not None and "precomputed" in self.kernels:
            text = "kernels of rows: a precomputed one has nothing to tune"
            raise PydanticCustomError("expected", "{text}", {"text": text})
        return self
