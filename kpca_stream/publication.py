"""What a fit is published with: its name, the warnings it gave, and its manifest."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from kpca_stream.errors import DataError, KpcaStreamWarning
from kpca_stream.fitsettings import FitSettings
from kpca_stream.numerics.resolve import resolve_kernel
from kpca_stream.packages import package_versions
from kpca_stream.parameters import is_function_name
from kpca_stream.preliminaries import own_values, plan_of
from kpca_stream.results import FitSummary, as_json
from kpca_stream.stages.sweep import Sweep
from kpca_stream.storage.basis import Basis
from kpca_stream.storage.manifest import CREATED
from kpca_stream.storage.source import Source


def fit_name(settings: FitSettings, looked: Sweep, source: Source) -> str:
    """A name that two fits share only if they must give the same basis."""
    numbers, choices = _choices(settings)
    plan = plan_of(source, settings, looked.n_samples, with_store=True)
    facts = [looked.fingerprint, looked.n_seen, looked.n_distinct, looked.columns, numbers, choices]
    facts += [plan.precision, _values_of_function(settings, looked)]
    if plan.method == "nystrom":
        facts += [plan.method, settings.nystrom.facts()]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def settings_digest(settings: FitSettings, source: Source) -> str:
    """What tells whether files that were fitted before would be fitted in the same way."""
    approximate = [settings.method, settings.allow_approximate, settings.nystrom.facts()]
    facts = [*_choices(settings), source.columns, approximate]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _choices(settings: FitSettings) -> tuple[list[Any], dict[str, Any]]:
    """The numbers of the kernel, and all else that a basis depends on, but for landmarks."""
    unlike = {"kernel", "storage", "memory_limit", "disk_limit", "checkpoint_seconds", "merge_duplicates"}
    unlike |= {"core_hours", "allow_approximate", "nystrom", "tiles_in_bucket"}
    kernel = settings.kernel
    numbers = [kernel.name, kernel.gamma, kernel.degree, kernel.coef0]
    return numbers, {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in unlike}


def _values_of_function(settings: FitSettings, looked: Sweep) -> str | None:
    """What tells a function of one's own from another one under its name."""
    if not is_function_name(settings.kernel.name):
        return None
    kernel = resolve_kernel(settings.kernel, looked.moments, looked.sample, scale=settings.scale)
    return own_values(kernel, looked.sample)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collects the warnings of a fit for its summary, and passes them on."""
    told: list[str] = []
    show = warnings.showwarning

    def keep(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        if issubclass(category, KpcaStreamWarning):
            told.append(str(message))
        show(message, category, *rest, **more)

    warnings.showwarning = keep
    try:
        yield told
    finally:
        warnings.showwarning = show


def warn_of_fewer(basis: Basis, settings: FitSettings) -> None:
    """Warn of fewer components than asked for; a DataError where there is none."""
    kept, asked = basis.n_components, settings.n_components
    if kept == 0:
        raise DataError(
            "no component has a positive eigenvalue: to this kernel all rows are the same; use another kernel"
        )
    if isinstance(asked, int) and kept < asked:
        warnings.warn(
            f"only {kept} of {asked} components have a positive eigenvalue; the basis holds these",
            KpcaStreamWarning,
            stacklevel=2,
        )


def manifest_of(name: str, summary: FitSummary, **more: Any) -> dict[str, Any]:
    """What a version is published with: the name of its fit, when, by what and how it was made."""
    created = time.strftime(CREATED, time.gmtime())
    facts = {"summary": as_json(summary), "packages": package_versions()}
    return {"fit": name, "created": created, **facts, **more}
