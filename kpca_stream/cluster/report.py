"""Dask's own report of what every worker did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kpca_stream.cluster.extras import needs


@contextmanager
def written(path: str | None) -> Iterator[None]:
    """Write the report of the block to `path`, an HTML file, if given.

    Raises
    ------
    ConfigError
        Without the extra ``dashboard``.
    """
    if path is None:
        yield
        return
    needs("bokeh", "dashboard", "cluster.performance_report")
    from distributed import performance_report

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with performance_report(filename=path):
        yield
