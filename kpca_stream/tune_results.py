"""What tuning found out, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One kernel, with the numbers that it has, and how it did on rows that were held back."""

    kernel: str
    gamma: float | None
    degree: float | None
    coef0: float | None
    n_components: int
    alpha: float | None
    """Of the ridge that leads back to rows, the best of those tried; none with labels."""
    score: float | None
    """Mean over the folds; none where something was in the way."""
    spread: float | None
    """Standard deviation over the folds."""
    problem: str = ""
    """What was in the way."""


@dataclass(frozen=True, kw_only=True)
class TuneSummary:
    """All that was tried, best first."""

    source: str
    n_samples: int
    n_features: int
    n_sampled: int
    """Rows on which all was tried."""
    folds: int
    criterion: str
    """``preimage``: squared distance of rows that were held back to their pre-images, as a share of their
    variance, less is better. Else the estimator whose own score is told, more is better."""
    trials: tuple[Trial, ...]
    note: str
    """What may be compared."""
    seconds: float
    plot: str | None = None
    command: tuple[str, ...] = ()
    """Words of the command that fits with the best's numbers; in Python none."""
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> Trial:
        """The first."""
        return self.trials[0]

    @property
    def less_is_better(self) -> bool:
        """Whether scores are errors."""
        return self.criterion == "preimage"
