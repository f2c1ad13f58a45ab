"""One look at all rows: finiteness, moments, a sample, the fingerprint, duplicates, and the rows' address."""

from kpca_stream.stages.sweep.look import Sweep, sweep

__all__ = ["Sweep", "sweep"]
