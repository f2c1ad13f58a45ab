"""Scheduled re-fits: decide, fit warm, compare, and publish or refuse."""

from kpca_stream.refitting.driver import refit_config

__all__ = ["refit_config"]
