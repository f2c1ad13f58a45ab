"""Choosing a kernel's numbers."""

from kpca_stream.tuning.candidates import Around, Grid
from kpca_stream.tuning.plot import plot_tuning
from kpca_stream.tuning.trying import TuneSettings, tune, tuned

__all__ = ["Around", "Grid", "TuneSettings", "plot_tuning", "tune", "tuned"]
