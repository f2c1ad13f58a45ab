"""The report of a model, and its plots for Python: one call each, returning Matplotlib's axes.

Needs the extra ``report``: Matplotlib and Jinja2, imported when a plot is made.
"""

from kpca_stream.report.drift import drift_plot
from kpca_stream.report.kernel import kernel_map
from kpca_stream.report.maps import component_map
from kpca_stream.report.novelty import novelty_plot
from kpca_stream.report.palette import DARK, LIGHT, Palette
from kpca_stream.report.spectrum import explained, scree

__all__ = [
    "DARK",
    "LIGHT",
    "Palette",
    "component_map",
    "drift_plot",
    "explained",
    "kernel_map",
    "novelty_plot",
    "scree",
]
